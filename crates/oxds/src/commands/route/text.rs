//! An explanation as text for people.

use std::fmt::Write as _;

use oxds_core::explain::{
    Action, Answer, ClusterStep, Decision, EndpointStep, Explanation, RouteOutcome, RouteStep,
    RuleSet,
};

use crate::table::one_line;

/// Number of routes that do not match, and are printed nevertheless.
const ROUTES: usize = 20;

/// Returns the answers, one after the other.
pub(super) fn explanation(explanation: &Explanation, all_routes: bool) -> String {
    let answers = explanation.answers.iter();
    let texts: Vec<_> = answers
        .map(|one| answer(one, explanation, all_routes))
        .collect();
    texts.join("\n")
}

/// Returns the names of rule sets, such as `gRPC and Envoy`.
pub(super) fn rules(rules: &[RuleSet]) -> String {
    let names = rules.iter().map(|rules| match rules {
        RuleSet::Grpc => "gRPC",
        RuleSet::Envoy => "Envoy",
    });
    names.collect::<Vec<_>>().join(" and ")
}

/// Returns a share in percent, with at most two decimals.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn answer(answer: &Answer, explanation: &Explanation, all_routes: bool) -> String {
    let mut out = String::new();
    let request = &explanation.request;
    line(&mut out, "rules", &rules(&answer.rules));
    let asked = format!(
        "{} {} at {}",
        request.method, request.path, request.authority
    );
    line(&mut out, "request", &asked);
    steps(&mut out, &answer.decision, all_routes);
    destinations(&mut out, &answer.decision);
    for cluster in &answer.decision.clusters {
        add_cluster(&mut out, cluster);
    }
    for difference in &answer.differences {
        line(&mut out, "differs", difference);
    }
    for field in &answer.decision.not_examined {
        line(&mut out, "not examined", field);
    }
    out
}

/// Adds a line: a word, and what it is about. Names come from outside, so control characters are escaped.
fn line(out: &mut String, word: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{word:<16}{}", one_line(text));
}

fn steps(out: &mut String, decision: &Decision, all_routes: bool) {
    if let Some(listener) = &decision.listener {
        line(
            out,
            "listener",
            &format!("{} ({})", listener.name, listener.part),
        );
    }
    if let Some(routes) = &decision.route_config {
        let name = if routes.name.is_empty() {
            "(no name)"
        } else {
            &routes.name
        };
        line(out, "routes", &format!("{name} ({})", routes.source));
    }
    if let Some(host) = &decision.virtual_host {
        let text = format!(
            "{}: domain {} ({})",
            host.name, host.domain, host.domain_match
        );
        line(out, "virtual host", &text);
    }
    let mut left = if all_routes { usize::MAX } else { ROUTES };
    let mut hidden = 0_usize;
    for route in &decision.routes {
        let is_dull = !matches!(
            route.outcome,
            RouteOutcome::Taken { .. } | RouteOutcome::Unknown { .. }
        );
        if is_dull && left == 0 {
            hidden += 1;
            continue;
        }
        left -= usize::from(is_dull);
        line(out, &format!("  route {}", route.index), &of_route(route));
    }
    if hidden > 0 {
        line(
            out,
            "",
            &format!("{hidden} routes more that do not match: --all prints them"),
        );
    }
}

fn of_route(route: &RouteStep) -> String {
    let name = match route.name.as_str() {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let outcome = match &route.outcome {
        RouteOutcome::Taken { share: 1.0 } => "matches".to_owned(),
        RouteOutcome::Taken { share } => format!("matches, takes {}", percent(*share)),
        RouteOutcome::NotMatched { reason } => format!("no: {reason}"),
        RouteOutcome::Shadowed { by } => format!("would match, but route {by} comes first"),
        RouteOutcome::Ignored { reason } => format!("ignored: {reason}"),
        RouteOutcome::Unknown { fields } => format!("not examined: {fields}"),
    };
    format!("{name}{} -> {outcome}", route.condition)
}

fn destinations(out: &mut String, decision: &Decision) {
    for one in &decision.destinations {
        let share = percent(one.share);
        match &one.action {
            Action::Forward {
                cluster,
                policies,
                filters,
            } => {
                line(out, "goes to", &format!("{share} cluster {cluster}"));
                for policy in policies {
                    line(out, "", &format!("  {policy}"));
                }
                if !filters.is_empty() {
                    line(out, "", &format!("  filters: {}", filters.join(", ")));
                }
            }
            Action::Redirect { status, changes } => {
                line(
                    out,
                    "goes to",
                    &format!("{share} redirect {status}: {}", changes.join(", ")),
                );
            }
            Action::DirectResponse { status } => {
                line(out, "goes to", &format!("{share} direct response {status}"));
            }
            Action::Fail { text, .. } => line(out, "fails", &format!("{share} {text}")),
            Action::Unknown { field } => {
                line(out, "not examined", &format!("{share} {field}"));
            }
        }
    }
}

fn add_cluster(out: &mut String, cluster: &ClusterStep) {
    let kind = [cluster.discovery.as_str(), cluster.balancing.as_str()];
    let kind: Vec<_> = kind.into_iter().filter(|text| !text.is_empty()).collect();
    let head = match &cluster.error {
        Some(error) => format!("{}: {error}", cluster.name),
        None => format!("{} ({})", cluster.name, kind.join(", ")),
    };
    line(out, "cluster", &head);
    for priority in &cluster.priorities {
        let of = if priority.cluster == cluster.name {
            String::new()
        } else {
            format!(" of {}", priority.cluster)
        };
        let text = format!("{}{of}: {}", priority.priority, percent(priority.share));
        line(out, "  priority", &text);
        for locality in &priority.localities {
            let weight = match locality.weight {
                Some(weight) => format!(", weight {weight}"),
                None => String::new(),
            };
            let text = format!("{}{weight}: {}", locality.name, percent(locality.share));
            line(out, "    locality", &text);
            for endpoint in &locality.endpoints {
                line(out, "      endpoint", &of_endpoint(endpoint));
            }
        }
    }
    for note in &cluster.notes {
        line(out, "  note", note);
    }
}

fn of_endpoint(endpoint: &EndpointStep) -> String {
    let health = match endpoint.health.as_str() {
        "UNKNOWN" => String::new(),
        health => format!(" {health}"),
    };
    let share = match (&endpoint.unused, endpoint.share) {
        (Some(unused), _) => unused.clone(),
        (None, Some(share)) => percent(share),
        (None, None) => "depends".to_owned(),
    };
    format!("{}{health}: {share}", endpoint.address)
}
