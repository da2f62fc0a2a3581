//! Resources of the scenarios as YAML.

use std::path::Path;

use oxds_testkit::resources::yaml;

/// Name of the cluster of [`eds_cluster`].
pub(crate) const EDS_CLUSTER_NAME: &str = "c0";

/// The first cluster, without its endpoints.
pub(crate) fn eds_cluster() -> String {
    format!("---\n{}", yaml::eds_cluster(EDS_CLUSTER_NAME, ""))
}

/// Clusters, each with its endpoints, all in one place.
pub(crate) fn cluster(name: &str, backend: &str) -> String {
    let (host, port) = backend.rsplit_once(':').unwrap_or((backend, "0"));
    let cluster = yaml::eds_cluster(name, "");
    format!(
        "---
{cluster}---
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
    yaml::api_listener("bench", routes)
}

/// Routes everything to the first cluster, and uncalled paths to the others.
pub(crate) fn routes(clusters: usize) -> String {
    let others = (1..clusters)
        .map(|n| format!("match: {{ prefix: \"/other.{n}/\" }}, route: {{ cluster: c{n} }}"));
    let first = "match: { prefix: \"\" }, route: { cluster: c0 }".to_owned();
    let routes: Vec<String> = others.chain([first]).collect();
    format!("---\n{}", yaml::route_config("routes", "*", &routes))
}

/// Saves a listener, its routes and a cluster with this backend as most editors do: a new file, moved into place.
pub(crate) fn save(folder: &Path, route_config: &str, backend: &str) -> Result<(), String> {
    let yaml = listener(route_config) + &routes(1) + &cluster("c0", backend);
    let new = folder.join(".bench.new");
    std::fs::write(&new, yaml).map_err(|error| error.to_string())?;
    std::fs::rename(new, folder.join("bench.yaml")).map_err(|error| error.to_string())
}
