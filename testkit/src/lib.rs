//! Servers that misbehave on purpose, and the end-to-end tests.
//!
//! ```text
//!   ControlPlane ── next_stream() ─► AdsStream ── request() ◄── what the client asked
//!    kill, restart                      │
//!    refuse, fall silent                └── send, repeat, garble, end ──► what it is told
//! ```
//!
//! [`ControlPlane`] knows no protocol beyond gRPC's framing: what it sends, and when, is written in the test. It
//! withholds its response headers until its first response, as some control planes do (C-64). [`RestPlane`] is its like
//! for clients that poll. For a control plane that behaves, tests take `oxds-server`; for backends,
//! `oxds_channel::testing`.
//!
//! Nothing here is a product, and nothing waits longer than [`SOON`].

pub mod certificates;
mod control_plane;
pub mod hostile;
mod jwt;
pub mod resources;
mod rest;
mod tls_front;

pub use control_plane::{AdsStream, ControlPlane, LoadStream, Manners, Missed, Stream};
pub use jwt::jwt;
pub use rest::{Polled, RestPlane};
pub use tls_front::TlsFront;

use std::time::Duration;

/// Long enough for a loaded machine; nothing waits so long when all is well.
pub const SOON: Duration = Duration::from_secs(20);

/// The examples of the repository's front page compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct FrontPage;
