//! Errors of a server. Faults of the control plane are not errors here: they are in the serving mode.

use std::io;
use std::net::SocketAddr;

use oxds_client::BootstrapError;

/// Error of [`Builder::build`](crate::Builder::build).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No bootstrap was given and the environment has no usable one, or the bootstrap has no
    /// `server_listener_resource_name_template` (gRFC A36).
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

/// Error of [`XdsServer::serve`](crate::XdsServer::serve).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound: another process has it, or this machine does not have it.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// Address as given.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The bootstrap has no `server_listener_resource_name_template`.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}
