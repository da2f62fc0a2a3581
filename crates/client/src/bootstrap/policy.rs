//! In which version of the API a control plane is asked (gRFC A30).

use oxds_types::ApiVersion;

use super::{Bootstrap, Features, Server};

/// In which version of the API a control plane is asked. It may answer in either, whatever it was asked in.
///
/// No bootstrap file says it: see [`Bootstrap::with_transport`] and [`Builder::transport`](super::Builder::transport).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TransportPolicy {
    /// In v3, whatever its features say: what gRPC does today (C-49).
    #[default]
    V3Only,
    /// In the highest version that it and this client know: v3 if its features have `xds_v3`, else v2, which has no
    /// feature of its own (C-50).
    Auto,
    /// In v2, whatever its features say.
    V2Only,
}

impl TransportPolicy {
    fn version(self, features: Features) -> ApiVersion {
        match self {
            Self::V3Only => ApiVersion::V3,
            Self::Auto if features.xds_v3 => ApiVersion::V3,
            Self::Auto | Self::V2Only => ApiVersion::V2,
        }
    }
}

impl Server {
    /// In which version of the API it is asked, for resources and about load alike (C-60).
    #[must_use]
    pub fn version(&self) -> ApiVersion {
        self.transport.version(self.features)
    }
}

impl Bootstrap {
    /// The same bootstrap, where every server, those of authorities included, is asked as this says of it.
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
            "unless told"
        );
        let bootstrap = bootstrap.with_transport(|_| policy);
        let own = &bootstrap.authorities()["a"].servers;
        let servers = bootstrap.servers().iter().chain(own);
        servers.map(Server::version).collect()
    }

    #[test]
    fn c49_v3_alone_is_asked_in_whatever_the_features_say() {
        assert_eq!(versions(TransportPolicy::V3Only), [ApiVersion::V3; 3]);
    }

    #[test]
    fn c50_the_highest_version_in_common_is_asked_in() {
        use ApiVersion::{V2, V3};
        assert_eq!(versions(TransportPolicy::Auto), [V3, V2, V2]);
        assert_eq!(versions(TransportPolicy::V2Only), [V2; 3]);
    }

    #[test]
    fn c51_each_server_has_a_policy_of_its_own() {
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
