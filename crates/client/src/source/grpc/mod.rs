//! gRPC sources: one stream per resource type, or ADS.
//!
//! This file describes the source; `feed` and `stream` are its IO.

mod feed;
mod peer;
mod stream;

use oxds_core::ads::Protocol;
use oxds_types::ResourceType;

use super::clusters::plaintext_server;
use super::error::SourceError;
pub(super) use feed::GrpcFeed;
pub(super) use peer::GrpcPeer;

use crate::bootstrap::Server;

/// Control planes over gRPC, other than the bootstrap's.
///
/// By default, each resource type is requested on a stream of its own discovery service (`StreamClusters`, …), so two
/// types may come from two servers. [`aggregated`](Self::aggregated) selects ADS instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grpc {
    /// In order of preference.
    pub(crate) servers: Vec<Server>,
    pub(crate) protocol: Protocol,
    pub(crate) aggregated: bool,
}

impl Grpc {
    /// Returns a source with one server in plaintext; the URI has the forms of a bootstrap's `server_uri`.
    ///
    /// # Errors
    /// [`SourceError::Field`] if the URI is not a gRPC target.
    pub fn new(server_uri: &str) -> Result<Self, SourceError> {
        Ok(Self::of(plaintext_server("server_uri", server_uri)?))
    }

    /// Returns a source with one server of a bootstrap, whose credentials are used. The protocol is SotW.
    #[must_use]
    pub fn of(server: Server) -> Self {
        Self {
            servers: vec![server],
            protocol: Protocol::Sotw,
            aggregated: false,
        }
    }

    /// Adds a server that is used while those before it are unreachable (gRFC A71).
    #[must_use]
    pub fn or(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// Selects delta instead of SotW.
    #[must_use]
    pub fn delta(mut self) -> Self {
        self.protocol = Protocol::Delta;
        self
    }

    /// Selects ADS: one stream for all resource types.
    #[must_use]
    pub fn aggregated(mut self) -> Self {
        self.aggregated = true;
        self
    }

    /// Returns the peers for a resource type, in order of preference.
    pub(super) fn peers(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = Result<GrpcPeer, SourceError>> {
        let protocol = self.protocol;
        self.servers.iter().cloned().map(move |server| {
            let peer = GrpcPeer {
                server,
                of_type: (!self.aggregated).then(|| resource_type.clone()),
                protocol,
            };
            match peer.method() {
                Some(_) => Ok(peer),
                None => Err(SourceError::no_grpc_service(resource_type, protocol)),
            }
        })
    }
}
