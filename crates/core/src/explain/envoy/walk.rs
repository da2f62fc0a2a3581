//! Steps of Envoy: part of the listener, virtual host, routes.

use std::borrow::Cow;

use envoy_types::pb::envoy::config::route::v3::virtual_host::TlsRequirementType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::StripPortMode;

use crate::explain::grpc::{domain_match, fail};
use crate::explain::model::{
    Action, Decision, Destination, FailureReason, HostStep, RouteConfigStep, RouteOutcome,
    RouteStep,
};
use crate::explain::request::Request;
use crate::explain::source::ResourceSource;
use crate::lb::Headers as _;

use super::action;
use super::chance::Remainders;
use super::clusters;
use super::entry::{Entry, NoTable, Part};
use super::failed;
use super::matcher::MatchedRequest;
use super::table::{Host, Table};
use super::unexamined;

/// Number of matching routes with a fraction whose shares are calculated: one needs up to a million steps.
const MAX_FRACTIONS: usize = 100;

/// Returns the decision of an Envoy.
pub(crate) fn decide(entry: &Entry, request: &Request, source: &impl ResourceSource) -> Decision {
    let part = match entry.part(request.filter_chain.as_deref()) {
        Ok(part) => part,
        Err(problem) => return failed(&problem),
    };
    let table = match &part.table {
        Ok(table) => table,
        Err(problem) => {
            let found = match problem {
                NoTable::Failed(problem) => failed(problem),
                NoTable::NotExamined(field) => unknown(field),
            };
            return Decision {
                listener: Some(entry.step(part)),
                ..found
            };
        }
    };
    let mut decision = Decision {
        listener: Some(entry.step(part)),
        route_config: Some(RouteConfigStep {
            name: table.config.name.clone(),
            source: table.source.clone(),
        }),
        not_examined: unexamined::of_listener(part, table, request),
        ..Decision::default()
    };
    let path = path(part, table, request);
    let authority = authority(part, request);
    let seen = MatchedRequest {
        request,
        path: &path,
        authority: &authority,
        scheme: if part.is_tls { "https" } else { "http" },
    };
    let authority = host(table, &authority);
    match table.find(&authority) {
        None => {
            let text = format!("404: no virtual host for {authority:?}");
            let failed = fail(None, 1.0, FailureReason::NoVirtualHost, text);
            decision.destinations.push(failed);
            decision
                .not_examined
                .extend(unexamined::of_host(table, None));
            let filters = unexamined::of_filters(part, (table, None), None);
            decision.not_examined.extend(filters);
        }
        Some((index, host, domain)) => {
            decision.virtual_host = Some(HostStep {
                index,
                name: host.proto.name.clone(),
                domain: domain.to_string(),
                domain_match: domain_match(domain),
                authority: authority.to_string(),
            });
            let fields = unexamined::of_host(table, Some(host));
            decision.not_examined.extend(fields);
            if !needs_tls(part, (host, request), &mut decision) {
                walk(part, (table, host), seen, &mut decision);
            }
            decision.clusters = clusters::of(&decision.destinations, source);
        }
    }
    unexamined::finish(table, &mut decision);
    decision
}

/// Returns the decision of a listener whose routes were not examined.
fn unknown(field: &str) -> Decision {
    let action = Action::Unknown {
        field: field.to_owned(),
    };
    Decision {
        destinations: vec![Destination {
            share: 1.0,
            route: None,
            action,
        }],
        not_examined: vec![field.to_owned()],
        ..Decision::default()
    }
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
fn authority<'a>(part: &Part, request: &'a Request) -> Cow<'a, str> {
    let authority = request.authority.as_str();
    // Envoy, `ConnectionManagerUtility::maybeNormalizeHost`: first the dot, which may stand before a port, then the
    // port.
    let mut authority = match authority.rsplit_once('.') {
        _ if !part.manager.strip_trailing_host_dot => Cow::Borrowed(authority),
        Some((host, "")) => Cow::Borrowed(host),
        Some((host, port)) if port.starts_with(':') => Cow::Owned(format!("{host}{port}")),
        _ => Cow::Borrowed(authority),
    };
    let strips_any = matches!(
        part.manager.strip_port_mode,
        Some(StripPortMode::StripAnyHostPort(true))
    );
    if strips_any {
        authority = match authority {
            Cow::Borrowed(authority) => Cow::Borrowed(without_port(authority)),
            Cow::Owned(authority) => Cow::Owned(without_port(&authority).to_owned()),
        };
    }
    authority
}
/// Returns the form of an authority that is compared with domains, in lower case.
fn host<'a>(table: &Table, mut authority: &'a str) -> Cow<'a, str> {
    if table.config.ignore_port_in_host_matching {
        authority = without_port(authority);
    }
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(authority.to_ascii_lowercase())
    } else {
        Cow::Borrowed(authority)
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
fn needs_tls(part: &Part, (host, request): (&Host, &Request), decision: &mut Decision) -> bool {
    let is_needed = host.proto.require_tls() != TlsRequirementType::None;
    // Envoy compares the header `x-forwarded-proto`, which a trusted proxy before it may have set.
    if is_needed && request.get("x-forwarded-proto").is_some() {
        decision.not_examined.push(
            "require_tls with header \"x-forwarded-proto\" (use_remote_address, xff_num_trusted_hops)"
                .to_owned(),
        );
    }
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
fn walk(
    part: &Part,
    (table, host): (&Table, &Host),
    seen: MatchedRequest<'_>,
    decision: &mut Decision,
) {
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
        let is_tried = left.share() > 0.0 && matcher.matches_path(seen);
        if is_tried {
            let headers = unexamined::of_headers(index, route);
            decision.not_examined.extend(headers);
        }
        let outcome = match matcher.unmet(seen) {
            Some(reason) => RouteOutcome::NotMatched { reason },
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
                let fields = unexamined::of_match(index, route);
                decision.not_examined.extend(fields);
                fractions += usize::from(matcher.fraction.is_some());
                let taken = left.take(matcher.fraction);
                let share = taken.share();
                if share > 0.0 {
                    last = index;
                    let fields = unexamined::of_taken(index, route);
                    decision.not_examined.extend(fields);
                    let filters = unexamined::of_filters(part, (table, Some(host)), Some(route));
                    decision.not_examined.extend(filters);
                    action::add(
                        part,
                        (table, host),
                        (index, route),
                        (seen, &taken),
                        decision,
                    );
                    RouteOutcome::Taken { share }
                } else {
                    let reason = "the requests of its fraction are taken".to_owned();
                    RouteOutcome::NotMatched { reason }
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
        let filters = unexamined::of_filters(part, (table, Some(host)), None);
        decision.not_examined.extend(filters);
    }
}
