//! Explanations: where a request goes, and why.

mod cost;
mod endpoints;
mod envoy;
mod fields;
mod grpc;
mod property;
mod unexamined;

use std::collections::BTreeMap;

use bytes::Bytes;
use oxds_core::explain::{
    Action, Answer, Decision, Explainer, Explanation, Request, ResourceSource, RouteOutcome,
    RuleSet,
};
use oxds_core::resource::{ResourceParsers, own_name};
use oxds_types::ResourceType;

use crate::support::text;

/// Resources that a test made.
#[derive(Debug, Clone, Default)]
struct Made(BTreeMap<(ResourceType, String), Bytes>);

impl ResourceSource for Made {
    fn find(&self, resource_type: &ResourceType, name: &str) -> Option<Bytes> {
        let key = (resource_type.clone(), name.to_owned());
        self.0.get(&key).cloned()
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<String> {
        let keys = self.0.keys();
        let of_type = keys.filter(|(own, _)| own == resource_type);
        of_type.map(|(_, name)| name.clone()).collect()
    }
}

impl Made {
    fn with(mut self, resource_type: &ResourceType, text: &str) -> Self {
        let value = text::bytes(resource_type, text);
        let name = own_name(&value).unwrap().into_owned();
        self.0.insert((resource_type.clone(), name), value);
        self
    }

    /// API listener `l` with the RDS routes `r`, which have these fields.
    fn routes(routes: &str) -> Self {
        Self::default()
            .with(
                &ResourceType::LISTENER,
                &api_listener(
                    "",
                    "rds { route_config_name: 'r' config_source { ads {} } }",
                ),
            )
            .with(&ResourceType::ROUTE, &format!("name: 'r' {routes}"))
    }

    /// The same with one virtual host for all authorities.
    fn all(routes: &str) -> Self {
        Self::routes(&format!(
            "virtual_hosts {{ name: 'all' domains: '*' {routes} }}"
        ))
    }

    /// An EDS cluster with these endpoints.
    fn cluster(self, name: &str, fields: &str, assignment: &str) -> Self {
        let cluster = format!(
            "name: '{name}' type: EDS eds_cluster_config {{ eds_config {{ ads {{}} }} }} {fields}"
        );
        self.with(&ResourceType::CLUSTER, &cluster).with(
            &ResourceType::ENDPOINT,
            &format!("cluster_name: '{name}' {assignment}"),
        )
    }

    fn explainer(self) -> Explainer<Self> {
        Explainer::new(self, "l", ResourceParsers::grpc())
    }

    fn explain(self, request: &Request) -> Explanation {
        let both = [RuleSet::Grpc, RuleSet::Envoy];
        self.explainer().explain(request, &both)
    }

    fn by(self, rules: RuleSet, request: &Request) -> Decision {
        let mut explanation = self.explainer().explain(request, &[rules]);
        explanation.answers.remove(0).decision
    }
}

const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "http_filters { name: 'router' typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";

fn api_listener(filters: &str, manager: &str) -> String {
    format!(
        "name: 'l' api_listener {{ api_listener {{ [{MANAGER}] {{ {filters} {ROUTER} {manager} }} }} }}"
    )
}

fn socket_listener(manager: &str) -> String {
    format!(
        "name: 'l' address {{ socket_address {{ address: '127.0.0.1' port_value: 1 }} }}
         filter_chains {{ filters {{ name: 'http' typed_config {{ [{MANAGER}] {{
           {ROUTER} rds {{ route_config_name: 'r' config_source {{ ads {{}} }} }} {manager} }} }} }} }}"
    )
}

fn rpc(path: &str) -> Request {
    Request::grpc(path, "shop.example")
}

/// Where a decision leads, such as `blue 30%, green 70%`.
fn leads(decision: &Decision) -> String {
    let texts = decision.destinations.iter().map(|one| {
        let what = match &one.action {
            Action::Forward { cluster, .. } => cluster.clone(),
            Action::Redirect { status, changes } => format!("{status} {}", changes.join(" ")),
            Action::DirectResponse { status } => status.to_string(),
            Action::Fail { text, .. } => text.clone(),
            Action::Unknown { field } => format!("unknown {field}"),
        };
        match one.share {
            1.0 => what,
            share => format!("{what} {:.4}%", share * 100.0),
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The result of each route.
fn outcomes(decision: &Decision) -> Vec<String> {
    let outcomes = decision.routes.iter().map(|route| match &route.outcome {
        RouteOutcome::Taken { share } => format!("taken {share}"),
        RouteOutcome::NotMatched { reason } | RouteOutcome::Ignored { reason } => reason.clone(),
        RouteOutcome::Shadowed { by } => format!("shadowed by {by}"),
        RouteOutcome::Unknown { fields } => format!("unknown {fields}"),
    });
    outcomes.collect()
}

/// The only answer.
fn only(explanation: &Explanation) -> &Answer {
    assert_eq!(explanation.answers.len(), 1, "{explanation:#?}");
    &explanation.answers[0]
}
