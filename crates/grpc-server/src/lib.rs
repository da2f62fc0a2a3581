//! gRPC servers for tonic services, configured by an xDS control plane (gRFC A36): which connections they accept, and
//! which RPCs they process.
//!
//! ```text
//!   connection ─► XdsServer: listener ─► filter chain ─► virtual host, route ─► HTTP filters ─► tonic services
//!                    ▲                                         ▲
//!                    │ generations: a new listener             │ replaced in place
//!                    │ drains the connections of the old one   │
//!   control plane ───┴──── LDS ────────────────────────────────┴──── RDS          (oxds-client)
//! ```
//!
//! It takes the services that tonic generates, in the place of `tonic::transport::Server`. Here it is the health
//! service:
//!
//! ```no_run
//! use oxds_grpc_server::XdsServer;
//! use tonic_health::server::health_reporter;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let (_reporter, health) = health_reporter();
//!     // The bootstrap is in GRPC_XDS_BOOTSTRAP (a path) or GRPC_XDS_BOOTSTRAP_CONFIG (JSON).
//!     let server = XdsServer::builder()
//!         .add_service(health)
//!         .on_serving_mode(|address, mode| println!("{address}: {mode}"))
//!         .build()?;
//!     server.serve("[::]:50051".parse()?).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Life of a server
//!
//! - **Not serving** until the control plane has sent the listener for the address, and all route configurations that
//!   it names. The address is bound, so that no other process takes it, but does not listen: connections are refused,
//!   and clients go elsewhere.
//! - **Serving**: each connection uses the filter chain that matches it. A connection that no chain matches is closed
//!   before a byte is sent.
//! - A new version of the listener is for new connections. Older ones get a GOAWAY, finish their RPCs, and are closed
//!   after [`drain_grace`](Builder::drain_grace) at the latest. A new version of a route configuration is for all RPCs
//!   that start later.
//! - An invalid resource is NACKed, and the last valid version stays in use. Without one, the server does not serve, or
//!   the RPCs of the chain fail with `UNAVAILABLE`.
//! - If the control plane deletes the listener, the server stops listening and drains its connections. If it cannot be
//!   reached, nothing changes.
//!
//! # Features of xDS
//!
//! | feature | status |
//! |---|---|
//! | serving mode with a callback ([`Builder::on_serving_mode`]), several addresses in one server | yes |
//! | filter chains by destination, source type, source address and port; default chain | yes |
//! | virtual hosts and routes, from RDS or inside the listener; `non_forwarding_action` | yes |
//! | fault injection, sessions: filters of clients, which a listener may only name as optional | ignored |
//! | graceful drain of connections, graceful shutdown | yes |
//! | limits on half-open connections | yes |
//! | channelz, metrics `grpc.server.call.*` (gRFC A66), CSDS of the `#server` client | yes |
//! | TLS and mTLS by filter chain, with the certificate providers of the bootstrap ([`XdsServerCredentials`], gRFC A29) | feature `tls` |
//! | RBAC with audit logging (gRFC A41, A59), by chain, virtual host and route | yes |
//!
//! [`docs/grpc-server.md`] describes them with examples.
//!
//! # Cancel safety
//!
//! Dropping the future of [`XdsServer::serve`] closes the port and all its connections at once; use
//! [`XdsServer::serve_with_shutdown`] to drain them.
//!
//! # Cargo features
//!
//! - `tls` (off): TLS of connections, and to control planes. Without it, a filter chain with a TLS configuration
//!   accepts no connection.
//!
//! Tracing target: `oxds::grpc_server`.
//!
//! [`docs/grpc-server.md`]: https://github.com/oxds/oxds/blob/main/docs/grpc-server.md
#![cfg_attr(docsrs, feature(doc_cfg))]

mod audit;
mod body;
mod builder;
mod call;
mod connection;
mod credentials;
mod error;
mod filters;
mod handshake;
mod listening;
mod meter;
mod metrics;
mod mode;
mod security;
mod server;
mod serving;
mod shared;
mod socket;
mod status;

pub use builder::Builder;
pub use credentials::{FallbackCredentials, XdsServerCredentials};
pub use error::{BuildError, ServeError};
pub use mode::ServingMode;
#[cfg(feature = "tls")]
pub use oxds_client::certificates::Peer;
pub use oxds_client::{Bootstrap, ClientPool, Options};
#[cfg(feature = "tls")]
pub use security::PeerCertificates;
pub use server::{BoundServer, XdsServer};
pub use status::{ListenerStatus, ServerStatus};
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;
