//! Discovery over gRPC and REST: ADS, the services of single resource types, `Fetch*`, and polls.
//!
//! ```text
//!  request body ──▶ decoder ──▶ ┌─────────┐ ──▶ frames ──▶ response body
//!                               │ Session │
//!  cache ───────── wake ──────▶ └─────────┘ ──▶ events ──▶ index, metrics, log
//! ```
//!
//! A stream has no task and no queue: the session runs when the transport has room for its response and polls the body.
//! A client that stops reading is not polled. It costs one cursor and the rest of one response, and delays no other
//! client (S-76).

mod authorize;
mod poll;
mod service;
mod service_scope;
mod stream;

pub(crate) use poll::{deny_without_certificate, rest_router, wait_preferred};
pub(crate) use service::DiscoveryService;
