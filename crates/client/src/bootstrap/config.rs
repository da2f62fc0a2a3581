//! Contents of a bootstrap, and what clients and servers look up in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::ads::NameSyntax;
use oxds_core::resource::TlsRules;
use oxds_net::transport::ServerUri;
use oxds_types::ApiVersion;
use oxds_types::discovery::Node;
use oxds_types::identity::Majors;

use super::error::{BootstrapError, Origin};
use super::policy::{Features, TlsFeatures, TransportPolicy};
use super::template;
use crate::certificates::CertificateProviders;
use crate::credentials::{CallCredentials, ChannelCredentials, Configured};

/// Control planes of a process, and its node.
///
/// It has at least one server, unless it was made by [`Bootstrap::without_servers`].
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    pub(crate) servers: Vec<Server>,
    pub(crate) authorities: BTreeMap<String, Authority>,
    pub(crate) node: Node,
    pub(crate) listener_template: String,
    pub(crate) server_listener_template: Option<String>,
    /// Meaning of resource names, as the environment said when the bootstrap was read (C-48).
    pub(crate) names: NameSyntax,
    /// Load reports contain the metrics that clusters list (gRFC A85); decided by the same environment (C-143).
    pub(crate) listed_metrics: bool,
    pub(crate) certificate_providers: CertificateProviders,
    /// Fields of TLS contexts that are read, as the environment said when the bootstrap was read.
    pub(crate) tls_features: TlsFeatures,
    pub(crate) allowed_grpc_services: BTreeMap<String, AllowedGrpcService>,
}

/// One control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Server {
    /// `server_uri` as written: a gRPC target.
    pub uri: String,
    /// `server_uri` as parsed.
    pub address: ServerUri,
    /// Channel credentials of its connections.
    pub credentials: Configured<dyn ChannelCredentials>,
    /// Call credentials of every call to it (gRFC A97). They are not sent over plaintext.
    pub call_credentials: Vec<Configured<dyn CallCredentials>>,
    /// `server_features` of this server.
    pub features: Features,
    /// Version of the xDS API of the requests to it.
    pub transport: TransportPolicy,
}

/// Settings of one authority of resource names (gRFC A47).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Authority {
    /// Servers of the authority, in order of preference; empty means the top-level servers.
    pub servers: Vec<Server>,
    /// Template for the listener name of a channel target with this authority.
    pub listener_template: Option<String>,
    /// Whether an unreachable server alone triggers fallback, even if all watched resources are cached (gRFC A95).
    pub fallback_on_reachability_only: bool,
}

/// Credentials for a gRPC service that a resource may name even if its control plane is not trusted (gRFC A102).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AllowedGrpcService {
    /// Channel credentials of its connections.
    pub credentials: Configured<dyn ChannelCredentials>,
    /// Call credentials of every call to it.
    pub call_credentials: Vec<Configured<dyn CallCredentials>>,
}

impl Server {
    /// Returns the version of the xDS API of the requests to it, for resources (ADS) and load reports (LRS) alike
    /// (C-60).
    #[must_use]
    pub fn version(&self) -> ApiVersion {
        self.transport.version(self.features)
    }
}

impl Bootstrap {
    /// Returns the top-level control planes, in order of preference.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the authorities that resource names and channel targets may have.
    #[must_use]
    pub fn authorities(&self) -> &BTreeMap<String, Authority> {
        &self.authorities
    }

    /// Returns the node that requests carry: the bootstrap's fields, and this library's user agent and features.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the template for the listener name of a gRPC server, if it is set (gRFC A36).
    #[must_use]
    pub fn server_listener_template(&self) -> Option<&str> {
        self.server_listener_template.as_deref()
    }

    /// Returns the certificate provider instances by name (gRFC A29). Those of unknown plugins are skipped (C-26).
    #[must_use]
    pub fn certificate_providers(&self) -> &CertificateProviders {
        &self.certificate_providers
    }

    /// Returns the rules that TLS contexts of resources are checked with.
    pub(crate) fn tls_rules(&self) -> TlsRules {
        let names = self.certificate_providers.keys();
        let names = names.map(|name| Arc::from(name.as_str()));
        TlsRules {
            instances: Some(Arc::new(names.collect())),
            system_roots: self.tls_features.system_roots,
            sni: self.tls_features.sni,
        }
    }

    /// Returns the services that any resource may name, by target URI (gRFC A102). They are read only if
    /// `GRPC_EXPERIMENTAL_XDS_EXT_PROC_ON_CLIENT` or `GRPC_EXPERIMENTAL_XDS_EXT_AUTHZ_ON_CLIENT` is `true`.
    #[must_use]
    pub fn allowed_grpc_services(&self) -> &BTreeMap<String, AllowedGrpcService> {
        &self.allowed_grpc_services
    }

    /// Returns the listener name of a gRPC server that listens on this address.
    ///
    /// # Errors
    /// `server_listener_resource_name_template` is not set. Processes without gRPC servers do not need it, so its
    /// absence is an error only here (gRFC A36).
    pub fn server_listener_name(&self, listening: SocketAddr) -> Result<String, BootstrapError> {
        let Some(template) = &self.server_listener_template else {
            return Err(BootstrapError::Field {
                origin: Origin::Given,
                path: "server_listener_resource_name_template".to_owned(),
                reason: "must be set for an xDS server".to_owned(),
            });
        };
        Ok(template::fill(template, &listening.to_string()))
    }

    /// Checks that every server can be asked in one of these majors (V-48, V-49). A server with
    /// [`TransportPolicy::V2Only`] passes: its configuration asks for the previous major.
    ///
    /// ```
    /// use oxds_client::Bootstrap;
    /// use oxds_types::identity::{Major, Majors};
    ///
    /// let json = r#"{ "xds_servers": [{ "server_uri": "old:18000", "channel_creds": [{ "type": "insecure" }],
    ///                                   "transport_api_version": "AUTO" }] }"#;
    /// let bootstrap = Bootstrap::from_json(json)?;
    /// let current: Majors = [Major::V3].into_iter().collect();
    /// let error = bootstrap.check_majors(&current).unwrap_err().to_string();
    /// assert!(error.ends_with("no common API version: the client allows v3; the server supports v2"));
    /// # Ok::<_, oxds_client::BootstrapError>(())
    /// ```
    ///
    /// # Errors
    /// [`BootstrapError::Field`] with the server, and the majors of both sides.
    pub fn check_majors(&self, allowed: &Majors) -> Result<(), BootstrapError> {
        let check = |path: &str, servers: &[Server]| {
            for (index, server) in servers.iter().enumerate() {
                let negotiated = server.transport.negotiate(server.features, allowed);
                negotiated.map_err(|none| BootstrapError::Field {
                    origin: Origin::Given,
                    path: format!("{path}[{index}].server_features"),
                    reason: none.to_string(),
                })?;
            }
            Ok(())
        };
        check("xds_servers", &self.servers)?;
        for (name, authority) in &self.authorities {
            check(
                &format!("authorities.{name}.xds_servers"),
                &authority.servers,
            )?;
        }
        Ok(())
    }

    /// Sets the transport policy of every server, including those of authorities, to the result of `policy`.
    ///
    /// ```
    /// use oxds_client::bootstrap::{Bootstrap, TransportPolicy};
    /// use oxds_types::ApiVersion;
    ///
    /// let json = r#"{ "xds_servers": [{ "server_uri": "old:18000", "channel_creds": [{ "type": "insecure" }] }] }"#;
    /// let bootstrap = Bootstrap::from_json(json)?.with_transport(|_| TransportPolicy::Auto);
    /// assert_eq!(bootstrap.servers()[0].version(), ApiVersion::V2);
    /// # Ok::<_, oxds_client::BootstrapError>(())
    /// ```
    #[must_use]
    pub fn with_transport(mut self, policy: impl Fn(&Server) -> TransportPolicy) -> Self {
        let own = self.authorities.values_mut();
        let own = own.flat_map(|authority| &mut authority.servers);
        for server in self.servers.iter_mut().chain(own) {
            server.transport = policy(server);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(policy: TransportPolicy) -> Vec<ApiVersion> {
        let entry = |uri: &str, features: &str| {
            format!(
                r#"{{ "server_uri": "{uri}:1", "channel_creds": [{{ "type": "insecure" }}],
                      "server_features": [{features}] }}"#
            )
        };
        let json = format!(
            r#"{{ "xds_servers": [{}, {}], "authorities": {{ "a": {{ "xds_servers": [{}] }} }} }}"#,
            entry("both", r#""xds_v3""#),
            entry("old", ""),
            entry("odd", r#""xds_v4", 3"#),
        );
        let bootstrap = Bootstrap::from_json(&json).unwrap();
        assert_eq!(
            bootstrap.servers()[0].transport,
            TransportPolicy::V3Only,
            "the default"
        );
        let bootstrap = bootstrap.with_transport(|_| policy);
        let own = &bootstrap.authorities()["a"].servers;
        let servers = bootstrap.servers().iter().chain(own);
        servers.map(Server::version).collect()
    }

    #[test]
    fn c49_v3_only_ignores_server_features() {
        assert_eq!(versions(TransportPolicy::V3Only), [ApiVersion::V3; 3]);
    }

    #[test]
    fn c50_auto_uses_highest_common_version() {
        use ApiVersion::{V2, V3};
        assert_eq!(versions(TransportPolicy::Auto), [V3, V2, V2]);
        assert_eq!(versions(TransportPolicy::V2Only), [V2; 3]);
    }

    #[test]
    fn c51_each_server_has_its_own_transport_policy() {
        let built = Bootstrap::builder("new:1").fallback_server("old:1");
        let bootstrap = built
            .build()
            .unwrap()
            .with_transport(|server| match server.uri.as_str() {
                "old:1" => TransportPolicy::V2Only,
                _ => TransportPolicy::Auto,
            });
        let versions = bootstrap.servers().iter().map(Server::version);
        assert_eq!(
            versions.collect::<Vec<_>>(),
            [ApiVersion::V3, ApiVersion::V2]
        );
    }
}
