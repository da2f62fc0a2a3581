//! Whether rule sets agree.

use std::collections::BTreeSet;

use super::model::{Action, Answer, ClusterStep, Decision, Destination, EndpointStep, RuleSet};

/// Difference of shares that is ignored: they are sums of floating-point numbers.
const TOLERANCE: f64 = 1e-9;

/// Joins the decisions of two rule sets if they lead to the same destinations, and says what differs.
pub(super) fn joined(decisions: Vec<(RuleSet, Decision)>) -> Vec<Answer> {
    let answer = |(rules, decision)| Answer {
        rules: vec![rules],
        decision,
        differences: Vec::new(),
    };
    let mut answers: Vec<Answer> = decisions.into_iter().map(answer).collect();
    let [first, second] = &mut answers[..] else {
        return answers;
    };
    if !same_destinations(&first.decision, &second.decision) {
        let part = parting(&first.decision, &second.decision);
        first.differences.clone_from(&part);
        second.differences = part;
        return answers;
    }
    let name = name(second.rules[0]);
    first.differences = details(&first.decision, &second.decision, name);
    let more = second.decision.not_examined.iter();
    let more: Vec<_> = more.map(|field| format!("{field} ({name})")).collect();
    first.decision.not_examined.extend(more);
    first.rules.push(second.rules[0]);
    answers.truncate(1);
    answers
}

/// Returns the name of a rule set, as it stands before "rules".
pub(super) fn name(rules: RuleSet) -> &'static str {
    match rules {
        RuleSet::Grpc => "gRPC's",
        RuleSet::Envoy => "Envoy's",
    }
}

fn same_destinations(one: &Decision, other: &Decision) -> bool {
    let host = |decision: &Decision| decision.virtual_host.as_ref().map(|host| host.index);
    let same = |(a, b): (&Destination, &Destination)| {
        a.route == b.route
            && (a.share - b.share).abs() < TOLERANCE
            && same_action(&a.action, &b.action)
    };
    host(one) == host(other)
        && one.destinations.len() == other.destinations.len()
        && one.destinations.iter().zip(&other.destinations).all(same)
}

fn same_action(one: &Action, other: &Action) -> bool {
    match (one, other) {
        (Action::Forward { cluster: a, .. }, Action::Forward { cluster: b, .. }) => a == b,
        (Action::Fail { reason: a, .. }, Action::Fail { reason: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

/// Returns the first step at which two decisions part.
fn parting(one: &Decision, other: &Decision) -> Vec<String> {
    let host = |decision: &Decision| match &decision.virtual_host {
        Some(host) => format!("virtual host {:?}", host.name),
        None => "no virtual host".to_owned(),
    };
    if host(one) != host(other) {
        return vec![format!(
            "{} by the first rules, {} by the second",
            host(one),
            host(other)
        )];
    }
    let mut routes = one.routes.iter().zip(&other.routes);
    let part = routes.find(|(a, b)| a.outcome != b.outcome);
    let at = part.map(|(route, _)| format!("the rules part at route {}", route.index));
    at.into_iter().collect()
}

/// Returns what differs although the destinations are the same.
fn details(one: &Decision, other: &Decision, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (a, b) in one.destinations.iter().zip(&other.destinations) {
        match (&a.action, &b.action) {
            (
                Action::Forward {
                    cluster,
                    policies: a,
                    filters: own_filters,
                },
                Action::Forward {
                    policies: b,
                    filters,
                    ..
                },
            ) => {
                let by_other = b.iter().filter(|policy| !a.contains(policy));
                found.extend(by_other.map(|p| format!("cluster {cluster}, by {name} rules: {p}")));
                if own_filters != filters {
                    let filters = filters.join(", ");
                    found.push(format!("HTTP filters by {name} rules: {filters}"));
                }
            }
            (Action::Fail { text: a, .. }, Action::Fail { text: b, .. }) if a != b => {
                found.push(format!("by {name} rules: {b}"));
            }
            _ => {}
        }
    }
    for cluster in &one.clusters {
        let mut others = other.clusters.iter();
        let twin = others.find(|twin| twin.name == cluster.name);
        let Some(twin) = twin else { continue };
        if !same_shares(cluster, twin) {
            found.push(match &twin.error {
                Some(error) => format!("cluster {}, by {name} rules: {error}", cluster.name),
                None => format!(
                    "the endpoints of {} have other shares by {name} rules",
                    cluster.name
                ),
            });
        }
    }
    // Weighted clusters of one route have the same filters.
    let mut seen = BTreeSet::new();
    found.retain(|one| seen.insert(one.clone()));
    found
}

fn same_shares(one: &ClusterStep, other: &ClusterStep) -> bool {
    let used = |cluster: &ClusterStep| -> Vec<EndpointStep> {
        let localities = cluster.priorities.iter().flat_map(|one| &one.localities);
        let endpoints = localities.flat_map(|locality| &locality.endpoints);
        let used = endpoints.filter(|endpoint| endpoint.unused.is_none());
        used.cloned().collect()
    };
    let same = |(one, other): (&EndpointStep, &EndpointStep)| {
        let close = match (one.share, other.share) {
            (Some(one), Some(other)) => (one - other).abs() < TOLERANCE,
            (one, other) => one == other,
        };
        one.address == other.address && close
    };
    let (own, others) = (used(one), used(other));
    one.error.is_some() == other.error.is_some()
        && own.len() == others.len()
        && own.iter().zip(&others).all(same)
}
