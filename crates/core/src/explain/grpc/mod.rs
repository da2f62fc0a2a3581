//! Decisions by gRPC's rules: the configuration of a channel, with the reason for each step.

mod endpoints;
mod policies;

use std::sync::Arc;

use crate::ads::WatchError;
use crate::lb::{Domain, Mismatch, visible};
use crate::resolve::{CompiledAction, CompiledRoute, XdsConfig};
use crate::resource::{IgnoredReason, Listener, RouteConfig, RouteSource, VirtualHost};

use super::check::{header_unmet, path_unmet};
use super::labels::Labels;
use super::model::{
    Action, Decision, Destination, FailureReason, HostStep, ListenerStep, RouteConfigStep,
    RouteOutcome, RouteStep,
};
use super::request::Request;
use super::source::ResourceSource;

pub(super) use endpoints::{NOT_LOOKED_UP, health, locality_name};

/// Returns the decision without a configuration.
pub(super) fn failed(
    (listener, routes): (Option<Arc<Listener>>, Option<Arc<RouteConfig>>),
    request: &Request,
    error: &WatchError,
) -> Decision {
    let has_host = |routes: &RouteConfig| routes.choose_domain(&request.authority).is_some();
    let reason = match &routes {
        Some(routes) if !has_host(routes) => FailureReason::NoVirtualHost,
        _ => FailureReason::NoConfiguration,
    };
    // gRFC A74: without listener, routes or virtual host, the channel has no configuration (C-219).
    let failed = fail(None, 1.0, reason, format!("UNAVAILABLE: {error}"));
    let pair = listener.as_ref().zip(routes.as_ref());
    Decision {
        listener: listener.as_deref().map(listener_step),
        route_config: pair.map(|(listener, routes)| route_config(listener, routes)),
        destinations: vec![failed],
        ..Decision::default()
    }
}

fn listener_step(listener: &Listener) -> ListenerStep {
    ListenerStep {
        name: listener.name.to_string(),
        part: match &listener.api {
            Some(_) => "api_listener".to_owned(),
            None => "socket listener".to_owned(),
        },
    }
}

fn route_config(listener: &Listener, routes: &RouteConfig) -> RouteConfigStep {
    RouteConfigStep {
        name: routes.name.to_string(),
        source: match listener.api.as_ref().map(|api| &api.routes) {
            Some(RouteSource::Rds(_)) => "RDS".to_owned(),
            _ => "inside the listener".to_owned(),
        },
    }
}

/// Returns how a domain matches.
pub(super) fn domain_match(domain: &Domain) -> &'static str {
    match domain {
        Domain::Exact(_) => "exact",
        Domain::Suffix(_) => "suffix",
        Domain::Prefix(_) => "prefix",
        Domain::Any => "any",
    }
}

/// Returns a destination that fails.
pub(super) fn fail(
    route: Option<usize>,
    share: f64,
    reason: FailureReason,
    text: String,
) -> Destination {
    let action = Action::Fail { reason, text };
    Destination {
        share,
        route,
        action,
    }
}

/// Returns the decision by a configuration.
pub(super) fn decide(
    config: &XdsConfig,
    request: &Request,
    labels: &Labels<'_>,
    source: &impl ResourceSource,
) -> Decision {
    let routes = &config.route_config;
    let mut decision = Decision {
        listener: Some(listener_step(&config.listener)),
        route_config: Some(route_config(&config.listener, routes)),
        ..Decision::default()
    };
    let Some((index, domain)) = routes.choose_domain(&request.authority) else {
        let text = format!("UNAVAILABLE: no virtual host for {:?}", request.authority);
        let failed = fail(None, 1.0, FailureReason::NoVirtualHost, text);
        decision.destinations.push(failed);
        return decision;
    };
    let host = &routes.virtual_hosts[index];
    decision.virtual_host = Some(HostStep {
        index,
        name: host.name.clone(),
        domain: domain.to_string(),
        domain_match: domain_match(domain),
        authority: request.authority.to_ascii_lowercase(),
    });
    walk(config, (index, host), request, labels, &mut decision);
    decision.clusters = endpoints::clusters(config, &decision.destinations, source);
    decision
}

/// Tries the routes in order.
fn walk(
    config: &XdsConfig,
    (host_index, host): (usize, &VirtualHost),
    request: &Request,
    labels: &Labels<'_>,
    decision: &mut Decision,
) {
    let mut left = 1.0;
    let mut last = 0;
    // The channel's table has the same routes, compiled, in the same order.
    for (index, route) in host.positions().zip(&config.routes.routes) {
        let outcome = match unmet(route, request) {
            Some(reason) => RouteOutcome::NotMatched { reason },
            None if left <= 0.0 => RouteOutcome::Shadowed { by: last },
            None => {
                let fraction = route.matcher.fraction;
                let fraction = fraction.map_or(1.0, |one| f64::from(one.get()) / 1_000_000.0);
                let share = left * fraction;
                // gRFC A28: each fraction has a random number of its own.
                left -= share;
                if share > 0.0 {
                    last = index;
                    let found = destinations(config, route, request, index, share);
                    decision.destinations.extend(found);
                    RouteOutcome::Taken { share }
                } else {
                    let reason = "it takes 0% of the requests".to_owned();
                    RouteOutcome::NotMatched { reason }
                }
            }
        };
        decision.routes.push(RouteStep {
            index,
            name: labels.of(host_index, index),
            condition: route.matcher.to_string(),
            outcome,
        });
    }
    add_ignored((host_index, host), labels, decision);
    if left > 0.0 {
        // gRFC A28: an RPC that matches no route fails with UNAVAILABLE (C-229).
        let text = format!("UNAVAILABLE: no route matches {}", request.path_only());
        let failed = fail(None, left, FailureReason::NoRoute, text);
        decision.destinations.push(failed);
    }
}

/// Adds the routes that gRPC ignores, at their places.
fn add_ignored(
    (host_index, host): (usize, &VirtualHost),
    labels: &Labels<'_>,
    decision: &mut Decision,
) {
    for route in &host.ignored {
        let (condition, reason) = match route.reason {
            IgnoredReason::QueryParameters => (
                "query parameters",
                "gRPC ignores routes with query parameters (gRFC A28)",
            ),
            IgnoredReason::ClusterSpecifier => (
                "any",
                "gRPC ignores routes with this cluster specifier (gRFC A28)",
            ),
        };
        if labels.has_plugin(host_index, route.index) {
            decision.not_examined.push(format!(
                "route {}: cluster specifier plugin, which some gRPC clients support",
                route.index
            ));
        }
        decision.routes.push(RouteStep {
            index: route.index,
            name: labels.of(host_index, route.index),
            condition: condition.to_owned(),
            outcome: RouteOutcome::Ignored {
                reason: reason.to_owned(),
            },
        });
    }
    if !host.ignored.is_empty() {
        decision.routes.sort_by_key(|route| route.index);
    }
}

/// Returns why a route does not match, apart from its fraction.
fn unmet(route: &CompiledRoute, request: &Request) -> Option<String> {
    let mismatch = route.matcher.mismatch(request.path_only(), request)?;
    Some(match mismatch {
        Mismatch::Path(_) => path_unmet(),
        Mismatch::Header(header) => header_unmet(header, visible(&header.name, request).as_deref()),
    })
}

/// Returns the destinations of a route that takes this share of the requests.
fn destinations(
    config: &XdsConfig,
    route: &CompiledRoute,
    request: &Request,
    index: usize,
    share: f64,
) -> Vec<Destination> {
    let CompiledAction::Forward { clusters, .. } = &route.action else {
        // gRFC A28 (C-187, C-229).
        let text = "UNAVAILABLE: gRPC clients do not support the action of the route".to_owned();
        return vec![fail(Some(index), share, FailureReason::Unsupported, text)];
    };
    let choices = clusters.shares();
    let choices = choices.map(|(of_route, choice)| Destination {
        share: share * of_route,
        route: Some(index),
        action: Action::Forward {
            cluster: match config.clusters.get(choice.cluster) {
                Some(entry) => entry.name.to_string(),
                None => String::new(),
            },
            policies: policies::of(&route.action, request),
            filters: choice.filters.iter().map(policies::filter).collect(),
        },
    });
    choices.collect()
}
