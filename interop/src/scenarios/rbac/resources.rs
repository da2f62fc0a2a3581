//! Listener and routes of a server with two RBAC filters.

use std::net::SocketAddr;

use crate::certificates::Tls;
use crate::config::server::{self, Chain, RBAC, rbac_filter};

/// Name of the route configuration.
const ROUTES: &str = "server-routes";
/// Names of the filters, in their order.
pub(super) const FILTERS: [&str; 2] = ["first", "second"];

/// Name and rules of the two filters of a route.
pub(super) struct Route {
    pub(super) name: &'static str,
    /// Flow mappings (`envoy.config.rbac.v3.RBAC`); empty for a filter without rules.
    pub(super) rules: [String; 2],
}

/// Service of a case's calls.
pub(super) fn service(name: &str) -> String {
    format!("/rbac.{name}")
}

/// The listener of a server. Its own rules deny every call, so that each route must replace them.
pub(super) fn listener(address: SocketAddr, tls: Option<Tls>) -> String {
    let filters = FILTERS.map(|name| rbac_filter(name, "action: ALLOW"));
    let chain = Chain {
        routes: Some(ROUTES),
        filters: &filters,
        tls,
    };
    server::listener(address, chain)
}

/// The route configuration, with a route per case.
pub(super) fn routes(routes: &[Route], port: u16) -> String {
    let routes: String = routes.iter().map(|one| route(one, port)).collect();
    format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: {ROUTES}
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
{routes}"#
    )
}

fn route(route: &Route, port: u16) -> String {
    let service = service(route.name);
    let overrides = FILTERS.iter().zip(&route.rules).map(|(filter, rules)| {
        let rules = rules.replace("$S", &service);
        let rules = rules.replace("$PORT", &port.to_string());
        let rules = match rules.as_str() {
            "" => String::new(),
            rules => format!("rules: {{ {rules} }}"),
        };
        format!("      {filter}: {{ \"@type\": {RBAC}PerRoute, rbac: {{ {rules} }} }}\n")
    });
    let overrides: String = overrides.collect();
    format!(
        "  - match: {{ prefix: {service}/ }}
    non_forwarding_action: {{}}
    typed_per_filter_config:
{overrides}"
    )
}
