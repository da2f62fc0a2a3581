//! Decisions by gRPC's rules.

use oxds_core::explain::{Action, FailureReason, Request, RuleSet};
use oxds_types::ResourceType;

use super::{Made, api_listener, leads, only, outcomes, rpc};

#[test]
fn each_route_says_why_it_does_not_match() {
    let routes = "
      routes { name: 'admin' match { prefix: '/shop.Admin/' } route { cluster: 'admin' } }
      routes { match { prefix: '/' headers { name: 'X-Env' string_match { exact: 'canary' } } } route { cluster: 'canary' } }
      routes { match { prefix: '/' headers { name: 'x-debug' present_match: true } } route { cluster: 'debug' } }
      routes { match { prefix: '/' query_parameters { name: 'v' present_match: true } } route { cluster: 'v2' } }
      routes { match { path: '/shop.Checkout/pay' case_sensitive { value: false } } route { cluster: 'checkout' } }
      routes { match { prefix: '' } route { cluster: 'late' } }";
    let request = rpc("/shop.Checkout/Pay").header("x-env", "prod");
    let decision = Made::all(routes).by(RuleSet::Grpc, &request);
    assert_eq!(
        outcomes(&decision),
        [
            "the path differs",
            "header \"x-env\" is \"prod\"",
            "header \"x-debug\" is absent",
            "gRPC ignores routes with query parameters (gRFC A28)",
            "taken 1",
            "shadowed by 4",
        ]
    );
    assert_eq!(decision.routes[0].name, "admin");
    assert_eq!(
        decision.routes[4].condition,
        "path \"/shop.Checkout/pay\" (any case)"
    );
    assert_eq!(leads(&decision), "checkout");
}

/// gRFC A28: an ignored route keeps its place, so that positions are those of the resource.
#[test]
fn ignored_routes_keep_their_positions() {
    let routes = "
      routes { match { prefix: '/' query_parameters { name: 'a' } } route { cluster: 'a' } }
      routes { match { path: '/b' } route { cluster: 'b' } }
      routes { match { prefix: '/' } route { cluster_header: 'x' } }
      routes { match { prefix: '/' query_parameters { name: 'a' } } route { cluster: 'a' } }
      routes { name: 'last' match { prefix: '/' } route { cluster: 'c' } }";
    let decision = Made::all(routes).by(RuleSet::Grpc, &rpc("/c"));
    let indexes: Vec<_> = decision.routes.iter().map(|route| route.index).collect();
    assert_eq!(indexes, [0, 1, 2, 3, 4]);
    assert_eq!(decision.destinations[0].route, Some(4));
    assert_eq!(decision.routes[4].name, "last");
}

#[test]
fn hidden_headers_are_absent_for_grpc() {
    let routes = "
      routes { match { prefix: '' headers { name: 'te' present_match: true } } route { cluster: 'a' } }
      routes { match { prefix: '' headers { name: ':method' string_match { exact: 'POST' } } } route { cluster: 'b' } }
      routes { match { prefix: '' } route { cluster: 'c' } }";
    let explanation = Made::all(routes).explain(&rpc("/x"));
    let leads: Vec<_> = explanation
        .answers
        .iter()
        .map(|one| leads(&one.decision))
        .collect();
    assert_eq!(
        leads,
        ["c", "a"],
        "gRFC A28 hides them; Envoy compares them"
    );
    assert_eq!(
        explanation.answers[0].differences,
        ["the rules part at route 0"]
    );
}

#[test]
fn differences_of_weighted_clusters_are_said_once() {
    let routes = "
      routes { match { prefix: '' } route { weighted_clusters {
        clusters { name: 'a' weight { value: 1 } } clusters { name: 'b' weight { value: 3 } } } } }";
    let explanation = Made::all(routes).explain(&rpc("/x"));
    let differences = &explanation.answers[0].differences;
    let of_filters = differences
        .iter()
        .filter(|one| one.starts_with("HTTP filters by Envoy's rules"));
    assert_eq!(of_filters.count(), 1, "{differences:?}");
}

#[test]
fn fractions_and_weights_become_shares() {
    let routes = "
      routes { match { prefix: '' runtime_fraction { default_value { numerator: 20 } } } route { cluster: 'new' } }
      routes { match { prefix: '' runtime_fraction { default_value { numerator: 50 } } } route { weighted_clusters {
        clusters { name: 'a' weight { value: 1 } } clusters { name: 'b' weight { value: 3 } } clusters { name: 'off' weight { value: 0 } } } } }";
    let decision = Made::all(routes).by(RuleSet::Grpc, &rpc("/x"));
    assert_eq!(
        leads(&decision),
        "new 20.0000%, a 10.0000%, b 30.0000%, UNAVAILABLE: no route matches /x 40.0000%"
    );
}

#[test]
fn domain_and_how_it_matches_are_told() {
    let hosts = "
      virtual_hosts { name: 'any' domains: '*' routes { match { prefix: '' } route { cluster: 'a' } } }
      virtual_hosts { name: 'shop' domains: 'other' domains: '*.EXAMPLE' routes { match { prefix: '' } route { cluster: 'b' } } }";
    let explanation = Made::routes(hosts).explain(&Request::grpc("/x", "Shop.Example"));
    let answer = only(&explanation);
    let host = answer.decision.virtual_host.as_ref().unwrap();
    assert_eq!((host.index, &*host.name), (1, "shop"));
    assert_eq!((&*host.domain, host.domain_match), ("*.example", "suffix"));
    assert_eq!(host.authority, "shop.example");
}

#[test]
fn missing_parts_are_failures_with_their_place() {
    let nothing = Made::default().by(RuleSet::Grpc, &rpc("/x"));
    assert!(
        leads(&nothing).contains("Listener \"l\" does not exist"),
        "{nothing:?}"
    );

    let hosts = "virtual_hosts { name: 'h' domains: 'other' routes { match { prefix: '' } route { cluster: 'a' } } }";
    let explanation = Made::routes(hosts).explain(&rpc("/x"));
    let failed = only(&explanation);
    let Action::Fail { reason, .. } = &failed.decision.destinations[0].action else {
        panic!("{failed:?}");
    };
    assert_eq!(*reason, FailureReason::NoVirtualHost);
    assert_eq!(failed.decision.route_config.as_ref().unwrap().name, "r");
    assert_eq!(failed.rules, [RuleSet::Grpc, RuleSet::Envoy]);

    let invalid = Made::routes("virtual_hosts { name: 'h' domains: 'a*b' }");
    let text = leads(&invalid.by(RuleSet::Grpc, &rpc("/x")));
    assert!(text.contains("virtual_hosts[0].domains[0]"), "{text}");

    let routes = "routes { match { prefix: '' } route { cluster: 'gone' } }";
    let explanation = Made::all(routes).explain(&rpc("/x"));
    let cluster = &only(&explanation).decision.clusters[0];
    assert!(
        cluster
            .error
            .as_ref()
            .unwrap()
            .contains("Cluster \"gone\" does not exist")
    );
}

#[test]
fn policies_in_force_are_told() {
    let fault = "http_filters { name: 'fault' typed_config { [type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault] {
        abort { grpc_status: 14 percentage { numerator: 5 } } } } }";
    let manager = "common_http_protocol_options { max_stream_duration { seconds: 9 } }
        route_config { virtual_hosts { name: 'all' domains: '*' retry_policy { retry_on: 'unavailable' num_retries { value: 2 } }
          routes { match { prefix: '' } route { cluster: 'a' hash_policy { header { header_name: 'X-User' } terminal: true } } } } }";
    let made = Made::default().with(&ResourceType::LISTENER, &api_listener(fault, manager));
    let explanation = made.explain(&rpc("/x").header("x-user", "ann"));
    let answer = only(&explanation);
    let Action::Forward {
        policies, filters, ..
    } = &answer.decision.destinations[0].action
    else {
        panic!("{answer:?}");
    };
    assert_eq!(
        *policies,
        [
            "timeout: 9s",
            "retry: on UNAVAILABLE, at most 3 attempts, back-off 25ms to 250ms",
            "hash: header \"x-user\", here \"ann\", terminal",
        ]
    );
    assert_eq!(*filters, ["fault abort"]);
    let timeout = "cluster a, by Envoy's rules: timeout: 15s (default), stream at most 9s";
    assert!(
        answer.differences.contains(&timeout.to_owned()),
        "{answer:?}"
    );
}
