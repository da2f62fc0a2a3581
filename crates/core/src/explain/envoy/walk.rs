//! Steps of Envoy: part of the listener, virtual host, routes.

use std::borrow::Cow;

use envoy_types::pb::envoy::config::route::v3::virtual_host::TlsRequirementType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::StripPortMode;

use crate::explain::grpc::{fail, how};
use crate::explain::model::{
    Action, Decision, Destination, FailureReason, HostStep, RouteConfigStep, RouteOutcome,
    RouteStep,
};
use crate::explain::request::Request;
use crate::explain::source::ResourceSource;

use super::action;
use super::chance::Remainders;
use super::clusters;
use super::entry::{Entry, Part};
use super::failed;
use super::matcher::Seen;
use super::table::{Host, Table};

/// Number of matching routes with a fraction whose shares are calculated: one needs up to a million steps.
const MAX_FRACTIONS: usize = 100;

/// Returns the decision of an Envoy.
pub(in crate::explain) fn decide(
    entry: &Entry,
    request: &Request,
    source: &impl ResourceSource,
) -> Decision {
    let part = match entry.part(request.filter_chain.as_deref()) {
        Ok(part) => part,
        Err(problem) => return failed(&problem),
    };
    let table = match &part.table {
        Ok(table) => table,
        Err(problem) => {
            let listener = Some(entry.step(part));
            return Decision {
                listener,
                ..failed(problem)
            };
        }
    };
    let mut decision = Decision {
        listener: Some(entry.step(part)),
        route_config: Some(RouteConfigStep {
            name: table.config.name.clone(),
            source: table.source.clone(),
        }),
        not_examined: not_examined(part, table, request),
        ..Decision::default()
    };
    let path = path(part, table, request);
    let authority = authority(part, request);
    let seen = Seen {
        request,
        path: &path,
        authority,
        scheme: if part.is_tls { "https" } else { "http" },
    };
    let authority = host(table, authority);
    match table.find(&authority) {
        None => {
            let text = format!("404: no virtual host for {authority:?}");
            let failed = fail(None, 1.0, FailureReason::NoVirtualHost, text);
            decision.destinations.push(failed);
        }
        Some((index, host, domain)) => {
            decision.virtual_host = Some(HostStep {
                index,
                name: host.proto.name.clone(),
                domain: domain.to_string(),
                how: how(domain),
                authority: authority.to_string(),
            });
            if !needs_tls(part, host, &mut decision) {
                walk(part, (table, host), seen, &mut decision);
            }
            decision.clusters = clusters::of(&decision.destinations, source);
        }
    }
    decision
}

/// Returns the fields of the listener and the route configuration that could change the answer.
fn not_examined(part: &Part, table: &Table, request: &Request) -> Vec<String> {
    let manager = &part.manager;
    let normalizes = manager
        .normalize_path
        .is_some_and(|normalize| normalize.value);
    let is_plain = !request.path.contains(['%', '\\']) && !request.path.contains("/.");
    let port = request.authority.contains(':');
    let fields = [
        ("normalize_path", normalizes && !is_plain),
        (
            "path_with_escaped_slashes_action",
            manager.path_with_escaped_slashes_action > 1 && !is_plain,
        ),
        (
            "strip_matching_host_port",
            manager.strip_matching_host_port && port,
        ),
        (
            "path_normalization_options",
            manager.path_normalization_options.is_some(),
        ),
        (
            "early_header_mutation_extensions",
            !manager.early_header_mutation_extensions.is_empty(),
        ),
        ("vhost_header", !table.config.vhost_header.is_empty()),
        (
            "route_specifiers",
            !table.config.route_specifiers.is_empty(),
        ),
        ("a path with #", request.path.contains('#')),
    ];
    let found = fields.iter().filter(|(_, is_set)| *is_set);
    found.map(|(field, _)| (*field).to_owned()).collect()
}

/// Returns the path that is compared.
fn path<'a>(part: &Part, table: &Table, request: &'a Request) -> Cow<'a, str> {
    let mut path = Cow::Borrowed(request.path_only());
    if part.manager.merge_slashes && path.contains("//") {
        let mut merged = String::with_capacity(path.len());
        for c in path.chars() {
            if c != '/' || !merged.ends_with('/') {
                merged.push(c);
            }
        }
        path = Cow::Owned(merged);
    }
    if table.config.ignore_path_parameters_in_path_matching {
        let end = path.find(';').unwrap_or(path.len());
        path = match path {
            Cow::Borrowed(path) => Cow::Borrowed(&path[..end]),
            Cow::Owned(path) => Cow::Owned(path[..end].to_owned()),
        };
    }
    path
}

/// Returns the authority as the connection manager leaves it, which conditions on the header see.
fn authority<'a>(part: &Part, request: &'a Request) -> &'a str {
    let mut authority = request.authority.as_str();
    let strips_any = matches!(
        part.manager.strip_port_mode,
        Some(StripPortMode::StripAnyHostPort(true))
    );
    if strips_any {
        authority = without_port(authority);
    }
    if part.manager.strip_trailing_host_dot {
        authority = authority.strip_suffix('.').unwrap_or(authority);
    }
    authority
}

/// Returns the form of an authority that is compared with domains, in lower case.
fn host<'a>(table: &Table, mut authority: &'a str) -> Cow<'a, str> {
    if table.config.ignore_port_in_host_matching {
        authority = without_port(authority);
    }
    match authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(authority.to_ascii_lowercase()),
        false => Cow::Borrowed(authority),
    }
}

/// Returns an authority without its port: the digits after the last colon that is not inside brackets.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => authority,
    }
}

/// Handles `require_tls`. Returns whether the request is answered by it.
fn needs_tls(part: &Part, host: &Host, decision: &mut Decision) -> bool {
    match host.proto.require_tls() {
        TlsRequirementType::None => false,
        _ if part.is_tls => false,
        TlsRequirementType::ExternalOnly => {
            decision
                .not_examined
                .push("require_tls: EXTERNAL_ONLY".to_owned());
            false
        }
        TlsRequirementType::All => {
            decision.destinations.push(Destination {
                share: 1.0,
                route: None,
                action: Action::Redirect {
                    status: 301,
                    changes: vec!["scheme https (require_tls)".to_owned()],
                },
            });
            true
        }
    }
}

/// Tries the routes in order.
fn walk(part: &Part, (table, host): (&Table, &Host), seen: Seen<'_>, decision: &mut Decision) {
    if host.proto.matcher.is_some() {
        let field = "matcher of the virtual host".to_owned();
        decision.destinations.push(Destination {
            share: 1.0,
            route: None,
            action: Action::Unknown { field },
        });
        return;
    }
    let mut left = Remainders::all();
    let (mut last, mut fractions) = (0, 0);
    for (index, route) in host.routes.iter().enumerate() {
        let matcher = &route.matcher;
        let outcome = match matcher.unmet(seen) {
            Some(because) => RouteOutcome::NotMatched { because },
            None if left.share() <= 0.0 => RouteOutcome::Shadowed { by: last },
            None if !matcher.unknown.is_empty() => {
                let fields = matcher.unknown.join(", ");
                decision
                    .not_examined
                    .push(format!("route {index}: {fields}"));
                RouteOutcome::Unknown { fields }
            }
            None if matcher.fraction.is_some() && fractions == MAX_FRACTIONS => {
                let fields = format!("runtime_fraction after {MAX_FRACTIONS} others");
                decision
                    .not_examined
                    .push(format!("route {index}: {fields}"));
                RouteOutcome::Unknown { fields }
            }
            None => {
                fractions += usize::from(matcher.fraction.is_some());
                let taken = left.take(matcher.fraction);
                let share = taken.share();
                if share > 0.0 {
                    last = index;
                    action::add(
                        part,
                        (table, host),
                        (index, route),
                        (seen, &taken),
                        decision,
                    );
                    RouteOutcome::Taken { share }
                } else {
                    let because = "the requests of its fraction are taken".to_owned();
                    RouteOutcome::NotMatched { because }
                }
            }
        };
        decision.routes.push(RouteStep {
            index,
            name: route.proto.name.clone(),
            condition: matcher.to_string(),
            outcome,
        });
    }
    if left.share() > 0.0 {
        let text = format!("404: no route matches {}", seen.path);
        let failed = fail(None, left.share(), FailureReason::NoRoute, text);
        decision.destinations.push(failed);
    }
}
