//! Action of a route: clusters with their shares, redirect, direct response; policies and filters in force.

use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, SchemeRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::route::Action as ActionProto;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::{
    ClusterWeight, RandomValueSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{RedirectAction, WeightedCluster};

use crate::explain::model::{Action, Decision, Destination, FailureReason};

use super::chance::Remainders;
use super::entry::Part;
use super::matcher::MatchedRequest;
use super::policies;
use super::table::{Host, Route, Table};

/// Adds the destinations of a route that takes these requests.
pub(super) fn add(
    part: &Part,
    (table, host): (&Table, &Host),
    (index, route): (usize, &Route),
    (seen, taken): (MatchedRequest<'_>, &Remainders),
    decision: &mut Decision,
) {
    let mut push = |share: f64, action: Action| {
        if share > 0.0 {
            decision.destinations.push(Destination {
                share,
                route: Some(index),
                action,
            });
        }
    };
    let all = taken.share();
    let unknown = |field: &str| Action::Unknown {
        field: field.to_owned(),
    };
    let action = match &route.proto.action {
        Some(ActionProto::Route(action)) => action,
        Some(ActionProto::Redirect(to)) => return push(all, redirect(to)),
        Some(ActionProto::DirectResponse(response)) => {
            let status = response.status;
            return push(all, Action::DirectResponse { status });
        }
        Some(ActionProto::FilterAction(_)) => return push(all, unknown("filter_action")),
        Some(ActionProto::NonForwardingAction(_)) => {
            return push(all, unknown("non_forwarding_action"));
        }
        None => return push(all, unknown("action")),
    };
    let forward = |name: &str, cluster: Option<&ClusterWeight>| Action::Forward {
        cluster: name.to_owned(),
        policies: policies::of(part, (table, host), action, seen),
        filters: policies::filters(part, (table, host), route, cluster),
    };
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => push(all, forward(name, None)),
        Some(ClusterSpecifier::ClusterHeader(header)) => {
            push(all, named(seen, header, &|name| forward(name, None)));
        }
        Some(ClusterSpecifier::WeightedClusters(weighted)) => {
            for (share, cluster) in shares(weighted, taken, seen) {
                let forward = |name: &str| forward(name, Some(cluster));
                let action = match cluster.name.as_str() {
                    "" => named(seen, &cluster.cluster_header, &forward),
                    name => forward(name),
                };
                push(all * share, action);
            }
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(_)) => {
            push(all, unknown("cluster_specifier_plugin"));
        }
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(_)) => {
            push(all, unknown("inline_cluster_specifier_plugin"));
        }
        None => push(all, unknown("cluster_specifier")),
    }
}

/// Returns the action for the cluster that a header names: without the header, Envoy finds no cluster.
fn named(seen: MatchedRequest<'_>, header: &str, forward: &dyn Fn(&str) -> Action) -> Action {
    let name = seen.header(&header.to_ascii_lowercase());
    match name.as_deref().unwrap_or_default() {
        "" => Action::Fail {
            reason: FailureReason::NoCluster,
            text: format!("503: the request has no header {header:?}, which names the cluster"),
        },
        name => forward(name),
    }
}

/// Returns the clusters of a route, each with its share of the requests that the route takes.
fn shares<'a>(
    weighted: &'a WeightedCluster,
    taken: &Remainders,
    seen: MatchedRequest<'_>,
) -> Vec<(f64, &'a ClusterWeight)> {
    let weight = |cluster: &ClusterWeight| cluster.weight.map_or(0, |weight| weight.value);
    let weights: Vec<_> = weighted.clusters.iter().map(weight).collect();
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let shares = match number(weighted, seen).filter(|_| total > 0) {
        None => taken.split(&weights),
        // The header has the random number of this choice.
        Some(number) => {
            let mut end = 0;
            let hits = weights.iter().map(|weight| {
                let start = end;
                end += u64::from(*weight);
                f64::from(u8::from((start..end).contains(&(number % total))))
            });
            hits.collect()
        }
    };
    shares.into_iter().zip(&weighted.clusters).collect()
}

fn number(weighted: &WeightedCluster, seen: MatchedRequest<'_>) -> Option<u64> {
    match weighted.random_value_specifier.as_ref()? {
        RandomValueSpecifier::HeaderName(name) => {
            seen.header(&name.to_ascii_lowercase())?.parse().ok()
        }
        RandomValueSpecifier::UseHashPolicy(_) => None,
    }
}

fn redirect(proto: &RedirectAction) -> Action {
    /// Codes in the order of the enumeration.
    const STATUSES: [u32; 5] = [301, 302, 303, 307, 308];
    let mut changes = Vec::new();
    match &proto.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => changes.push("scheme https".into()),
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) => {
            changes.push(format!("scheme {scheme}"));
        }
        _ => {}
    }
    if !proto.host_redirect.is_empty() {
        changes.push(format!("host {}", proto.host_redirect));
    }
    if proto.port_redirect != 0 {
        changes.push(format!("port {}", proto.port_redirect));
    }
    changes.extend(
        proto
            .path_rewrite_specifier
            .as_ref()
            .map(|rewrite| match rewrite {
                PathRewriteSpecifier::PathRedirect(path) => format!("path {path}"),
                PathRewriteSpecifier::PrefixRewrite(prefix) => format!("prefix {prefix}"),
                PathRewriteSpecifier::RegexRewrite(_) => "path by regex_rewrite".to_owned(),
                PathRewriteSpecifier::PathRewrite(_) => "path by path_rewrite".to_owned(),
            }),
    );
    if proto.strip_query {
        changes.push("no query string".to_owned());
    }
    let code = usize::try_from(proto.response_code).ok();
    Action::Redirect {
        status: code
            .and_then(|code| STATUSES.get(code))
            .copied()
            .unwrap_or(301),
        changes,
    }
}
