//! Resources of the scenarios as YAML.

use std::path::Path;

/// Name of [`EDS_CLUSTER`].
pub(crate) const EDS_CLUSTER_NAME: &str = "c0";

/// The first cluster, without its endpoints.
pub(crate) const EDS_CLUSTER: &str = "---
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: c0
type: EDS
eds_cluster_config: { eds_config: { ads: {} } }
";

/// Clusters, each with its endpoints, all in one place.
pub(crate) fn cluster(name: &str, backend: &str) -> String {
    let (host, port) = backend.rsplit_once(':').unwrap_or((backend, "0"));
    format!(
        "---
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
type: EDS
eds_cluster_config: {{ eds_config: {{ ads: {{}} }} }}
---
\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: {name}
endpoints:
- locality: {{ region: here }}
  load_balancing_weight: 1
  lb_endpoints:
  - endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {port} }} }} }}
"
    )
}

/// The listener `bench`, whose routes come by ADS.
pub(crate) fn listener(routes: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: bench
api_listener:
  api_listener:
    \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: bench
    rds: {{ route_config_name: {routes}, config_source: {{ ads: {{}} }} }}
    http_filters:
    - name: router
      typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"
    )
}

/// Routes everything to the first cluster, and uncalled paths to the others.
pub(crate) fn routes(clusters: usize) -> String {
    let mut yaml = "---
\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: routes
virtual_hosts:
- name: bench
  domains: [ \"*\" ]
  routes:
"
    .to_owned();
    for n in 1..clusters {
        yaml +=
            &format!("  - match: {{ prefix: \"/other.{n}/\" }}\n    route: {{ cluster: c{n} }}\n");
    }
    yaml + "  - match: { prefix: \"\" }\n    route: { cluster: c0 }\n"
}

/// Saves a listener, its routes and a cluster with this backend as most editors do: a new file, moved into place.
pub(crate) fn save(folder: &Path, route_config: &str, backend: &str) -> Result<(), String> {
    let yaml = listener(route_config) + &routes(1) + &cluster("c0", backend);
    let new = folder.join(".bench.new");
    std::fs::write(&new, yaml).map_err(|error| error.to_string())?;
    std::fs::rename(new, folder.join("bench.yaml")).map_err(|error| error.to_string())
}
