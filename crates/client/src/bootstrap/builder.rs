//! A bootstrap in code.

use oxds_types::discovery::Node;

use super::{
    Bootstrap, BootstrapError, CallCredentials, ChannelCredentials, Configured, Features,
    NameSyntax, Origin, Server, TransportPolicy, node,
};
use crate::transport::ServerUri;

/// Makes a [`Bootstrap`].
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

    /// A server for when those before it cannot be reached (gRFC A71).
    pub fn fallback_server(mut self, server_uri: impl Into<String>) -> Self {
        self.uris.push(server_uri.into());
        self
    }

    /// How to connect to the servers: in plaintext unless told.
    pub fn credentials(mut self, credentials: Configured<dyn ChannelCredentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// What every call to the servers shows, beside what was given before.
    pub fn call_credentials(mut self, credentials: Configured<dyn CallCredentials>) -> Self {
        self.call_credentials.push(credentials);
        self
    }

    /// The node's id.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node.id = id.into();
        self
    }

    /// The node's cluster.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.node.cluster = cluster.into();
        self
    }

    /// The node's metadata, a JSON object; anything else is none.
    pub fn metadata(mut self, metadata: &serde_json::Value) -> Self {
        self.node.metadata = metadata.as_object().map(node::structure);
        self
    }

    /// What the servers are known to do.
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// In which version of the API the servers are asked.
    pub fn transport(mut self, policy: TransportPolicy) -> Self {
        self.transport = policy;
        self
    }

    /// How a channel's listener is named: `%s` stands for the target's service.
    pub fn listener_template(mut self, template: impl Into<String>) -> Self {
        self.listener_template = template.into();
        self
    }

    /// The bootstrap.
    ///
    /// # Errors
    /// A server's URI that is none.
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
