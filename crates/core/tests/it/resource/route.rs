//! C-180 – C-195: validation of route configurations. For their matchers see `lb`.

use std::time::Duration;

use oxds_core::lb::PerMillion;
use oxds_core::resource::{
    Forward, HostRewrite, RouteAction, RouteConfig, RouteTarget, StreamLimit, WeightedTarget,
};

use crate::support::text::{accepted, rejected};

/// A route configuration of one virtual host with these routes.
fn routes(routes: &str) -> String {
    format!("name: 'r' virtual_hosts {{ name: 'h' domains: '*' {routes} }}")
}

/// One route: a match and an action.
pub(super) fn route(matching: &str, action: &str) -> String {
    routes(&format!("routes {{ match {{ {matching} }} {action} }}"))
}

const TO_C: &str = "route { cluster: 'c' }";

/// Returns the validation error of the only route.
pub(super) fn fault(matching: &str, action: &str) -> String {
    let error = rejected::<RouteConfig>(&route(matching, action));
    let rule = error.strip_prefix("r: virtual_hosts[0].routes[0].");
    rule.unwrap_or_else(|| panic!("{error}")).to_owned()
}

/// Returns the actions of the routes that are not ignored.
pub(super) fn actions(text: &str) -> Vec<RouteAction> {
    let config: RouteConfig = accepted(text);
    let routes = config
        .virtual_hosts
        .into_iter()
        .flat_map(|host| host.routes);
    routes.map(|route| route.action).collect()
}

fn target(action: &str) -> RouteTarget {
    match actions(&route("prefix: ''", action)).remove(0) {
        RouteAction::Forward(forward) => forward.target,
        other => panic!("{action} is supported, not {other:?}"),
    }
}

#[test]
fn c180_every_virtual_host_is_validated() {
    let error = rejected::<RouteConfig>(
        "name: 'r'
         virtual_hosts { name: 'mine' domains: '*' }
         virtual_hosts { name: 'other' domains: 'x' routes { match {} } }",
    );
    assert_eq!(
        error,
        "r: virtual_hosts[1].routes[0].match.path_specifier: must be set to prefix, path or safe_regex"
    );
}

#[test]
fn c180_domain_has_its_star_at_one_end() {
    let domains = |domains: &str| {
        rejected::<RouteConfig>(&format!(
            "name: 'r' virtual_hosts {{ name: 'h' {domains} }}"
        ))
    };
    assert_eq!(
        domains(""),
        "r: virtual_hosts[0].domains: must not be empty"
    );
    for domain in ["a*b", "a*b.c", ""] {
        assert_eq!(
            domains(&format!("domains: 'ok' domains: '{domain}'")),
            format!(
                "r: virtual_hosts[0].domains[1]: {domain:?} must have * at its beginning or its end only"
            )
        );
    }
}

#[test]
fn c181_route_matches_by_prefix_path_or_regex() {
    assert_eq!(
        rejected::<RouteConfig>(&routes(&format!("routes {{ {TO_C} }}"))),
        "r: virtual_hosts[0].routes[0].match: must be set"
    );
    for matching in ["", "connect_matcher {}", "path_separated_prefix: '/a'"] {
        assert_eq!(
            fault(matching, TO_C),
            "match.path_specifier: must be set to prefix, path or safe_regex"
        );
    }
}

#[test]
fn c181_regex_must_compile_by_itself() {
    for regex in ["(", "a)|(b", "[z-a]"] {
        let error = fault(&format!("safe_regex {{ regex: '{regex}' }}"), TO_C);
        assert!(
            error.starts_with("match.safe_regex.regex: is not a valid regular expression: "),
            "{regex}: {error}"
        );
    }
}

#[test]
fn c120_regex_with_huge_memory_use_is_rejected() {
    let error = fault("safe_regex { regex: '((a{1000}){1000}){1000}' }", TO_C);
    assert!(
        error.contains("is not a valid regular expression"),
        "{error}"
    );
}

#[test]
fn c184_route_with_query_parameters_is_ignored() {
    let text = routes(
        "routes { match { prefix: '' query_parameters { name: 'q' } } route { cluster: 'out' } }
         routes { match { prefix: '' } route { cluster: 'in' } }",
    );
    let kept = actions(&text);
    assert_eq!(kept.len(), 1);
    assert!(
        matches!(&kept[0], RouteAction::Forward(forward) if forward.target == RouteTarget::Cluster("in".into()))
    );
}

#[test]
fn c185_unsupported_header_matchers_are_rejected() {
    let header = |header: &str| fault(&format!("prefix: '' headers {{ {header} }}"), TO_C);
    assert_eq!(
        header("exact_match: 'x'"),
        "match.headers[0].name: must not be empty"
    );
    assert_eq!(
        header("name: 'h'"),
        "match.headers[0].header_match_specifier: must be set"
    );
    for field in ["prefix_match", "suffix_match", "contains_match"] {
        assert_eq!(
            header(&format!("name: 'h' {field}: ''")),
            format!("match.headers[0].{field}: must not be empty")
        );
    }
    for field in ["prefix", "suffix", "contains"] {
        assert_eq!(
            header(&format!("name: 'h' string_match {{ {field}: '' }}")),
            format!("match.headers[0].string_match.{field}: must not be empty")
        );
    }
    assert_eq!(
        header("name: 'h' string_match {}"),
        "match.headers[0].string_match.match_pattern: must be set"
    );
    let error = header("name: 'h' string_match { safe_regex { regex: '(' } }");
    assert!(
        error.starts_with("match.headers[0].string_match.safe_regex.regex: "),
        "{error}"
    );
}

#[test]
fn c186_fractions_are_scaled_to_a_million() {
    let fraction = |percent: &str| {
        let text = route(
            &format!("prefix: '' runtime_fraction {{ default_value {{ {percent} }} }}"),
            TO_C,
        );
        accepted::<RouteConfig>(&text).virtual_hosts[0].routes[0]
            .matcher
            .fraction
            .unwrap()
            .get()
    };
    assert_eq!(fraction("numerator: 3"), 30_000);
    assert_eq!(fraction("numerator: 3 denominator: TEN_THOUSAND"), 300);
    assert_eq!(fraction("numerator: 3 denominator: MILLION"), 3);
    assert_eq!(fraction("numerator: 101"), PerMillion::ALL.get());
    assert_eq!(
        fault(
            "prefix: '' runtime_fraction { default_value { denominator: 7 } }",
            TO_C
        ),
        "match.runtime_fraction.default_value.denominator: is unknown"
    );
}

#[test]
fn c259_non_forwarding_action_is_for_servers() {
    assert_eq!(
        actions(&route("prefix: ''", "non_forwarding_action {}")),
        [RouteAction::NonForwarding]
    );
}

#[test]
fn c187_unsupported_actions_are_kept_and_fail() {
    for action in [
        "redirect {}",
        "direct_response { status: 200 }",
        "filter_action {}",
        "",
    ] {
        assert_eq!(
            actions(&route("prefix: ''", action)),
            [RouteAction::Unsupported],
            "{action}"
        );
    }
}

#[test]
fn c188_unsupported_cluster_specifiers_are_ignored() {
    assert_eq!(target(TO_C), RouteTarget::Cluster("c".into()));
    assert_eq!(
        fault("prefix: ''", "route { cluster: '' }"),
        "route.cluster: must not be empty"
    );
    for action in [
        "route { cluster_header: 'h' }",
        "route { inline_cluster_specifier_plugin { extension { name: 'p' } } }",
        "route {}",
    ] {
        assert_eq!(actions(&route("prefix: ''", action)), [], "{action}");
    }
}

#[test]
fn c189_weight_sum_is_positive_and_fits_32_bits() {
    let weighted = |clusters: &[(&str, u32)]| {
        let clusters: String = clusters
            .iter()
            .map(|(name, weight)| {
                format!("clusters {{ name: '{name}' weight {{ value: {weight} }} }}")
            })
            .collect();
        format!("route {{ weighted_clusters {{ {clusters} }} }}")
    };
    assert_eq!(
        target(&weighted(&[("a", 90), ("none", 0), ("b", 10)])),
        RouteTarget::Weighted(targets([("a", 90), ("b", 10)]))
    );
    let whole = u32::MAX;
    assert_eq!(
        target(&weighted(&[("a", whole - 1), ("b", 1)])),
        RouteTarget::Weighted(targets([("a", whole - 1), ("b", 1)]))
    );
    let fault = |clusters: &[(&str, u32)]| fault("prefix: ''", &weighted(clusters));
    let within = "route.weighted_clusters.clusters";
    for none in [&[][..], &[("a", 0)]] {
        assert_eq!(
            fault(none),
            format!("{within}: must have a total weight above zero")
        );
    }
    assert_eq!(
        fault(&[("a", whole), ("b", 1)]),
        format!("{within}: must have weights whose sum fits in 32 bits")
    );
    assert_eq!(fault(&[("", 1)]), format!("{within}: must all have a name"));
}

#[test]
fn c189_total_weight_field_is_ignored() {
    let action = "route { weighted_clusters { clusters { name: 'a' weight { value: 1 } } total_weight { value: 7 } } }";
    assert_eq!(target(action), RouteTarget::Weighted(targets([("a", 1)])));
}

#[test]
fn c191_route_max_stream_duration_is_read() {
    let limit = |fields: &str| {
        let action = format!("route {{ cluster: 'c' max_stream_duration {{ {fields} }} }}");
        match actions(&route("prefix: ''", &action)).remove(0) {
            RouteAction::Forward(forward) => forward.limit,
            other => panic!("supported, not {other:?}"),
        }
    };
    assert_eq!(limit(""), StreamLimit::default());
    assert_eq!(
        limit("max_stream_duration { seconds: 2 } grpc_timeout_header_max { nanos: 5 }"),
        StreamLimit {
            max_stream_duration: Some(Duration::from_secs(2)),
            grpc_timeout_header_max: Some(Duration::from_nanos(5)),
        }
    );
    for field in ["max_stream_duration", "grpc_timeout_header_max"] {
        let action =
            format!("route {{ cluster: 'c' max_stream_duration {{ {field} {{ seconds: -1 }} }} }}");
        assert_eq!(
            fault("prefix: ''", &action),
            format!("route.max_stream_duration.{field}: must be a duration that is not negative")
        );
    }
}

const FILTER: &str = "envoy.extensions.filters.http.cors.v3.Cors";
const STRUCT: &str = "xds.type.v3.TypedStruct";

/// Given plugins of unknown types; then they must be optional, and routes name only plugins that are defined. A route
/// of an optional plugin is ignored.
#[test]
fn c190_unknown_and_undefined_plugins_are_rejected() {
    let with = |plugins: &str, plugin: &str| {
        let route = route(
            "prefix: ''",
            &format!("route {{ cluster_specifier_plugin: '{plugin}' }}"),
        );
        format!("{plugins} {route}")
    };
    let plugin = |name: &str, fields: &str| {
        format!(
            "cluster_specifier_plugins {{ extension {{ name: '{name}'
               typed_config {{ [type.googleapis.com/{STRUCT}] {{ type_url: 'x/a.B' }} }} }} {fields} }}"
        )
    };
    let optional = plugin("p", "is_optional: true");
    assert_eq!(actions(&with(&optional, "p")), []);
    for (plugins, rule) in [
        (
            plugin("p", ""),
            "cluster_specifier_plugins[0].extension.typed_config: \"xds.type.v3.TypedStruct\" is not supported",
        ),
        (
            plugin("q", "is_optional: true"),
            "virtual_hosts[0].routes[0].route.cluster_specifier_plugin: \"p\" is not in cluster_specifier_plugins",
        ),
        (
            format!("{optional} {optional}"),
            "cluster_specifier_plugins[1].extension.name: \"p\" is defined twice",
        ),
        (
            "cluster_specifier_plugins { is_optional: true extension { name: 'p' } }".to_owned(),
            "cluster_specifier_plugins[0].extension.typed_config: must be set",
        ),
        (
            "cluster_specifier_plugins { is_optional: true }".to_owned(),
            "cluster_specifier_plugins[0].extension: must be set",
        ),
        (
            plugin("", "is_optional: true"),
            "cluster_specifier_plugins[0].extension.name: must not be empty",
        ),
    ] {
        assert_eq!(
            rejected::<RouteConfig>(&with(&plugins, "p")),
            format!("r: {rule}")
        );
    }
}

/// Given filter configurations at a virtual host, a route and a weighted cluster; then unknown and empty ones are
/// rejected, unless they are marked as optional.
#[test]
fn c194_unknown_filter_configurations_are_rejected() {
    let config = |name: &str, any: &str| {
        format!("typed_per_filter_config {{ key: '{name}' value {{ {any} }} }}")
    };
    let wrapped = |fields: &str| {
        format!("[type.googleapis.com/envoy.config.route.v3.FilterConfig] {{ {fields} }}")
    };
    let filter = format!("[type.googleapis.com/{FILTER}] {{}}");
    let inner = format!("config {{ {filter} }}");
    let levels = |config: &str| {
        [
            (
                format!("name: 'r' virtual_hosts {{ name: 'h' domains: '*' {config} }}"),
                "",
            ),
            (
                routes(&format!(
                    "routes {{ match {{ prefix: '' }} {TO_C} {config} }}"
                )),
                "routes[0].",
            ),
            (
                route(
                    "prefix: ''",
                    &format!(
                        "route {{ weighted_clusters {{ clusters {{ name: 'w' weight {{ value: 1 }} {config} }} }} }}"
                    ),
                ),
                "routes[0].route.weighted_clusters.clusters.\"w\".",
            ),
        ]
    };
    let optional = wrapped(&format!("is_optional: true {inner}"));
    for good in [optional, wrapped("is_optional: true disabled: true")] {
        for (text, _) in levels(&config("f", &good)) {
            accepted::<RouteConfig>(&text);
        }
    }
    for (bad, rule) in [
        (
            filter.clone(),
            "\"envoy.extensions.filters.http.cors.v3.Cors\" is not supported",
        ),
        (
            wrapped(&inner),
            "config: \"envoy.extensions.filters.http.cors.v3.Cors\" is not supported",
        ),
        (wrapped(""), "config: must be set"),
        (
            wrapped("is_optional: true config {}"),
            "config.type_url: must not be empty",
        ),
        (String::new(), "type_url: must not be empty"),
    ] {
        for (text, place) in levels(&config("f", &bad)) {
            let error = rejected::<RouteConfig>(&text);
            let separator = if rule.starts_with('"') { ": " } else { "." };
            assert_eq!(
                error,
                format!(
                    "r: virtual_hosts[0].{place}typed_per_filter_config[\"f\"]{separator}{rule}"
                )
            );
        }
    }
    for (text, place) in levels(&config("", &filter)) {
        assert_eq!(
            rejected::<RouteConfig>(&text),
            format!(
                "r: virtual_hosts[0].{place}typed_per_filter_config: must have names of filters as keys"
            )
        );
    }
    // A route that the channel ignores has no filters.
    let ignored = routes(&format!(
        "routes {{ match {{ prefix: '' }} route {{ cluster_header: 'h' }} {} }}",
        config("f", &filter)
    ));
    accepted::<RouteConfig>(&ignored);
}

fn targets<const N: usize>(list: [(&str, u32); N]) -> Vec<WeightedTarget> {
    let target = |(name, weight): (&str, u32)| (name.into(), weight).into();
    list.map(target).into()
}

/// Returns the forwarding action of a route with these fields.
pub(super) fn forward(fields: &str) -> Forward {
    let action = format!("route {{ cluster: 'c' {fields} }}");
    match &actions(&route("prefix: ''", &action))[0] {
        RouteAction::Forward(forward) => forward.clone(),
        other => panic!("{other:?}: {fields}"),
    }
}

#[test]
fn c195_auto_host_rewrite_is_ignored_until_server_is_trusted() {
    let rewrite = |action: &str| {
        let config = accepted::<RouteConfig>(&route(
            "prefix: ''",
            &format!("route {{ cluster: 'c' {action} }}"),
        ));
        config.host_rewrite
    };
    assert_eq!(
        rewrite("auto_host_rewrite { value: true }"),
        HostRewrite::Ignored
    );
    for unused in [
        "",
        "auto_host_rewrite {}",
        "host_rewrite_literal: 'h'",
        "host_rewrite_header: 'h'",
    ] {
        assert_eq!(rewrite(unused), HostRewrite::Unused, "{unused}");
    }
    assert!(forward("auto_host_rewrite { value: true }").auto_host_rewrite);
}
