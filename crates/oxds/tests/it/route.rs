//! Tests of `oxds route` and `oxds route test`.

use std::path::Path;

use oxds_client::{Bootstrap, ClientPool};
use oxds_core::resource::{Assignment, Cluster, Listener, RouteConfig};
use serde_json::Value;

use crate::observe::serve_csds;
use crate::support::{Ran, Serve, documented, folder, oxds, shop};

/// A socket listener `edge` with conditions that only Envoy knows.
const EDGE: &str = r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: edge
address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }
filter_chains:
- filters:
  - name: http
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: edge
      http_filters:
      - name: router
        typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
      route_config:
        name: edge-routes
        virtual_hosts:
        - name: shop
          domains: [shop.example]
          routes:
          - match: { path: /buy, query_parameters: [{ name: v, string_match: { exact: "2" } }] }
            route: { cluster: checkout-v2 }
          - match: { path: /buy }
            route: { cluster: checkout-v1 }
          - name: moved
            match: { prefix: /old }
            redirect: { path_redirect: /new }
"#;

fn route(dir: &Path, arguments: &[&str]) -> Ran {
    let dir = dir.to_str().expect("UTF-8");
    oxds([&["route", "--dir", dir], arguments].concat())
}

#[test]
fn documented_output_of_route_is_true() {
    let command = "oxds route --dir examples/shop xds:///checkout /shop.Checkout/Pay";
    let ran = route(&shop(), &["xds:///checkout", "/shop.Checkout/Pay"]);
    assert_eq!(ran.expect(0, &[]).stdout, documented(command));
}

/// Given the same resources in a folder, at a control plane and in a client, the explanation is the same.
#[tokio::test(flavor = "multi_thread")]
async fn folder_server_and_client_give_one_answer() {
    let request = ["xds:///checkout", "/shop.Checkout/Pay"];
    let of_folder = route(&shop(), &request).expect(0, &[]).stdout.clone();
    let server = Serve::start(&shop());
    let grpc = server.grpc.to_string();
    let of_server = oxds([&["route", "--server", &grpc], &request[..]].concat());
    assert_eq!(of_server.expect(0, &[]).stdout, of_folder);

    let bootstrap = Bootstrap::builder(&grpc).node_id("app-1").build();
    let pool = ClientPool::new(bootstrap.expect("complete"));
    let client = pool.client("xds:///checkout");
    let mut listener = client.watch::<Listener>("checkout");
    let mut routes = client.watch::<RouteConfig>("checkout-routes");
    listener.next().await.expect("a resource");
    routes.next().await.expect("a resource");
    let mut others = Vec::new();
    for name in ["checkout-v1", "checkout-v2"] {
        let mut cluster = client.watch::<Cluster>(name);
        let mut endpoints = client.watch::<Assignment>(name);
        cluster.next().await.expect("a resource");
        endpoints.next().await.expect("a resource");
        others.push((cluster, endpoints));
    }
    let address = serve_csds(&pool).await.to_string();
    let of_client = oxds([&["route", "--csds", &address], &request[..]].concat());
    assert_eq!(of_client.expect(0, &[]).stdout, of_folder);
}

/// Given a group whose routes lead elsewhere, then the node of the options decides what a folder says.
#[test]
fn s74_route_of_a_folder_applies_the_groups_of_a_node() {
    let of_group = EDGE.replace("checkout-v1", "checkout-edge");
    let dir = folder(&[
        ("edge.yaml", EDGE),
        (
            "groups/edge/group.yaml",
            "match: {id: edge-*, cluster: shop}\n",
        ),
        ("groups/edge/edge.yaml", &of_group),
    ]);
    let request = ["--listener", "edge", "--authority", "shop.example", "/buy"];
    route(dir.path(), &request).expect(0, &["cluster checkout-v1"]);
    let of_edge = ["--node-id", "edge-1", "--cluster", "shop"];
    let ran = route(dir.path(), &[&of_edge[..], &request].concat());
    ran.expect(0, &["cluster checkout-edge"]);
    let other = route(dir.path(), &[&of_edge[..2], &request].concat());
    other.expect(0, &["cluster checkout-v1"]);
}

#[test]
fn route_of_unknown_listener_names_the_nearest() {
    let shop = shop();
    route(&shop, &["xds:///chekout", "/x"]).expect(
        2,
        &["\"chekout\" not found", "there are: checkout, catalog"],
    );
    route(&shop, &["checkout", "/x"]).expect(2, &["expected xds:///NAME"]);
    route(&shop, &["/x"]).expect(2, &["expected a target and a method"]);
    route(&shop, &["--listener", "checkout", "/x"]).expect(2, &["--listener needs --authority"]);
    route(&shop, &["xds:///checkout", "/x", "-H", "none"])
        .expect(2, &["expected a name and a value"]);
    let server = Serve::start(&shop);
    let grpc = server.grpc.to_string();
    oxds(["route", "--server", &grpc, "xds:///chekout", "/x"]).expect(2, &["there are: checkout"]);
}

#[test]
fn route_shows_conditions_of_envoy() {
    let dir = folder(&[("edge.yaml", EDGE)]);
    let edge = ["--listener", "edge", "--authority", "shop.example"];
    let ran = route(dir.path(), &[&edge[..], &["/buy?v=2"]].concat());
    ran.expect(
        0,
        &[
            "rules           Envoy\n",
            "virtual host    shop: domain shop.example (exact)\n",
            "route 0       path \"/buy\", query parameter \"v\" exact \"2\" -> matches\n",
            "would match, but route 0 comes first",
            "100% cluster checkout-v2",
            "503: cluster \"checkout-v2\" does not exist",
        ],
    );
    let json = route(dir.path(), &[&edge[..], &["/old/x", "-o", "json"]].concat());
    let json: Value = serde_json::from_str(&json.expect(0, &[]).stdout).expect("JSON");
    let to = &json["answers"][0]["destinations"][0];
    assert_eq!(
        (&to["action"], &to["status"], &to["route"]),
        (&"redirect".into(), &301.into(), &2.into())
    );
    assert_eq!(json["answers"][0]["routes"][2]["name"], "moved");
    route(dir.path(), &[&edge[..], &["/none"]].concat())
        .expect(1, &["404: no route matches /none"]);
}

/// Names come from files: a terminal gets no control characters.
#[test]
fn route_escapes_names() {
    let hostile = EDGE.replace("name: moved", r#"name: "a\e[2Jb\nlistener fake""#);
    let dir = folder(&[("edge.yaml", &hostile)]);
    let arguments = ["--listener", "edge", "--authority", "shop.example", "/old"];
    let ran = route(dir.path(), &arguments);
    ran.expect(0, &["moved".replace("moved", "listener fake").as_str()]);
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
    assert!(!ran.stdout.contains("\nlistener fake"), "{ran:?}");
}

const TESTS: &str = "tests:
- listener: edge
  authority: shop.example
  request: /buy?v=2
  cluster: checkout-v2
- name: old pages move
  listener: edge
  authority: shop.example
  request: /old/page
  status: 301
";

#[test]
fn route_test_reports_failures_and_coverage() {
    let dir = folder(&[("config/edge.yaml", EDGE), ("tests.yaml", TESTS)]);
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (config, tests) = (at("config"), at("tests.yaml"));
    let run = |more: &[&str]| oxds([&["route", "test", &tests, "--dir", &config], more].concat());
    let uncovered = "not covered: listener edge, virtual host shop, route 1 (path \"/buy\")\n";
    run(&[]).expect(
        0,
        &[
            uncovered,
            "2 tests, 0 failures, 66.67% of the routes covered\n",
        ],
    );
    run(&["--min-coverage", "67"]).expect(1, &["coverage is below 67%"]);
    run(&["--min-coverage", "66"]).expect(0, &[]);

    let wrong = TESTS.replace(
        "cluster: checkout-v2",
        "clusters: { checkout-v1: 50, checkout-v2: 50 }",
    );
    std::fs::write(&tests, wrong).expect("written");
    let failure = "FAIL /buy?v=2: expected cluster checkout-v1 50%, cluster checkout-v2 50%, found cluster checkout-v2 by the rules of Envoy: virtual host shop, route 0 (path \"/buy\", query parameter \"v\" exact \"2\")\n";
    run(&[]).expect(1, &[failure, "2 tests, 1 failures"]);

    std::fs::write(&tests, TESTS.replace("status: 301", "")).expect("written");
    run(&[]).expect(
        2,
        &["tests[1]: expected one of cluster, clusters, status and fails"],
    );
    std::fs::write(&tests, "tests: [{ reqest: /x }]").expect("written");
    run(&[]).expect(
        2,
        &["tests.yaml:1:11: unknown field `reqest`, expected one of "],
    );
    std::fs::write(&tests, "").expect("written");
    run(&[]).expect(2, &["tests.yaml:1:1: the file is empty\n"]);
}

/// A test of an API listener holds for gRPC and for Envoy, unless it names one.
#[test]
fn route_test_checks_all_rules_that_apply() {
    let tests = "tests:
- target: xds:///checkout
  request: /shop.Checkout/Pay
  clusters: { checkout-v1: 90, checkout-v2: 10 }
- target: xds:///catalog
  request: /shop.Catalog/List
  as: grpc
  cluster: catalog
";
    let dir = folder(&[("tests.yaml", tests)]);
    let file = dir.path().join("tests.yaml");
    let (file, shop) = (file.to_str().expect("UTF-8").to_owned(), shop());
    let shop = shop.to_str().expect("UTF-8");
    oxds([
        "route",
        "test",
        &file,
        "--dir",
        shop,
        "--min-coverage",
        "100",
    ])
    .expect(0, &["2 tests, 0 failures, 100% of the routes covered\n"]);
}
