//! ADS over gRPC: the two streaming methods, each a body that runs a session.
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
mod decoder;
mod service;
mod stream;
mod streams;

pub(crate) use clock::Clock;
pub(crate) use service::{AdsService, Peer};
pub(crate) use stream::Context;
pub(crate) use streams::{Open, Streams};
