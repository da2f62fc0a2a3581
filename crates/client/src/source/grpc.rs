//! Control planes that are asked for each kind on a stream of its own.

use oxds_core::ads::Protocol;

use super::config::{SourceError, server};
use crate::bootstrap::Server;

/// Control planes by gRPC, other than the bootstrap's: the discovery service of each kind (`StreamClusters`, …), so
/// that two kinds may have two servers; or ADS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grpc {
    /// The most wanted first.
    pub(crate) servers: Vec<Server>,
    pub(crate) protocol: Protocol,
    pub(crate) aggregated: bool,
}

impl Grpc {
    /// A server in plaintext, by the forms of address that a bootstrap has.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(server_uri: &str) -> Result<Self, SourceError> {
        Ok(Self::of(server("server_uri", server_uri)?))
    }

    /// A server as a bootstrap has it, with its credentials.
    #[must_use]
    pub fn of(server: Server) -> Self {
        Self {
            servers: vec![server],
            protocol: Protocol::Sotw,
            aggregated: false,
        }
    }

    /// A server for when those before it cannot be reached (gRFC A71).
    #[must_use]
    pub fn or(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// Asks for differences, not for full states.
    #[must_use]
    pub fn delta(mut self) -> Self {
        self.protocol = Protocol::Delta;
        self
    }

    /// Asks by ADS: one stream for all kinds.
    #[must_use]
    pub fn aggregated(mut self) -> Self {
        self.aggregated = true;
        self
    }
}
