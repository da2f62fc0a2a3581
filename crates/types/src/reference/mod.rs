//! References between resources. `oxds validate` checks that they resolve (S-70), and make-before-break orders updates
//! by them (S-51, S-52).
//!
//! ```text
//! listener ──► route configuration ──► cluster ──► assignment
//!     │  └── inline routes, TCP proxy ──►  ▲  │
//!     └── TLS contexts ──► secret ◄────────┼──┘
//!                           aggregate ─────┘
//! ```
//! A resource that the client reads from a file (`path`, `path_config_source`) is not a reference. A route that selects
//! the cluster by a header or a plugin has no reference.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message;

use crate::ResourceType;
use crate::name::canonical;

mod slim;

/// A resource that another one refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// Type of the referenced resource.
    pub resource_type: ResourceType,
    /// Name of the referenced resource, in [canonical form](crate::name::canonical).
    pub name: Arc<str>,
}

/// Value of `Cluster.type` for clusters that use EDS.
const TYPE_EDS: i32 = 3;

/// Returns the references of an encoded resource of this type, sorted, each once. Bytes that do not decode have no
/// references.
#[must_use]
pub fn references(resource_type: &ResourceType, value: &[u8]) -> Vec<Reference> {
    let mut found = CollectedReferences::default();
    match *resource_type {
        ResourceType::LISTENER => found.message(value, CollectedReferences::listener),
        ResourceType::ROUTE => found.message(value, |f, m: &_| {
            CollectedReferences::route_configuration(f, m);
        }),
        ResourceType::SCOPED_ROUTE => {
            found.message(value, |f, m: &_| CollectedReferences::scoped_route(f, m));
        }
        ResourceType::VIRTUAL_HOST => {
            found.message(value, |f, m: &_| CollectedReferences::virtual_host(f, m));
        }
        ResourceType::CLUSTER => found.message(value, CollectedReferences::cluster),
        _ => {}
    }
    found
        .0
        .into_iter()
        .map(|(resource_type, name)| Reference {
            resource_type,
            name: name.into(),
        })
        .collect()
}

/// Returns whether resources of type `from` may refer to resources of type `to`.
#[must_use]
pub fn may_refer(from: &ResourceType, to: &ResourceType) -> bool {
    let targets: &[ResourceType] = match *from {
        ResourceType::LISTENER => &[
            ResourceType::ROUTE,
            ResourceType::CLUSTER,
            ResourceType::SECRET,
            ResourceType::EXTENSION_CONFIG,
        ],
        ResourceType::SCOPED_ROUTE => &[ResourceType::ROUTE],
        ResourceType::ROUTE | ResourceType::VIRTUAL_HOST => &[ResourceType::CLUSTER],
        ResourceType::CLUSTER => &[
            ResourceType::CLUSTER,
            ResourceType::ENDPOINT,
            ResourceType::SECRET,
        ],
        _ => &[],
    };
    targets.contains(to)
}

#[derive(Default)]
struct CollectedReferences(BTreeSet<(ResourceType, String)>);

impl CollectedReferences {
    /// Decodes a message, and collects its references.
    fn message<M: Message + Default>(&mut self, value: &[u8], collect: impl Fn(&mut Self, &M)) {
        if let Ok(message) = M::decode(value) {
            collect(self, &message);
        }
    }

    fn add(&mut self, resource_type: ResourceType, name: &str) {
        if !name.is_empty() {
            self.0.insert((resource_type, canonical(name).into_owned()));
        }
    }

    /// Adds a reference, unless the client reads the resource from a file.
    fn add_from(
        &mut self,
        source: Option<&slim::ConfigSource>,
        resource_type: ResourceType,
        name: &str,
    ) {
        if source.is_some_and(|s| s.path.is_none() && s.path_config_source.is_none()) {
            self.add(resource_type, name);
        }
    }

    fn listener(&mut self, listener: &slim::Listener) {
        for chain in listener
            .filter_chains
            .iter()
            .chain(&listener.default_filter_chain)
        {
            chain
                .transport_socket
                .iter()
                .for_each(|socket| self.transport_socket(socket));
            for filter in &chain.filters {
                filter
                    .typed_config
                    .iter()
                    .for_each(|config| self.filter(config));
                self.extension(filter.config_discovery.as_ref(), &filter.name);
            }
        }
        let api_listener = listener
            .api_listener
            .as_ref()
            .and_then(|l| l.api_listener.as_ref());
        api_listener
            .into_iter()
            .for_each(|config| self.filter(config));
    }

    fn extension(&mut self, source: Option<&slim::ExtensionConfigSource>, name: &str) {
        let source = source.and_then(|source| source.config_source.as_ref());
        self.add_from(source, ResourceType::EXTENSION_CONFIG, name);
    }

    fn filter(&mut self, config: &slim::Any) {
        match config
            .type_url
            .rsplit_once('/')
            .map_or("", |(_, name)| name)
        {
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
            | "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager" => {
                self.message(&config.value, Self::http_connection_manager);
            }
            "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
            | "envoy.config.filter.network.tcp_proxy.v2.TcpProxy" => {
                self.message(&config.value, |found, proxy: &slim::TcpProxy| {
                    found.add(ResourceType::CLUSTER, &proxy.cluster);
                    proxy
                        .weighted_clusters
                        .iter()
                        .for_each(|w| found.weighted_clusters(w));
                });
            }
            _ => {}
        }
    }

    fn http_connection_manager(&mut self, manager: &slim::HttpConnectionManager) {
        if let Some(rds) = &manager.rds {
            self.add_from(
                rds.config_source.as_ref(),
                ResourceType::ROUTE,
                &rds.route_config_name,
            );
        }
        manager
            .route_config
            .iter()
            .for_each(|routes| self.route_configuration(routes));
        let scopes = manager
            .scoped_routes
            .iter()
            .filter_map(|s| s.scoped_route_configurations_list.as_ref());
        for scope in scopes.flat_map(|list| &list.scoped_route_configurations) {
            self.scoped_route(scope);
        }
        for filter in &manager.http_filters {
            self.extension(filter.config_discovery.as_ref(), &filter.name);
        }
    }

    fn scoped_route(&mut self, scope: &slim::ScopedRouteConfiguration) {
        self.add(ResourceType::ROUTE, &scope.route_configuration_name);
        scope
            .route_configuration
            .iter()
            .for_each(|routes| self.route_configuration(routes));
    }

    fn route_configuration(&mut self, routes: &slim::RouteConfiguration) {
        self.mirrors(&routes.request_mirror_policies);
        routes
            .virtual_hosts
            .iter()
            .for_each(|host| self.virtual_host(host));
    }

    fn virtual_host(&mut self, host: &slim::VirtualHost) {
        self.mirrors(&host.request_mirror_policies);
        for action in host.routes.iter().filter_map(|route| route.route.as_ref()) {
            self.add(ResourceType::CLUSTER, &action.cluster);
            action
                .weighted_clusters
                .iter()
                .for_each(|w| self.weighted_clusters(w));
            self.mirrors(&action.request_mirror_policies);
        }
    }

    fn weighted_clusters(&mut self, weighted: &slim::WeightedCluster) {
        weighted
            .clusters
            .iter()
            .for_each(|cluster| self.add(ResourceType::CLUSTER, &cluster.name));
    }

    fn mirrors(&mut self, policies: &[slim::MirrorPolicy]) {
        policies
            .iter()
            .for_each(|policy| self.add(ResourceType::CLUSTER, &policy.cluster));
    }

    fn cluster(&mut self, cluster: &slim::Cluster) {
        if cluster.r#type == TYPE_EDS {
            let eds = cluster.eds_cluster_config.clone().unwrap_or_default();
            // `Cluster.EdsClusterConfig.service_name`: the default is the name of the cluster.
            let name = if eds.service_name.is_empty() {
                &cluster.name
            } else {
                &eds.service_name
            };
            self.add_from(eds.eds_config.as_ref(), ResourceType::ENDPOINT, name);
        }
        let config = cluster
            .cluster_type
            .as_ref()
            .and_then(|t| t.typed_config.as_ref());
        if let Some(config) = config.filter(|c| {
            c.type_url
                .ends_with("/envoy.extensions.clusters.aggregate.v3.ClusterConfig")
        }) {
            self.message(
                &config.value,
                |found, aggregate: &slim::AggregateClusterConfig| {
                    aggregate
                        .clusters
                        .iter()
                        .for_each(|name| found.add(ResourceType::CLUSTER, name));
                },
            );
        }
        let matched = cluster.transport_socket_matches.iter();
        for socket in matched
            .filter_map(|m| m.transport_socket.as_ref())
            .chain(&cluster.transport_socket)
        {
            self.transport_socket(socket);
        }
    }

    /// Adds the secrets of upstream and downstream TLS contexts, which have the same first fields. TLS contexts inside
    /// other transport sockets (QUIC, PROXY protocol) are not searched.
    fn transport_socket(&mut self, socket: &slim::TransportSocket) {
        let Some(config) = &socket.typed_config else {
            return;
        };
        if !config.type_url.ends_with("streamTlsContext") {
            return;
        }
        self.message(&config.value, |found, tls: &slim::TlsContext| {
            let Some(common) = &tls.common_tls_context else {
                return;
            };
            let combined = common.combined_validation_context.iter();
            let secrets = common
                .tls_certificate_sds_secret_configs
                .iter()
                .chain(&common.validation_context_sds_secret_config)
                .chain(combined.filter_map(|c| c.validation_context_sds_secret_config.as_ref()));
            for secret in secrets {
                found.add_from(
                    secret.sds_config.as_ref(),
                    ResourceType::SECRET,
                    &secret.name,
                );
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor;

    #[test]
    fn slim_messages_match_the_descriptors() {
        for (message, fields) in slim::DECLARED {
            let descriptor = descriptor::message(message).unwrap();
            for (name, attribute) in *fields {
                let name = name.trim_start_matches("r#");
                let field = descriptor.get_field_by_name(name).unwrap();
                let tag = format!("tag = \"{}\"", field.number());
                assert!(attribute.ends_with(&tag), "{message}.{name}: {attribute}");
                assert_eq!(
                    attribute.contains("repeated"),
                    field.is_list(),
                    "{message}.{name}"
                );
            }
        }
        let (route, tcp) = (
            descriptor::message("envoy.config.route.v3.WeightedCluster.ClusterWeight"),
            descriptor::message(
                "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
            ),
        );
        let name = |d: Option<prost_reflect::MessageDescriptor>| {
            d.unwrap().get_field_by_name("name").unwrap().number()
        };
        assert_eq!(name(route), name(tcp));
    }

    #[test]
    fn malformed_bytes_have_no_references() {
        assert_eq!(references(&ResourceType::CLUSTER, b"\xff\xff"), []);
    }
}
