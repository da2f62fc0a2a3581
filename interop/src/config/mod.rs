//! The configuration that scenarios write: a folder of YAML, edited as an operator would.

pub(crate) mod server;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use oxds_testkit::resources::yaml;

use crate::Fallible;

/// The name of every scenario's listener, and so the `xds:///` target of gRPC clients.
pub(crate) const LISTENER: &str = "shop";
/// The name of the route configuration that the listener refers to.
pub(crate) const ROUTES: &str = "shop-routes";

/// A folder that a control plane serves.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder below a scenario's own.
    pub(crate) fn create(dir: &Path) -> Fallible<Self> {
        let path = dir.join("resources");
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes one file of several YAML documents by a rename: on a busy machine, a reader could otherwise find the file
    /// empty between truncation and write.
    pub(crate) fn write(&self, file: &str, documents: &[String]) -> Fallible {
        let new = self.0.join(format!("{file}.new"));
        std::fs::write(&new, documents.join("---\n"))?;
        Ok(std::fs::rename(new, self.0.join(file))?)
    }

    /// Deletes one file.
    pub(crate) fn remove(&self, file: &str) -> Fallible {
        Ok(std::fs::remove_file(self.0.join(file))?)
    }
}

/// A listener with a socket, for Envoy; the system chooses its port.
pub(crate) fn socket_listener() -> String {
    let manager = connection_manager("  ", "");
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {LISTENER}
address:
  socket_address: {{ address: 127.0.0.1, port_value: 0 }}
filter_chains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
    {manager}
"#
    )
}

/// A listener without a socket, for gRPC clients.
pub(crate) fn api_listener() -> String {
    api_listener_with("")
}

/// The same with another HTTP filter before the router: a flow mapping.
pub(crate) fn api_listener_with(filter: &str) -> String {
    let manager = connection_manager("", filter);
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {LISTENER}
api_listener:
  api_listener:
  {manager}
"#
    )
}

/// A document of this module in API v2.
pub(crate) fn in_v2(document: &str) -> String {
    [
        ("envoy.config.listener.v3.Listener", "envoy.api.v2.Listener"),
        (
            "envoy.config.route.v3.RouteConfiguration",
            "envoy.api.v2.RouteConfiguration",
        ),
        ("envoy.config.cluster.v3.Cluster", "envoy.api.v2.Cluster"),
        (
            "envoy.config.endpoint.v3.ClusterLoadAssignment",
            "envoy.api.v2.ClusterLoadAssignment",
        ),
        (
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager",
        ),
        (
            "envoy.extensions.filters.http.router.v3.Router",
            "envoy.config.filter.http.router.v2.Router",
        ),
        ("resource_api_version: V3", "resource_api_version: V2"),
    ]
    .iter()
    .fold(document.to_owned(), |document, (v3, v2)| {
        document.replace(v3, v2)
    })
}

fn connection_manager(indent: &str, filter: &str) -> String {
    let filter = match filter {
        "" => String::new(),
        filter => format!("- {filter}\n"),
    };
    format!(
        r#"{INDENT}"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
stat_prefix: ingress
rds:
  route_config_name: {ROUTES}
  config_source: {{ ads: {{}}, resource_api_version: V3 }}
http_filters:
{filter}- name: envoy.filters.http.router
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"#,
        INDENT = "  "
    )
    .replace('\n', &format!("\n    {indent}"))
}

/// Every request to one cluster, or to several by weight. A call that met a dying connection is
/// retried, so that a scenario may demand that none is lost.
pub(crate) fn routes(weights: &[(&str, u32)]) -> String {
    let clusters: Vec<_> = weights
        .iter()
        .map(|(name, weight)| format!("{{ name: {name}, weight: {weight} }}"))
        .collect();
    let clusters = clusters.join(", ");
    route_config(&[format!(
        r#"match: {{ prefix: "" }}, route: {{ weighted_clusters: {{ clusters: [{clusters}] }}, retry_policy: {{ retry_on: unavailable, num_retries: 3 }} }}"#
    )])
}

/// Each match, as a flow mapping without its braces, leads to a cluster; the first match wins.
pub(crate) fn routes_matching(routes: &[(&str, &str)]) -> String {
    let routes: Vec<_> = routes
        .iter()
        .map(|(matching, cluster)| {
            format!("match: {{ {matching} }}, route: {{ cluster: {cluster} }}")
        })
        .collect();
    route_config(&routes)
}

/// Routes for all authorities, each as a flow mapping without its braces.
pub(crate) fn route_config(routes: &[String]) -> String {
    route_config_of(ROUTES, routes)
}

/// The same under another name.
pub(crate) fn route_config_of(name: &str, routes: &[String]) -> String {
    yaml::route_config(name, "*", routes)
}

/// A cluster whose endpoints come over ADS.
pub(crate) fn cluster(name: &str) -> String {
    cluster_with(name, "lb_policy: ROUND_ROBIN")
}

/// The same with one more field.
pub(crate) fn cluster_with(name: &str, field: &str) -> String {
    yaml::eds_cluster(name, &format!("connect_timeout: 1s\n{field}"))
}

/// A cluster's endpoints: one locality per entry, each with the next priority.
pub(crate) fn assignment(cluster: &str, priorities: &[&[SocketAddr]]) -> String {
    let localities: Vec<_> = (0..)
        .zip(priorities)
        .map(|(priority, addresses)| {
            let endpoints = addresses.iter().map(|address| endpoint(*address, ""));
            (priority, endpoints.collect())
        })
        .collect();
    assignment_of(cluster, &localities)
}

/// A cluster's endpoints: localities by their priorities, each with its [endpoints](endpoint).
pub(crate) fn assignment_of(cluster: &str, localities: &[(u32, Vec<String>)]) -> String {
    let mut yaml = format!(
        r#""@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: {cluster}
endpoints:
"#
    );
    for (zone, (priority, endpoints)) in localities.iter().enumerate() {
        let _ = write!(
            yaml,
            r"- priority: {priority}
  locality: {{ region: here, zone: z{zone} }}
  load_balancing_weight: 1
  lb_endpoints:
"
        );
        for endpoint in endpoints {
            let _ = writeln!(yaml, "  - {{ {endpoint} }}");
        }
    }
    yaml
}

/// An endpoint, as a flow mapping without its braces. `fields` are more of its fields, such as `load_balancing_weight:
/// 2`.
pub(crate) fn endpoint(address: SocketAddr, fields: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    let comma = if fields.is_empty() { "" } else { ", " };
    format!(
        "endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }}{comma}{fields}"
    )
}
