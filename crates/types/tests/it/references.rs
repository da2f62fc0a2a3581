//! S-70: references between resources.

use oxds_types::ResourceType;

use crate::yaml;

fn references(text: &str) -> Vec<(ResourceType, String)> {
    yaml(text)[0]
        .references
        .iter()
        .map(|r| (r.resource_type.clone(), r.name.to_string()))
        .collect()
}

fn named(resource_type: &ResourceType, names: &[&str]) -> Vec<(ResourceType, String)> {
    names
        .iter()
        .map(|name| (resource_type.clone(), (*name).to_owned()))
        .collect()
}

#[test]
fn s70_cluster_refers_to_eds_by_service_or_cluster_name() {
    let cluster = |eds: &str| {
        format!(
            "{{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: c, type: EDS, eds_cluster_config: {{ {eds} }} }}"
        )
    };
    assert_eq!(
        references(&cluster("eds_config: { ads: {} }")),
        named(&ResourceType::ENDPOINT, &["c"])
    );
    let service = "eds_config: { ads: {} }, service_name: s";
    assert_eq!(
        references(&cluster(service)),
        named(&ResourceType::ENDPOINT, &["s"])
    );
    let file = "eds_config: { path_config_source: { path: /x } }";
    assert_eq!(references(&cluster(file)), []);
}

/// Given a reference to an `xdstp` name in another spelling, then its name is the one under which the resource is kept.
#[test]
fn s70_references_have_canonical_names() {
    let cluster = "{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: c, type: EDS, \
                   eds_cluster_config: { eds_config: { ads: {} }, service_name: 'xdstp://a/T/%78?b=2&a=1' } }";
    assert_eq!(
        references(cluster),
        named(&ResourceType::ENDPOINT, &["xdstp://a/T/x?a=1&b=2"])
    );
}

#[test]
fn s70_aggregate_cluster_refers_to_its_clusters() {
    let text = "
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: all
lb_policy: CLUSTER_PROVIDED
cluster_type:
  name: envoy.clusters.aggregate
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
    clusters: [b, a]
";
    assert_eq!(references(text), named(&ResourceType::CLUSTER, &["a", "b"]));
}

#[test]
fn s70_tls_contexts_refer_to_secrets() {
    let text = "
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: c
type: STATIC
transport_socket:
  name: tls
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_sds_secret_configs:
      - { name: cert, sds_config: { ads: {} } }
      - { name: from-bootstrap }
      validation_context_sds_secret_config: { name: ca, sds_config: { ads: {} } }
";
    assert_eq!(
        references(text),
        named(&ResourceType::SECRET, &["ca", "cert"])
    );
}

#[test]
fn s70_routes_refer_to_clusters() {
    let text = "
'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- name: v
  domains: ['*']
  routes:
  - match: { prefix: /a }
    route: { cluster: a, request_mirror_policies: [{ cluster: mirror }] }
  - match: { prefix: /b }
    route:
      weighted_clusters:
        clusters: [{ name: a, weight: 1 }, { name: b, weight: 9 }]
  - match: { prefix: /c }
    route: { cluster_header: x-cluster }
  - match: { prefix: /d }
    redirect: { host_redirect: x }
";
    assert_eq!(
        references(text),
        named(&ResourceType::CLUSTER, &["a", "b", "mirror"])
    );
}

#[test]
fn s70_listeners_refer_to_routes_and_clusters() {
    let text = "
'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: l
api_listener:
  api_listener:
    '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: x
    rds: { route_config_name: r, config_source: { ads: {} } }
default_filter_chain:
  filters:
  - name: tcp
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: x
      weighted_clusters: { clusters: [{ name: t, weight: 1 }] }
filter_chains:
- filters:
  - name: hcm
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: x
      http_filters:
      - { name: dynamic, config_discovery: { config_source: { ads: {} }, type_urls: [x] } }
      route_config:
        virtual_hosts: [{ name: v, domains: ['*'], routes: [{ match: { prefix: / }, route: { cluster: h } }] }]
";
    let mut expected = named(&ResourceType::CLUSTER, &["h", "t"]);
    expected.extend(named(&ResourceType::ROUTE, &["r"]));
    expected.extend(named(&ResourceType::EXTENSION_CONFIG, &["dynamic"]));
    assert_eq!(references(text), expected);
}
