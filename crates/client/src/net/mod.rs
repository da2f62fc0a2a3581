//! Connections to control planes: sockets, HTTP/2, TLS and credentials.
//!
//! ```text
//!   bootstrap::Server ──► ServerLink (link.rs)               one connection for all streams of a client
//!                            │
//!                         ServerConnection (connection.rs)   a gRPC service for tonic's clients
//!                            │
//!             credentials/ ──┤  ChannelCredentials: TLS handshake; CallCredentials: headers of each call
//!             transport/ ────┘  resolves the address, opens the socket, waits for the server's SETTINGS
//! ```
//!
//! `oxds-net` has the transport and the credentials that other clients share. Nothing here knows xDS. No decision about retries or backoff is made here either: the state machines of
//! `oxds_core` make them. The crate root re-exports `credentials`, `transport` and `ServerConnection`.

mod codec;
mod connection;
pub mod credentials;
mod link;

pub(crate) use codec::RequestCodec;
pub use connection::{ServerBody, ServerConnection};
pub(crate) use link::{ServerLink, ServerLinks};
pub use oxds_net::transport;
