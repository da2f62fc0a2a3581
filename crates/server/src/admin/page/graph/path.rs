//! The path of one request: the explanation of `core`, marked in the graph and written as steps.

use std::sync::Arc;

use bytes::Bytes;
use maud::{Markup, html};
use oxds_core::explain::{
    Action, Answer, Explainer, Explanation, Request, ResourceSource, RouteOutcome, RouteStep,
    RuleSet,
};
use oxds_core::resource::ResourceParsers;
use oxds_core::snapshot::Snapshot;
use oxds_types::ResourceType;

use crate::admin::page::parts::{resource_link, shown};
use crate::admin::page::url::Query;

/// Routes that are listed of those that do not match.
const LISTED: usize = 40;

/// The served resources, as the explanation reads them.
#[derive(Debug)]
struct Served(Arc<Snapshot>);

impl ResourceSource for Served {
    fn find(&self, resource_type: &ResourceType, name: &str) -> Option<Bytes> {
        self.0
            .get(resource_type, name)
            .map(|resource| resource.value())
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<String> {
        let all = self.0.of_type(resource_type).collection().iter();
        all.map(|resource| resource.name().to_string()).collect()
    }
}

/// Returns where the request of a query goes; `None` if it names no path.
pub(super) fn explain(
    snapshot: &Arc<Snapshot>,
    listener: &str,
    query: &Query,
) -> Option<Explanation> {
    let (path, authority) = (query.get("path"), query.get("authority"));
    if path.is_empty() {
        return None;
    }
    let authority = if authority.is_empty() {
        listener
    } else {
        authority
    };
    let mut explainer = Explainer::new(
        Served(Arc::clone(snapshot)),
        listener,
        ResourceParsers::grpc(),
    );
    let rules = explainer.rules();
    let request = match (query.get("method"), rules.contains(&RuleSet::Grpc)) {
        ("", true) => Request::grpc(path, authority),
        ("", false) => Request::http("GET", path, authority),
        (method, _) => Request::http(method, path, authority),
    };
    Some(explainer.explain(&request, rules))
}

/// Returns the form that asks for a request's path.
pub(super) fn form(listener: &str, query: &Query) -> Markup {
    html! {
        form {
            input type="hidden" name="listener" value=(listener);
            label.wide { "Path of a request"
                input name="path" value=(query.get("path")) placeholder="/shop.Cart/Get" autocomplete="off"; }
            label { "Authority"
                input name="authority" value=(query.get("authority")) placeholder=(listener) autocomplete="off"; }
            label { "Method"
                input name="method" value=(query.get("method")) placeholder="POST of gRPC" size="12" autocomplete="off"; }
            button { "Show its path" }
        }
    }
}

/// Returns the steps of an explanation.
pub(super) fn steps(explanation: &Explanation) -> Markup {
    html! { @for answer in &explanation.answers { (answer_steps(answer)) } }
}

fn answer_steps(answer: &Answer) -> Markup {
    let rules: Vec<&str> = answer
        .rules
        .iter()
        .map(|rules| match rules {
            RuleSet::Grpc => "gRPC",
            RuleSet::Envoy => "Envoy",
        })
        .collect();
    let decision = &answer.decision;
    let (failed, taken): (Vec<&RouteStep>, Vec<&RouteStep>) = decision
        .routes
        .iter()
        .partition(|step| !matches!(step.outcome, RouteOutcome::Taken { .. }));
    html! {
        h2 { "By the rules of " (rules.join(" and ")) }
        ol.steps {
            @if let Some(listener) = &decision.listener {
                li { "Listener " (resource_link("lds", &listener.name, "")) ", " (shown(&listener.part)) }
            }
            @if let Some(config) = &decision.route_config {
                li { "Route configuration " b { (shown(&config.name)) } ", " (shown(&config.source)) }
            }
            @match &decision.virtual_host {
                Some(host) => li { "Virtual host " b { (shown(&host.name)) } ": domain " code { (shown(&host.domain)) } " matches "
                    code { (shown(&host.authority)) } " (" (host.domain_match) ")" },
                None => {},
            }
            @if !failed.is_empty() {
                li { details {
                    summary { (failed.len()) " routes are not taken" }
                    ul { @for step in failed.iter().take(LISTED) { (route(step)) } }
                    @if failed.len() > LISTED { p.soft { "and " (failed.len() - LISTED) " more" } }
                } }
            }
            @for step in taken { (route(step)) }
            @for destination in &decision.destinations {
                li { (percent(destination.share)) " " (action(&destination.action)) }
            }
            @for difference in &answer.differences { li { (shown(difference)) } }
            @for field in &decision.not_examined { li { "Not examined: " code { (shown(field)) } } }
        }
    }
}

fn route(step: &RouteStep) -> Markup {
    html! {
        li {
            "Route " (step.index + 1) @if !step.name.is_empty() { " " b { (shown(&step.name)) } } ", " code { (shown(&step.condition)) } ": "
            @match &step.outcome {
                RouteOutcome::Taken { share } => { "taken by " (percent(*share)) },
                RouteOutcome::NotMatched { reason } => (shown(reason)),
                RouteOutcome::Shadowed { by } => { "route " (by + 1) " takes all such requests" },
                RouteOutcome::Ignored { reason } => { "ignored: " (shown(reason)) },
                RouteOutcome::Unknown { fields } => { "not examined: " (shown(fields)) },
            }
        }
    }
}

fn action(action: &Action) -> Markup {
    html! {
        @match action {
            Action::Forward { cluster, policies, filters } => {
                "to cluster " (resource_link("cds", cluster, ""))
                @if !policies.is_empty() { span.soft { " · " (shown(&policies.join(", "))) } }
                @if !filters.is_empty() { span.soft { " · filters: " (shown(&filters.join(", "))) } }
            },
            Action::Redirect { status, changes } => { "redirect " (status) ": " (shown(&changes.join(", "))) },
            Action::DirectResponse { status } => { "answered with " (status) },
            Action::Fail { text, .. } => { span.badge.bad { "fails" } " " (shown(text)) },
            Action::Unknown { field } => { "not examined: " (shown(field)) },
        }
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shares_are_percents() {
        for (share, text) in [
            (1.0, "100%"),
            (0.75, "75%"),
            (1.0 / 3.0, "33.3%"),
            (0.1, "10%"),
        ] {
            assert_eq!(percent(share), text);
        }
    }
}
