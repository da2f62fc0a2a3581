//! Builds a bootstrap in code.

use oxds_core::ads::NameSyntax;
use oxds_types::discovery::Node;

use super::config::{Bootstrap, Server};
use super::error::{BootstrapError, Origin};
use super::node;
use super::policy::{Features, TransportPolicy};
use crate::net::credentials::{CallCredentials, ChannelCredentials, Configured};
use crate::net::transport::ServerUri;

/// Builder of a [`Bootstrap`]. All servers get the same credentials, features and transport policy.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    uris: Vec<String>,
    credentials: Configured<dyn ChannelCredentials>,
    call_credentials: Vec<Configured<dyn CallCredentials>>,
    features: Features,
    transport: TransportPolicy,
    node: Node,
    listener_template: String,
}

impl Builder {
    pub(super) fn new(uris: Vec<String>) -> Self {
        Self {
            uris,
            credentials: Configured::insecure(),
            call_credentials: Vec::new(),
            features: Features {
                xds_v3: true,
                ..Features::default()
            },
            transport: TransportPolicy::default(),
            node: node::anonymous(),
            listener_template: "%s".to_owned(),
        }
    }

    /// Adds a server that is used while those before it are unreachable (gRFC A71).
    pub fn fallback_server(mut self, server_uri: impl Into<String>) -> Self {
        self.uris.push(server_uri.into());
        self
    }

    /// Sets the channel credentials of all servers; the default is plaintext.
    pub fn credentials(mut self, credentials: Configured<dyn ChannelCredentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// Adds call credentials to every call to the servers.
    pub fn call_credentials(mut self, credentials: Configured<dyn CallCredentials>) -> Self {
        self.call_credentials.push(credentials);
        self
    }

    /// Sets the id of the node.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node.id = id.into();
        self
    }

    /// Sets the cluster of the node.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.node.cluster = cluster.into();
        self
    }

    /// Sets the metadata of the node from a JSON object. Any other JSON value removes it.
    pub fn metadata(mut self, metadata: &serde_json::Value) -> Self {
        self.node.metadata = metadata.as_object().map(node::structure);
        self
    }

    /// Sets the features of all servers; the default is `xds_v3` alone.
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Sets the version of the xDS API in which the servers are asked.
    pub fn transport(mut self, policy: TransportPolicy) -> Self {
        self.transport = policy;
        self
    }

    /// Sets the template for the listener name of a channel target; `%s` stands for the target's service.
    pub fn listener_template(mut self, template: impl Into<String>) -> Self {
        self.listener_template = template.into();
        self
    }

    /// Builds the bootstrap.
    ///
    /// # Errors
    /// [`BootstrapError::Field`] if the URI of a server is not a gRPC target.
    pub fn build(self) -> Result<Bootstrap, BootstrapError> {
        let servers = self.uris.into_iter().enumerate().map(|(index, uri)| {
            let address = ServerUri::parse(&uri).map_err(|reason| BootstrapError::Field {
                origin: Origin::Given,
                path: format!("xds_servers[{index}].server_uri"),
                reason,
            })?;
            Ok(Server {
                uri,
                address,
                credentials: self.credentials.clone(),
                call_credentials: self.call_credentials.clone(),
                features: self.features,
                transport: self.transport,
            })
        });
        Ok(Bootstrap {
            servers: servers.collect::<Result<_, _>>()?,
            authorities: Default::default(),
            node: self.node,
            listener_template: self.listener_template,
            server_listener_template: None,
            names: NameSyntax::default(),
            listed_metrics: true,
            certificate_providers: Default::default(),
            allowed_grpc_services: Default::default(),
        })
    }
}
