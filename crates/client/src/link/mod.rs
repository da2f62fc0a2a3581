//! Connections to control planes.
//!
//! ```text
//!   bootstrap::Server ──► ServerLink (links.rs)              one connection for all streams of a client
//!                            │
//!                         ServerConnection (connection.rs)   a gRPC service for tonic's clients
//!                            │
//!                         CallAuth (call_auth.rs)            headers of each call
//! ```
//!
//! `oxds_net` opens the sockets. No decision about retries or backoff is made here: the state machines of `oxds_core`
//! make them.

mod call_auth;
mod codec;
mod connection;
mod links;

#[cfg(feature = "rest")]
pub(crate) use call_auth::CallAuth;
pub(crate) use codec::RequestCodec;
pub use connection::{ServerBody, ServerConnection};
pub(crate) use links::{ServerLink, ServerLinks};
