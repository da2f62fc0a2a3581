//! Addresses of the clusters that config sources name.

use std::collections::BTreeMap;

use super::error::SourceError;
use crate::bootstrap::{Bootstrap, Server};

/// Servers of the clusters that config sources name, which a proxy has in its static configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clusters(pub(super) BTreeMap<String, Server>);

impl Clusters {
    /// Adds a cluster with one server, in plaintext.
    ///
    /// # Errors
    /// [`SourceError::Field`] if the URI is not a gRPC target.
    pub fn at(self, cluster: &str, server_uri: &str) -> Result<Self, SourceError> {
        let server = plaintext_server(cluster, server_uri)?;
        Ok(self.by(cluster, server))
    }

    /// Adds a cluster with one server, whose credentials are used.
    #[must_use]
    pub fn by(mut self, cluster: &str, server: Server) -> Self {
        self.0.insert(cluster.to_owned(), server);
        self
    }

    pub(super) fn find(&self, field: &str, cluster: &str) -> Result<Server, SourceError> {
        let found = self.0.get(cluster).cloned();
        found.ok_or_else(|| SourceError::UnknownCluster {
            field: field.to_owned(),
            cluster: cluster.to_owned(),
        })
    }
}

/// Returns a server in plaintext. `field` is for the error.
pub(super) fn plaintext_server(field: &str, uri: &str) -> Result<Server, SourceError> {
    let built = Bootstrap::builder(uri).build();
    let built = built.map_err(|error| SourceError::field(field, error.to_string()))?;
    let server = built.servers.into_iter().next();
    server.ok_or_else(|| SourceError::field(field, "must name a server"))
}
