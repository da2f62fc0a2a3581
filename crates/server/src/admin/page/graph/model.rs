//! The nodes and edges of a listener's graph, bounded in number, from the resources as they are served.

use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Locality, address, socket_address};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, LbEndpoint, lb_endpoint,
};
use envoy_types::pb::envoy::config::listener::v3::{Listener, filter};
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, route, route_action, route_match,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_types::{Decode, ResourceType};
use prost::Message as _;

use super::table::RouteTable;
use crate::admin::page::url::url;
use crate::load::ClusterLoad;

/// Loads that are summed. A fleet of clients reports each cluster many times.
pub(super) const MAX_LOADS: usize = 5_000;
/// Nodes of each column: more could not be read.
const MAX_NODES: [usize; 5] = [1, 40, 40, 60, 120];

/// A graph in five columns: listener, routes, clusters, localities, endpoints.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) columns: [Vec<GraphNode>; 5],
    /// Nodes that are not shown, by column.
    pub(super) more: [usize; 5],
    pub(super) edges: Vec<Edge>,
    pub(super) clusters: HashMap<String, usize>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct GraphNode {
    pub(super) label: String,
    pub(super) detail: String,
    /// Address of the resource; empty if the node is a part of another one.
    pub(super) href: String,
    /// Whether it is missing or takes no requests.
    pub(super) is_bad: bool,
    /// Virtual host and position of a route.
    pub(super) route: Option<(usize, usize)>,
    /// Whether the marked request takes it.
    pub(super) is_on: bool,
}

/// A link from a node to one of the next column, or, between clusters, of the same.
#[derive(Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    /// Weight, if requests are split.
    pub(super) label: String,
    pub(super) is_on: bool,
}

/// Requests per second, by cluster and locality.
type Rates = BTreeMap<(String, [String; 3]), f64>;

impl Graph {
    pub(super) fn of(snapshot: &Snapshot, listener: &Resource, loads: &[ClusterLoad]) -> Self {
        let mut rates = Rates::new();
        for load in loads {
            for one in &load.localities {
                let key = (load.cluster.clone(), one.locality.clone());
                *rates.entry(key).or_default() += one.rate_10s;
            }
        }
        let mut graph = Self::default();
        let node = GraphNode {
            label: listener.name().to_string(),
            href: resource_url(&ResourceType::LISTENER, listener.name()),
            ..GraphNode::default()
        };
        let Some(at) = graph.add(0, node) else {
            return graph;
        };
        let Some(message) = decode::<Listener>(&listener.value()) else {
            return graph;
        };
        for manager in managers(&message) {
            match manager.route_specifier {
                Some(RouteSpecifier::RouteConfig(inline)) => {
                    let inline = RouteTable::decode(&*inline.encode_to_vec());
                    let inline = inline.unwrap_or_default();
                    graph.routes(snapshot, at, &inline, "inline", "", &rates);
                }
                Some(RouteSpecifier::Rds(rds)) => {
                    let name = &rds.route_config_name;
                    let href = resource_url(&ResourceType::ROUTE, name);
                    let found = snapshot.get(&ResourceType::ROUTE, name);
                    match found.and_then(|found| RouteTable::decode(found.value()).ok()) {
                        Some(config) => graph.routes(snapshot, at, &config, name, &href, &rates),
                        None => graph.missing(at, 0, 1, name, "route configuration not found"),
                    }
                }
                Some(RouteSpecifier::ScopedRoutes(_)) => {
                    graph.missing(at, 0, 1, "scoped routes", "not shown");
                }
                None => {}
            }
        }
        graph
    }

    /// Adds a node, and returns its place in the column; `None` if the column is full.
    fn add(&mut self, column: usize, node: GraphNode) -> Option<usize> {
        if self.columns[column].len() >= MAX_NODES[column] {
            self.more[column] += 1;
            return None;
        }
        self.columns[column].push(node);
        Some(self.columns[column].len() - 1)
    }

    fn link(&mut self, from: (usize, usize), to: (usize, usize), label: String) {
        let edge = Edge {
            from,
            to,
            label,
            is_on: false,
        };
        if !self.edges.contains(&edge) {
            self.edges.push(edge);
        }
    }

    fn missing(&mut self, from: usize, column: usize, to: usize, name: &str, why: &str) {
        let node = GraphNode {
            label: name.to_owned(),
            detail: why.to_owned(),
            is_bad: why.ends_with("not found"),
            ..GraphNode::default()
        };
        if let Some(at) = self.add(to, node) {
            self.link((column, from), (to, at), String::new());
        }
    }

    fn routes(
        &mut self,
        snapshot: &Snapshot,
        listener: usize,
        config: &RouteTable,
        name: &str,
        href: &str,
        rates: &Rates,
    ) {
        for (host_at, host) in config.hosts.iter().enumerate() {
            let shown = MAX_NODES[1].saturating_sub(self.columns[1].len());
            self.more[1] += host.len().saturating_sub(shown);
            for (route_at, route) in host.first(shown) {
                let node = GraphNode {
                    label: matched(&route),
                    detail: format!("{} · {name}", host.domains.join(", ")),
                    href: href.to_owned(),
                    route: Some((host_at, route_at)),
                    ..GraphNode::default()
                };
                let Some(at) = self.add(1, node) else {
                    continue;
                };
                self.link((0, listener), (1, at), String::new());
                match &route.action {
                    Some(route::Action::Route(action)) => self.action(snapshot, at, action, rates),
                    Some(route::Action::Redirect(_)) => self.missing(at, 1, 2, "redirect", ""),
                    Some(route::Action::DirectResponse(answer)) => {
                        let text = format!("answers {}", answer.status);
                        self.missing(at, 1, 2, &text, "direct response");
                    }
                    _ => {}
                }
            }
        }
    }

    fn action(&mut self, snapshot: &Snapshot, route: usize, action: &RouteAction, rates: &Rates) {
        match &action.cluster_specifier {
            Some(route_action::ClusterSpecifier::Cluster(name)) => {
                self.cluster(snapshot, (1, route), name, String::new(), rates);
            }
            Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) => {
                let weight = |of: &_| {
                    Option::map_or(
                        *of,
                        0,
                        |weight: envoy_types::pb::google::protobuf::UInt32Value| weight.value,
                    )
                };
                let total: u64 = weighted
                    .clusters
                    .iter()
                    .map(|one| u64::from(weight(&one.weight)))
                    .sum();
                for one in &weighted.clusters {
                    let label = share(u64::from(weight(&one.weight)), total);
                    self.cluster(snapshot, (1, route), &one.name, label, rates);
                }
            }
            Some(route_action::ClusterSpecifier::ClusterHeader(header)) => {
                self.missing(route, 1, 2, header, "cluster by this header");
            }
            _ => self.missing(route, 1, 2, "plugin", "cluster by a plugin"),
        }
    }

    fn cluster(
        &mut self,
        snapshot: &Snapshot,
        from: (usize, usize),
        name: &str,
        label: String,
        rates: &Rates,
    ) {
        if let Some(at) = self.clusters.get(name) {
            let at = *at;
            return self.link(from, (2, at), label);
        }
        let cluster = found::<Cluster>(snapshot, &ResourceType::CLUSTER, name);
        let rate: f64 = rates
            .iter()
            .filter(|((of, _), _)| of == name)
            .map(|(_, rate)| rate)
            .sum();
        let node = GraphNode {
            label: name.to_owned(),
            detail: match (&cluster, rate > 0.0) {
                (None, _) => "cluster not found".to_owned(),
                (Some(_), true) => format!("{rate:.1} requests/s"),
                (Some(_), false) => String::new(),
            },
            href: match cluster {
                Some(_) => resource_url(&ResourceType::CLUSTER, name),
                None => String::new(),
            },
            is_bad: cluster.is_none(),
            ..GraphNode::default()
        };
        let Some(at) = self.add(2, node) else { return };
        self.clusters.insert(name.to_owned(), at);
        self.link(from, (2, at), label);
        let Some(cluster) = cluster else { return };
        let service = cluster
            .eds_cluster_config
            .as_ref()
            .map(|eds| match &*eds.service_name {
                "" => name,
                service => service,
            });
        let assignment = match (&cluster.load_assignment, service) {
            (Some(inline), _) => Some(inline.clone()),
            (None, Some(service)) => {
                let assignment = found(snapshot, &ResourceType::ENDPOINT, service);
                if assignment.is_none() {
                    self.missing(at, 2, 3, service, "endpoints not found");
                }
                assignment
            }
            (None, None) => None,
        };
        if let Some(assignment) = assignment {
            self.localities(at, name, &assignment, rates);
        }
    }

    fn localities(
        &mut self,
        cluster: usize,
        name: &str,
        assignment: &ClusterLoadAssignment,
        rates: &Rates,
    ) {
        let href = resource_url(&ResourceType::ENDPOINT, &assignment.cluster_name);
        for group in &assignment.endpoints {
            let locality = group.locality.clone().unwrap_or_default();
            let Locality {
                region,
                zone,
                sub_zone,
            } = locality;
            let parts = [region, zone, sub_zone];
            let rate = rates
                .get(&(name.to_owned(), parts.clone()))
                .copied()
                .unwrap_or_default();
            let weight = group
                .load_balancing_weight
                .as_ref()
                .map_or(String::new(), |w| format!(" · weight {}", w.value));
            let rate = if rate > 0.0 {
                format!(" · {rate:.1}/s")
            } else {
                String::new()
            };
            let used: Vec<&str> = parts
                .iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            let node = GraphNode {
                label: if used.is_empty() {
                    "(no locality)".to_owned()
                } else {
                    used.join("/")
                },
                detail: format!("priority {}{weight}{rate}", group.priority),
                href: href.clone(),
                is_bad: group.lb_endpoints.is_empty(),
                ..GraphNode::default()
            };
            let Some(at) = self.add(3, node) else {
                continue;
            };
            self.link((2, cluster), (3, at), String::new());
            for endpoint in &group.lb_endpoints {
                let node = endpoint_node(endpoint);
                if let Some(endpoint) = self.add(4, node) {
                    self.link((3, at), (4, endpoint), String::new());
                }
            }
        }
    }
}

/// Returns the HTTP connection managers of a listener, each once.
fn managers(listener: &Listener) -> Vec<HttpConnectionManager> {
    let chains = listener
        .filter_chains
        .iter()
        .chain(&listener.default_filter_chain);
    let filters = chains.flat_map(|chain| &chain.filters);
    let of_filters = filters.filter_map(|filter| match &filter.config_type {
        Some(filter::ConfigType::TypedConfig(any)) => Some(any),
        _ => None,
    });
    let api = listener
        .api_listener
        .as_ref()
        .and_then(|api| api.api_listener.as_ref());
    let any = api.into_iter().chain(of_filters);
    let managers = any.filter(|any| any.type_url.ends_with(".HttpConnectionManager"));
    let mut found: Vec<HttpConnectionManager> = Vec::new();
    for manager in managers.filter_map(|any| decode::<HttpConnectionManager>(&any.value)) {
        if !found
            .iter()
            .any(|known| known.route_specifier == manager.route_specifier)
        {
            found.push(manager);
        }
    }
    found
}

fn matched(route: &Route) -> String {
    let Some(matcher) = &route.r#match else {
        return "(no match)".to_owned();
    };
    let path = match &matcher.path_specifier {
        Some(route_match::PathSpecifier::Prefix(prefix)) => format!("{prefix}*"),
        Some(route_match::PathSpecifier::Path(path)) => path.clone(),
        Some(route_match::PathSpecifier::SafeRegex(regex)) => format!("~ {}", regex.regex),
        Some(route_match::PathSpecifier::PathSeparatedPrefix(prefix)) => format!("{prefix}/*"),
        _ => "(other match)".to_owned(),
    };
    match matcher.headers.len() + matcher.query_parameters.len() {
        0 => path,
        1 => format!("{path} · 1 condition"),
        more => format!("{path} · {more} conditions"),
    }
}

fn endpoint_node(endpoint: &LbEndpoint) -> GraphNode {
    let address = match &endpoint.host_identifier {
        Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)) => endpoint.address.as_ref(),
        _ => None,
    };
    let label = match address.and_then(|address| address.address.as_ref()) {
        Some(address::Address::SocketAddress(socket)) => {
            let port = match &socket.port_specifier {
                Some(socket_address::PortSpecifier::PortValue(port)) => port.to_string(),
                Some(socket_address::PortSpecifier::NamedPort(name)) => name.clone(),
                None => String::new(),
            };
            format!("{}:{port}", socket.address)
        }
        Some(address::Address::Pipe(pipe)) => pipe.path.clone(),
        _ => match &endpoint.host_identifier {
            Some(lb_endpoint::HostIdentifier::EndpointName(name)) => name.clone(),
            _ => "(other address)".to_owned(),
        },
    };
    let health = HealthStatus::try_from(endpoint.health_status).unwrap_or_default();
    let weight = endpoint
        .load_balancing_weight
        .as_ref()
        .map(|weight| format!("weight {}", weight.value));
    let word = match health {
        HealthStatus::Unknown => None,
        other => Some(other.as_str_name().to_lowercase()),
    };
    let detail: Vec<String> = [word, weight].into_iter().flatten().collect();
    GraphNode {
        label,
        detail: detail.join(" · "),
        href: String::new(),
        is_bad: matches!(
            health,
            HealthStatus::Unhealthy | HealthStatus::Draining | HealthStatus::Timeout
        ),
        ..GraphNode::default()
    }
}

fn share(weight: u64, total: u64) -> String {
    match total {
        0 => String::new(),
        total => format!("{:.0}%", weight as f64 * 100.0 / total as f64),
    }
}

fn resource_url(resource_type: &ResourceType, name: &str) -> String {
    url(
        "/resource",
        &[("type", &resource_type.to_string()), ("name", name)],
    )
}

fn found<M: Decode>(snapshot: &Snapshot, resource_type: &ResourceType, name: &str) -> Option<M> {
    decode(&snapshot.get(resource_type, name)?.value())
}

fn decode<M: Decode>(value: &[u8]) -> Option<M> {
    M::from_bytes(value).ok()
}
