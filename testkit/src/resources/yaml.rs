//! Resources as YAML documents. Join several of them with [`documents`].

use std::fmt::Write as _;

/// Joins documents to one file.
#[must_use]
pub fn documents(documents: &[String]) -> String {
    documents.join("---\n")
}

/// A cluster with further fields: complete lines, or nothing.
#[must_use]
pub fn cluster(name: &str, fields: &str) -> String {
    let fields = fields.trim_end();
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n{fields}\n"
    )
}

/// A cluster whose endpoints come by ADS, under the cluster's name, with further fields.
#[must_use]
pub fn eds_cluster(name: &str, fields: &str) -> String {
    let eds =
        "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }";
    cluster(name, &format!("{eds}\n{fields}"))
}

/// A cluster whose endpoints come by ADS, under another name.
#[must_use]
pub fn eds_cluster_of(name: &str, service_name: &str) -> String {
    cluster(
        name,
        &format!(
            "type: EDS\neds_cluster_config: {{ service_name: {service_name}, eds_config: {{ ads: {{}} }} }}"
        ),
    )
}

/// A client's listener whose routes come by ADS, under this name.
#[must_use]
pub fn api_listener(name: &str, routes: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: {name}
api_listener:
  api_listener:
    \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: {name}
    rds: {{ route_config_name: {routes}, config_source: {{ ads: {{}}, resource_api_version: V3 }} }}
    http_filters:
    - name: router
      typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"
    )
}

/// Routes of all calls to a domain: each a flow mapping without its braces.
#[must_use]
pub fn route_config(name: &str, domain: &str, routes: &[String]) -> String {
    let mut yaml = format!(
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: {name}
virtual_hosts:
- name: all
  domains: [\"{domain}\"]
  routes:
"
    );
    for route in routes {
        let _ = writeln!(yaml, "  - {{ {route} }}");
    }
    yaml
}
