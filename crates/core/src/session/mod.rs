//! The server's protocol machine: one [`Session`] per stream.
//!
//! ```text
//!                    handle_request                        poll_transmit(snapshot)
//!   DiscoveryRequest ──────────────▶ ┌───────────────────┐ ──────────────────────▶ TransmitResponse { nonce, frame, … }
//!                                    │ Session           │
//!                    handle_timeout  │  one TypeSession  │ poll_event
//!   deadline reached ──────────────▶ │  per type, in the │ ──────────────────────▶ Event: Watched, Acked, Nacked, …
//!                                    │  order of sending │ poll_timeout
//!                                    └───────────────────┘ ──────────────────────▶ deadline for handle_timeout
//! ```
//!
//! # Call contract
//!
//! After a request, a timeout, or a change of the snapshot that the session asked to be woken for
//! ([`Event::Watched`]): call `handle_*` if there is one, then [`poll_transmit`](Session::poll_transmit) with the
//! current snapshot until it returns `None`, then [`poll_event`](Session::poll_event) until it returns `None`, then
//! set one timer for [`poll_timeout`](Session::poll_timeout).
//!
//! A session keeps no snapshot, so an idle one does not keep old snapshots alive. All snapshots given to it must be
//! of one lineage (made by `apply` from the previous one), and none may be older than the one before.
//!
//! # Guarantees
//!
//! - SotW and delta are two encodings of one [`Subscription`](crate::subscription::Subscription).
//! - At most one response per type is outstanding, except for names that the client subscribes to before its answer;
//!   those are sent at once (S-16, S-44).
//! - `error_detail` alone decides whether a request is a NACK; the nonce alone decides staleness.
//! - What a client has not accepted is never reported as accepted. The rest of a NACKed response is sent again, since
//!   only some clients use it; if the NACK names nothing, in parts, until the invalid resources are found.
//! - Content that a NACK or this search has shown to be invalid is not sent again until it changes (S-17, S-46). A SotW
//!   full state, which is sent again for other resources, carries the content that the client accepted before in its
//!   place (S-80), if any.
//!   One exception: a client reconnects with an unknown version, and NACKs a resource before it accepted a response; or
//!   it subscribes by name, and NACKs twice in a row. It may use an earlier copy, which leaving the resource out would
//!   remove. (It reports no resources of NACKed responses, so the server cannot know.) Its other resources are not sent
//!   again.
//! - A client keeps what it acknowledged until that is removed here.
//! - A resource is sent after its dependencies are accepted, and removed after nothing at the client refers to it.
//!   Both waits are bounded in time (S-51 … S-55).
//! - A resource that has a TTL is confirmed after half of it, to clients that support TTLs (S-49).
//! - Memory: a wildcard subscription costs one cursor per type; a subscription by name costs its names. [`Config`]
//!   has the limits.

mod config;
mod error;
mod event;
mod request;
mod response;
mod stream;
mod type_session;

pub use crate::frame::Frame;
pub use crate::nack::{Nack, NackedResource};
pub use crate::nonce::Nonce;
pub use crate::response::{ResourceErrorCode, ResourceErrorDetail};
pub use crate::status::{
    HeldBack, HeldChange, Isolating, Progress, ResourceStatus, TypeStatus, WaitsFor,
};
pub use config::{Config, Scope, UnknownTypes};
pub use error::StreamError;
pub use event::{Event, Interest, OverdueChange};
pub use request::Request;
pub use response::TransmitResponse;
pub use stream::Session;
