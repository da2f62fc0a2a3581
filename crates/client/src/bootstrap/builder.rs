//! Builds a bootstrap in code.

use envoy_types::pb::envoy::config::core::v3::{BuildVersion, node::UserAgentVersionType};
use oxds_core::ads::NameSyntax;
use oxds_net::transport::ServerUri;
use oxds_types::ApiVersion;
use oxds_types::discovery::Node;
use oxds_types::identity::{ClientFeatures, InvalidFeature, SemVer};
use tracing::warn;

use super::config::{Bootstrap, Server};
use super::error::{BootstrapError, Origin};
use super::extension::Extension;
use super::node;
use super::policy::{Features, TlsFeatures, TransportPolicy};
use crate::certificates::{CertificateProviderInstance, CertificateProviders};
use crate::credentials::{CallCredentials, ChannelCredentials, Configured};

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
    server_listener_template: Option<String>,
    certificate_providers: CertificateProviders,
    tls_features: TlsFeatures,
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
            server_listener_template: None,
            certificate_providers: CertificateProviders::new(),
            tls_features: TlsFeatures::default(),
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

    /// Sets the name of the user agent; the default is `oxds`. Servers show it to people; no server may select
    /// resources by it (V-51).
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.node.user_agent_name = name.into();
        self
    }

    /// Sets the version of the user agent as text. It replaces a build version.
    pub fn user_agent_version(mut self, version: impl Into<String>) -> Self {
        let version = UserAgentVersionType::UserAgentVersion(version.into());
        self.node.user_agent_version_type = Some(version);
        self
    }

    /// Sets the build version of the user agent, and metadata about the build from a JSON object; any other JSON value
    /// means none. It replaces a version that is text.
    pub fn build_version(mut self, version: SemVer, metadata: &serde_json::Value) -> Self {
        let version = UserAgentVersionType::UserAgentBuildVersion(BuildVersion {
            version: Some(version.into()),
            metadata: metadata.as_object().map(node::structure),
        });
        self.node.user_agent_version_type = Some(version);
        self
    }

    /// Adds an extension that this program has (V-52).
    pub fn extension(mut self, extension: Extension) -> Self {
        self.node.extensions.push(extension.into());
        self
    }

    /// Adds a client feature: a promise to the servers, in reverse DNS form. One that is not in the
    /// [registry](ClientFeatures) of the API is sent, too, and logged as a warning (V-53).
    ///
    /// # Errors
    /// [`InvalidFeature`] if the name has another form.
    pub fn client_feature(mut self, feature: impl Into<String>) -> Result<Self, InvalidFeature> {
        let feature = feature.into();
        ClientFeatures::check(&feature)?;
        if !ClientFeatures::of(ApiVersion::V3).has(&feature) {
            warn!(target: "oxds::ads", %feature, "client feature is not registered: servers may not know it");
        }
        if !self.node.client_features.contains(&feature) {
            self.node.client_features.push(feature);
        }
        Ok(self)
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

    /// Sets the template for the listener name of a gRPC server; `%s` stands for the address that it listens on (gRFC
    /// A36).
    pub fn server_listener_template(mut self, template: impl Into<String>) -> Self {
        self.server_listener_template = Some(template.into());
        self
    }

    /// Adds a certificate provider instance, which TLS contexts of resources may name (gRFC A29).
    pub fn certificate_provider(
        mut self,
        name: impl Into<String>,
        instance: CertificateProviderInstance,
    ) -> Self {
        self.certificate_providers.insert(name.into(), instance);
        self
    }

    /// Sets the experimental fields of TLS contexts that are read; none by default.
    pub fn tls_features(mut self, features: TlsFeatures) -> Self {
        self.tls_features = features;
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
            server_listener_template: self.server_listener_template,
            names: NameSyntax::default(),
            listed_metrics: true,
            certificate_providers: self.certificate_providers,
            tls_features: self.tls_features,
            allowed_grpc_services: Default::default(),
        })
    }
}
