//! Certificates of connections between services: provider instances of the bootstrap, and TLS with them (gRFC A29, A69,
//! A82, A87, A101).
//!
//! ```text
//!   certificate_providers ──► CertificateProviderInstance ──► CertificateProvider: file_watcher, plugins
//!   (bootstrap)                                                  │ Identity, TrustedRoots: the current ones
//!   Cluster ─────► UpstreamTls ───► ClientTls ◄──────────────────┤    connect ──► Socket
//!   FilterChain ─► DownstreamTls ─► ServerTls ◄──────────────────┘    accept ───► TlsStream, Peer
//! ```
//!
//! A [`ClientTls`] or [`ServerTls`] keeps the configuration of its handshakes until a provider returns another
//! certificate: all connections with the same settings share one configuration, and so resume sessions. New
//! certificates apply to new connections; connections that are open stay open.

#[cfg(feature = "tls")]
mod client;
#[cfg(feature = "tls")]
mod client_verifier;
#[cfg(feature = "tls")]
mod error;
#[cfg(feature = "tls")]
mod explain;
#[cfg(feature = "tls")]
mod file_watcher;
mod instance;
#[cfg(feature = "tls")]
mod material;
#[cfg(feature = "tls")]
mod names;
#[cfg(feature = "tls")]
mod peer;
#[cfg(feature = "tls")]
mod provider;
#[cfg(feature = "tls")]
mod reading;
#[cfg(feature = "tls")]
mod revocation;
#[cfg(feature = "tls")]
mod server;
#[cfg(feature = "tls")]
mod shared;
#[cfg(feature = "tls")]
mod source;
#[cfg(feature = "tls")]
mod strength;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(feature = "tls")]
pub use client::{ClientTls, EndpointTls};
#[cfg(feature = "tls")]
pub use error::{CertificateError, TlsError};
#[cfg(feature = "tls")]
pub use file_watcher::FileWatcher;
pub use instance::{CertificateProviderInstance, CertificateProviders, FILE_WATCHER};
#[cfg(feature = "tls")]
pub use material::{Identity, TrustedRoots};
#[cfg(feature = "tls")]
pub use peer::Peer;
#[cfg(feature = "tls")]
pub use provider::CertificateProvider;
#[cfg(feature = "tls")]
pub use revocation::RevocationLists;
#[cfg(feature = "tls")]
pub use server::{Accepted, ServerTls};
