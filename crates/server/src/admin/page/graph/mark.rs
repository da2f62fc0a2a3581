//! Marks the path of a request in a graph.

use oxds_core::explain::{Action, ClusterStep, Explanation};

use super::model::Graph;

/// Marks the nodes that the request may take, and the links between them. If rule sets differ, the path is that of the
/// first.
pub(super) fn mark(graph: &mut Graph, explanation: &Explanation) {
    let Some(decision) = explanation.answers.first().map(|answer| &answer.decision) else {
        return;
    };
    let Some(host) = &decision.virtual_host else {
        return;
    };
    for destination in &decision.destinations {
        let Some(route) = destination.route else {
            continue;
        };
        let key = Some((host.index, route));
        let taken = graph.columns[1].iter_mut().filter(|node| node.route == key);
        taken.for_each(|node| node.is_on = true);
        if let Action::Forward { cluster, .. } = &destination.action
            && let Some(at) = graph.clusters.get(cluster)
        {
            graph.columns[2][*at].is_on = true;
        }
    }
    if graph.columns[1].iter().any(|node| node.is_on) {
        graph.columns[0]
            .iter_mut()
            .for_each(|node| node.is_on = true);
    }
    for cluster in &decision.clusters {
        mark_endpoints(graph, cluster);
    }
    let is_on: [Vec<bool>; 5] = std::array::from_fn(|column| {
        let nodes = graph.columns[column].iter();
        nodes.map(|node| node.is_on).collect()
    });
    for edge in &mut graph.edges {
        let (from, to) = (edge.from, edge.to);
        edge.is_on = is_on[from.0][from.1] && is_on[to.0][to.1];
    }
}

/// Marks the localities and endpoints of a cluster that get requests.
fn mark_endpoints(graph: &mut Graph, cluster: &ClusterStep) {
    let Some(at) = graph.clusters.get(&cluster.name).copied() else {
        return;
    };
    let children = |graph: &Graph, of: (usize, usize)| -> Vec<usize> {
        let edges = graph.edges.iter().filter(|edge| edge.from == of);
        edges.map(|edge| edge.to.1).collect()
    };
    let used = cluster
        .priorities
        .iter()
        .flat_map(|priority| &priority.localities);
    for locality in used.filter(|locality| locality.share > 0.0) {
        let name = parts(&locality.name);
        for place in children(graph, (2, at)) {
            if parts(&graph.columns[3][place].label) != name {
                continue;
            }
            graph.columns[3][place].is_on = true;
            for endpoint in children(graph, (3, place)) {
                let node = &mut graph.columns[4][endpoint];
                let same = |one: &&oxds_core::explain::EndpointStep| one.address == node.label;
                let step = locality.endpoints.iter().find(same);
                node.is_on |= step.is_some_and(|step| step.unused.is_none());
            }
        }
    }
}

/// Returns region, zone and sub-zone, as far as they are set.
fn parts(name: &str) -> Vec<&str> {
    let parts = name
        .split('/')
        .filter(|part| !part.is_empty() && *part != "(no locality)");
    parts.collect()
}
