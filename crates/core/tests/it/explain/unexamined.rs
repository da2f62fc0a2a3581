//! Fields that are not examined, case by case. `fields` shows that none is forgotten.

use oxds_core::explain::{Decision, Request, RuleSet};
use oxds_types::ResourceType;

use super::{Made, api_listener, leads, outcomes, rpc};

fn get(authority: &str) -> Request {
    Request::http("GET", "/", authority)
}

fn listener(filters: &str, manager: &str) -> Made {
    let routes = "name: 'r' virtual_hosts { name: 'all' domains: 'shop.example'
      routes { match { prefix: '' } route { cluster: 'a' } typed_per_filter_config { key: 'off' value {
        [type.googleapis.com/envoy.config.route.v3.FilterConfig] { disabled: true } } } } }";
    let rds = format!("rds {{ route_config_name: 'r' config_source {{ ads {{}} }} }} {manager}");
    Made::default()
        .with(&ResourceType::LISTENER, &api_listener(filters, &rds))
        .with(&ResourceType::ROUTE, routes)
}

fn by_envoy(made: Made, request: &Request) -> Decision {
    made.by(RuleSet::Envoy, request)
}

#[test]
fn scoped_routes_are_unknown_and_no_failure() {
    let scoped =
        "scoped_routes { name: 's' scope_key_builder { fragments { header_value_extractor {
      name: 'x' element { separator: ';' key: 'k' } } } }
      rds_config_source { ads {} } scoped_rds { scoped_rds_config_source { ads {} } } }";
    let made = Made::default().with(&ResourceType::LISTENER, &api_listener("", scoped));
    let decision = by_envoy(made, &get("shop.example"));
    assert_eq!(leads(&decision), "unknown scoped_routes");
    assert_eq!(decision.not_examined, ["scoped_routes"]);
    assert_eq!(decision.listener.unwrap().name, "l");
}

/// Envoy removes the dot first, which may stand before a port.
#[test]
fn dot_before_a_port_is_stripped() {
    let dot = "strip_trailing_host_dot: true";
    let both = "strip_trailing_host_dot: true strip_any_host_port: true";
    for (manager, authority, expected) in [
        (dot, "shop.example.", "a"),
        (dot, "shop.example", "a"),
        (
            dot,
            "shop.example.:80",
            "404: no virtual host for \"shop.example:80\"",
        ),
        (both, "shop.example.:80", "a"),
        (both, "[::1.]:80", "404: no virtual host for \"[::1.]\""),
    ] {
        let decision = by_envoy(listener("", manager), &get(authority));
        assert_eq!(leads(&decision), expected, "{manager} {authority}");
    }
}

#[test]
fn filters_that_may_change_the_route_are_noted() {
    let filter = |name: &str, message: &str, fields: &str| {
        format!(
            "http_filters {{ name: '{name}' {fields} typed_config {{ [type.googleapis.com/envoy.extensions.filters.http.{message}] {{}} }} }}"
        )
    };
    let lua = |name: &str, fields: &str| filter(name, "lua.v3.Lua", fields);
    let filters = [
        filter("cors", "cors.v3.Cors", ""),
        lua("on", ""),
        lua("off", ""),
        lua("out", "disabled: true"),
    ];
    let decision = by_envoy(listener(&filters.concat(), ""), &get("shop.example"));
    assert_eq!(decision.not_examined, ["HTTP filter \"on\" (http_filters)"]);
    let lost = by_envoy(listener(&filters.concat(), ""), &get("none.example"));
    assert_eq!(
        lost.not_examined,
        [
            "HTTP filter \"on\" (http_filters)",
            "HTTP filter \"off\" (http_filters)"
        ],
        "no route disables the second one"
    );
}

#[test]
fn mirrors_of_the_most_specific_place_count() {
    let mirror = |cluster: &str| format!("request_mirror_policies {{ {cluster} }}");
    let routes = |config: &str, host: &str, route: &str| {
        let routes = format!(
            "{config} virtual_hosts {{ name: 'all' domains: '*' {host} routes {{ match {{ prefix: '' }} route {{ cluster: 'a' {route} }} }} }}"
        );
        format!(
            "{:?}",
            by_envoy(Made::routes(&routes), &get("x")).destinations
        )
    };
    let config = mirror("cluster: 'of-config'");
    let host = mirror("cluster: 'of-host'");
    let route = mirror("cluster_header: 'x-mirror'");
    assert!(routes(&config, "", "").contains("\"mirror: of-config\""));
    assert!(routes(&config, &host, "").contains("\"mirror: of-host\""));
    let all = routes(&config, &host, &route);
    assert!(all.contains("mirror: cluster of header"), "{all}");
    assert!(!all.contains("of-host"), "{all}");
}

#[test]
fn tls_by_a_trusted_header_is_noted() {
    let routes = |tls: &str| {
        Made::all(&format!(
            "require_tls: {tls} routes {{ match {{ prefix: '' }} route {{ cluster: 'a' }} }}"
        ))
    };
    let request = get("x").header("x-forwarded-proto", "https");
    let note =
        "require_tls with header \"x-forwarded-proto\" (use_remote_address, xff_num_trusted_hops)";
    assert_eq!(by_envoy(routes("ALL"), &request).not_examined, [note]);
    assert!(by_envoy(routes("ALL"), &get("x")).not_examined.is_empty());
    assert!(by_envoy(routes("NONE"), &request).not_examined.is_empty());
    let external = by_envoy(routes("EXTERNAL_ONLY"), &get("x"));
    assert_eq!(external.not_examined, ["require_tls: EXTERNAL_ONLY"]);
}

/// gRFC A28: gRPC ignores the route; clients with the plugin do not.
#[test]
fn plugins_are_noted_by_the_rules_of_grpc() {
    let routes = "
      routes { match { prefix: '/p' } route { inline_cluster_specifier_plugin { extension { name: 'p' } } } }
      routes { match { prefix: '' } route { cluster: 'b' } }";
    let decision = Made::all(routes).by(RuleSet::Grpc, &rpc("/p/x"));
    assert!(outcomes(&decision)[0].contains("gRPC ignores routes"));
    assert_eq!(
        decision.not_examined,
        ["route 0: cluster specifier plugin, which some gRPC clients support"]
    );
    let plain = "routes { match { prefix: '' } route { cluster_header: 'x' } }";
    let decision = Made::all(plain).by(RuleSet::Grpc, &rpc("/p/x"));
    assert!(decision.not_examined.is_empty());
}
