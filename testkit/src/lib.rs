//! Servers that misbehave on purpose, and the end-to-end tests.
//!
//! ```text
//!   ControlPlane ── next_stream() ─► AdsStream ── request() ◄── requests of the client
//!    kill, restart                      │
//!    reject, go silent                └── send, repeat, garble, end ──► responses to it
//! ```
//!
//! [`ControlPlane`] knows no protocol beyond gRPC's framing: the test decides what it sends, and when. It withholds its
//! response headers until its first response, as some control planes do (C-64). [`RestPlane`] does the same for clients
//! that poll. [`etcd`] is an etcd that breaks its guarantees. As a well-behaved control plane, tests use
//! `folder_server` (feature `server`); as backends, `oxds_channel::testing`.
//!
//! None of this is a product, and nothing waits longer than [`SOON`].

pub mod certificates;
mod control_plane;
pub mod etcd;
#[cfg(feature = "server")]
pub mod folder_server;
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

/// Deadline for events in tests: long enough for a loaded machine, and never reached when a test passes.
pub const SOON: Duration = Duration::from_secs(30);

/// Compiles the examples of the repository's front page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct FrontPage;
