//! Discovery over gRPC: ADS and the services of single kinds, one driver for all. A streaming call is a body that runs
//! a session; a `Fetch*` call is one answer.
//!
//! ```text
//!  request body ──▶ decoder ──▶ ┌─────────┐ ──▶ frames ──▶ response body
//!                               │ Session │
//!  cache ───────── wake ──────▶ └─────────┘ ──▶ events ──▶ index, metrics, log
//! ```
//!
//! There is no task and no queue per stream: the session runs when the transport has room for its response and
//! polls the body. A reader that stalls is not polled; it costs one cursor and whatever part of one response it has
//! not taken yet, and delays nobody (S-76).

mod body;
mod clock;
mod context;
mod decoder;
mod permit;
mod refusal;
mod service;
mod stream;
mod streams;
mod throttle;
mod unary;

pub(crate) use clock::Clock;
pub(crate) use context::Context;
pub(crate) use refusal::Refusal;
pub(crate) use service::{Discovery, Peer};
pub(crate) use streams::Streams;
