//! Decisions by Envoy's rules.

use oxds_core::explain::{Request, RuleSet};
use oxds_types::ResourceType;

use super::{Made, leads, outcomes, rpc, socket_listener};

fn get(path: &str) -> Request {
    Request::http("GET", path, "shop.example")
}

fn decided(routes: &str, request: &Request) -> String {
    leads(&Made::all(routes).by(RuleSet::Envoy, request))
}

#[test]
fn query_parameters_are_compared() {
    let routes = "
      routes { match { path: '/buy' query_parameters { name: 'v' string_match { exact: '2' } } } route { cluster: 'v2' } }
      routes { match { path: '/buy' } route { cluster: 'v1' } }";
    assert_eq!(decided(routes, &get("/buy?a=b&v=2")), "v2");
    assert_eq!(
        decided(routes, &get("/buy?v=1&v=2")),
        "v1",
        "the first one counts"
    );
    let decision = Made::all(routes).by(RuleSet::Envoy, &get("/buy?v"));
    assert_eq!(outcomes(&decision)[0], "query parameter \"v\" is \"\"");
}

/// route_components.proto, `CookieMatcher`: an absent cookie does not match, and does if that is inverted.
#[test]
fn cookies_are_compared() {
    let routes = |rest: &str| {
        format!("routes {{ match {{ prefix: '' cookies {{ name: 'v' string_match {{ exact: '2' }} {rest} }} }} route {{ cluster: 'v2' }} }}
          routes {{ match {{ prefix: '' }} route {{ cluster: 'v1' }} }}")
    };
    let with = |cookies: &str| get("/").header("cookie", cookies);
    for (cookies, plain, inverted) in [
        ("a=b; v=2", "v2", "v1"),
        ("v=\"2\"", "v2", "v1"),
        ("v=1; v=2", "v1", "v2"),
        ("vv=2", "v1", "v2"),
        ("", "v1", "v2"),
    ] {
        assert_eq!(decided(&routes(""), &with(cookies)), plain, "{cookies}");
        let invert = routes("invert_match: true");
        assert_eq!(decided(&invert, &with(cookies)), inverted, "{cookies}");
    }
    assert_eq!(decided(&routes(""), &get("/")), "v1");
    let decision = Made::all(&routes("")).by(RuleSet::Envoy, &with("v=secret"));
    assert_eq!(outcomes(&decision)[0], "cookie \"v\" has another value");
    assert!(decision.not_examined.is_empty());
}

#[test]
fn separated_prefix_ends_at_a_slash() {
    let routes = "routes { match { path_separated_prefix: '/api' } route { cluster: 'api' } }
      routes { match { prefix: '' } route { cluster: 'rest' } }";
    for (path, expected) in [
        ("/api", "api"),
        ("/api/x", "api"),
        ("/apix", "rest"),
        ("/api?x", "api"),
    ] {
        assert_eq!(decided(routes, &get(path)), expected, "{path}");
    }
}

#[test]
fn only_grpc_requests_match_grpc_routes() {
    let routes = "routes { match { prefix: '' grpc {} } route { cluster: 'grpc' } }
      routes { match { prefix: '' } route { cluster: 'web' } }";
    assert_eq!(decided(routes, &rpc("/x")), "grpc");
    assert_eq!(decided(routes, &get("/x")), "web");
    let proto = get("/x").header("content-type", "application/grpc+proto");
    assert_eq!(decided(routes, &proto), "grpc");
    let web = get("/x").header("content-type", "application/grpc-web");
    assert_eq!(decided(routes, &web), "web");
}

#[test]
fn missing_header_may_count_as_empty() {
    let header = |rest: &str| {
        format!("routes {{ match {{ prefix: '' headers {{ name: 'x' string_match {{ exact: 'a' }} invert_match: true {rest} }} }} route {{ cluster: 'a' }} }}
          routes {{ match {{ prefix: '' }} route {{ cluster: 'b' }} }}")
    };
    assert_eq!(decided(&header(""), &get("/")), "b");
    assert_eq!(
        decided(&header("treat_missing_header_as_empty: true"), &get("/")),
        "a"
    );
}

/// One random number decides about all fractions and weights of a request.
#[test]
fn fractions_share_one_random_number() {
    let share = |percent: u32, cluster: &str| {
        format!(
            "routes {{ match {{ prefix: '' runtime_fraction {{ default_value {{ numerator: {percent} }} }} }} route {{ {cluster} }} }}"
        )
    };
    let weighted = "weighted_clusters { clusters { name: 'c' weight { value: 50 } } clusters { name: 'd' weight { value: 50 } } }";
    let routes = [
        share(50, "cluster: 'a'"),
        share(40, "cluster: 'b'"),
        share(90, weighted),
    ]
    .concat();
    let decision = Made::all(&routes).by(RuleSet::Envoy, &get("/"));
    assert_eq!(
        leads(&decision),
        "a 50.0000%, d 40.0000%, 404: no route matches / 10.0000%"
    );
    assert_eq!(
        outcomes(&decision)[1],
        "the requests of its fraction are taken"
    );
}

#[test]
fn answers_of_the_proxy_are_told() {
    let routes = "
      routes { match { path: '/old' } redirect { host_redirect: 'new.example' prefix_rewrite: '/new' response_code: PERMANENT_REDIRECT } }
      routes { match { path: '/teapot' } direct_response { status: 418 } }
      routes { match { path: '/by' } route { cluster_header: 'x-cluster' } }
      routes { match { path: '/plugin' } route { inline_cluster_specifier_plugin { extension { name: 'p' } } } }";
    assert_eq!(
        decided(routes, &get("/old")),
        "308 host new.example prefix /new"
    );
    assert_eq!(decided(routes, &get("/teapot")), "418");
    assert_eq!(
        decided(routes, &get("/by").header("x-cluster", "blue")),
        "blue"
    );
    assert_eq!(
        decided(routes, &get("/plugin")),
        "unknown inline_cluster_specifier_plugin"
    );
    assert_eq!(
        decided(routes, &get("/none")),
        "404: no route matches /none"
    );
    let tls = "require_tls: ALL routes { match { prefix: '' } route { cluster: 'a' } }";
    assert_eq!(decided(tls, &get("/")), "301 scheme https (require_tls)");
}

/// A part that is not read is named, and the answer holds if it does not match.
#[test]
fn conditions_that_are_not_examined_are_named() {
    let routes = "
      routes { match { prefix: '' tls_context { presented { value: true } } } route { cluster: 'a' } }
      routes { match { prefix: '' } route { cluster: 'b' } }";
    let decision = Made::all(routes).by(RuleSet::Envoy, &get("/"));
    assert_eq!(outcomes(&decision), ["unknown tls_context", "taken 1"]);
    assert_eq!(decision.not_examined, ["route 0: tls_context"]);
}

#[test]
fn domain_that_is_there_twice_is_rejected() {
    let hosts = "
      virtual_hosts { name: 'a' domains: 'shop.example' routes { match { prefix: '' } route { cluster: 'a' } } }
      virtual_hosts { name: 'b' domains: 'SHOP.example' routes { match { prefix: '' } route { cluster: 'b' } } }";
    let text = leads(&Made::routes(hosts).by(RuleSet::Envoy, &get("/")));
    assert!(
        text.ends_with("domain shop.example is there twice"),
        "{text}"
    );
    assert_eq!(
        leads(&Made::routes(hosts).by(RuleSet::Grpc, &rpc("/"))),
        "a"
    );
}

#[test]
fn listener_options_change_what_is_compared() {
    let with = |manager: &str, host: &str, request: &Request| {
        let routes = format!(
            "name: 'r' virtual_hosts {{ name: 'h' domains: '{host}' routes {{ match {{ path: '/a/b' }} route {{ cluster: 'a' }} }} }}"
        );
        let made = Made::default().with(&ResourceType::LISTENER, &socket_listener(manager));
        let mut explainer = made.with(&ResourceType::ROUTE, &routes).explainer();
        assert_eq!(explainer.rules(), [RuleSet::Envoy]);
        let explanation = explainer.explain(request, &[RuleSet::Envoy]);
        leads(&explanation.answers[0].decision)
    };
    let slashes = Request::http("GET", "/a//b", "shop");
    assert_eq!(with("", "shop", &slashes), "404: no route matches /a//b");
    assert_eq!(with("merge_slashes: true", "shop", &slashes), "a");
    let port = Request::http("GET", "/a/b", "Shop:8080");
    assert_eq!(
        with("", "shop", &port),
        "404: no virtual host for \"shop:8080\""
    );
    assert_eq!(with("", "shop:8080", &port), "a");
    assert_eq!(with("strip_any_host_port: true", "shop", &port), "a");
}

#[test]
fn virtual_hosts_of_vhds_are_found() {
    let host = "name: 'r/shop.example' domains: 'shop.example' routes { match { prefix: '' } route { cluster: 'a' } }";
    let vhds = "vhds { config_source { api_config_source { api_type: DELTA_GRPC } } }";
    let made = Made::routes(vhds).with(&ResourceType::VIRTUAL_HOST, host);
    assert_eq!(leads(&made.by(RuleSet::Envoy, &get("/"))), "a");
}

#[test]
fn places_are_all_routes_of_the_listener() {
    let routes = "routes { name: 'one' match { prefix: '/a' } route { cluster: 'a' } }
      routes { match { prefix: '' query_parameters { name: 'v' } } route { cluster: 'b' } }";
    let places = Made::all(routes).explainer().places();
    let texts = places.iter().map(|one| {
        let (host, name) = (&one.host_name, &one.name);
        format!("{host} {} {name} {}", one.route, one.condition)
    });
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "all 0 one prefix \"/a\"",
            "all 1  prefix \"\", query parameter \"v\" present",
        ]
    );
    assert!(Made::default().explainer().places().is_empty());
}

/// Given a route whose cluster is named by a header, when a request lacks the header, then it fails.
#[test]
fn missing_cluster_header_fails_the_request() {
    let routes = "routes { match { prefix: '' } route { cluster_header: 'x-cluster' } }";
    assert_eq!(decided(routes, &get("/").header("x-cluster", "a")), "a");
    let text = "503: the request has no header \"x-cluster\", which names the cluster";
    assert_eq!(decided(routes, &get("/")), text);
    assert_eq!(decided(routes, &get("/").header("x-cluster", "")), text);
}

/// Given an authority with capitals, then domains match it in any case, and conditions see it as it was sent.
#[test]
fn condition_on_the_authority_sees_its_case() {
    let routes = "routes { match { prefix: '' headers { name: ':authority' string_match { prefix: 's' } } } route { cluster: 'small' } }
      routes { match { prefix: '' headers { name: 'host' string_match { prefix: 'S' } } } route { cluster: 'capital' } }";
    assert_eq!(decided(routes, &Request::http("GET", "/", "shop")), "small");
    assert_eq!(
        decided(routes, &Request::http("GET", "/", "Shop")),
        "capital"
    );
}
