//! State machine of the xDS client: subscriptions to servers over SotW or delta streams, and the cached resources.
//!
//! ```text
//!  watch, unwatch ─► ┌──────────┐ ─► poll_transmit: open, request, close, each for one server
//!                    │  Client  │
//!  handle_opened ──► │ streams  │ ─► poll_event: resource changed, ambient error
//!  handle_response ► │ fallback │
//!  handle_closed ──► │ cache    │ ─► poll_timeout ─► handle_timeout
//!                    └──────────┘
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `client` | [`Client`]: commands, timers, and what the driver polls |
//! | `stream` | the stream to one server: its state, subscriptions and acknowledgements |
//! | `fallback` | which servers each authority asks (gRFC A71) |
//! | `response` | validation of a response |
//! | `intake` | effects of a response on stream, fallback and cache |
//! | `sources` | results of sources without a stream: REST servers and files |
//! | `cache` | the cached resources, their watchers and timers |
//!
//! Rules: xDS protocol, "ACK/NACK and versioning", "How the client specifies what resources to return", "Knowing when
//! a requested resource does not exist"; gRFC A27, A46, A47, A53, A57, A71, A88.

mod authority_id;
mod cache;
mod client;
mod config;
mod error;
mod event;
mod fallback;
mod intake;
mod response;
mod sources;
mod stream;

pub use crate::protocol::Protocol;
pub use crate::server_id::ServerId;
pub use authority_id::AuthorityId;
pub use cache::{CacheState, CacheStatus, CachedResource, FailedUpdate, VersionText};
pub use client::{Client, ClientCounters};
pub use config::{ClientConfig, DataErrors, Duplicates, NameSyntax, Server};
pub use error::{WatchError, WatchErrorReason};
pub use event::ClientEvent;
pub use response::ResponseSummary;
pub use stream::AdsTransmit;
