//! Tests of `oxds call`.

use std::path::Path;

use oxds_channel::testing::EchoBackend;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{Ran, SHOP_ENDPOINTS, Serve, Shop, command, folder, oxds, shop, shop_at};

const METHOD: &str = "/shop.Checkout/Pay";

fn call(bootstrap: &Path, arguments: &[&str]) -> Ran {
    let mut command = command(["call"]);
    command.args(arguments).env("GRPC_XDS_BOOTSTRAP", bootstrap);
    command.output().expect("ran").into()
}

#[test]
fn c3_missing_bootstrap_error_names_both_variables() {
    let ran = oxds(["call", "xds:///checkout", METHOD]);
    ran.expect(
        2,
        &[
            "GRPC_XDS_BOOTSTRAP ",
            "GRPC_XDS_BOOTSTRAP_CONFIG",
            "oxds bootstrap grpc",
        ],
    );
}

#[test]
fn missing_bootstrap_file_is_named() {
    let ran = call(
        Path::new("/no/such/bootstrap.json"),
        &["xds:///checkout", METHOD],
    );
    ran.expect(2, &["/no/such/bootstrap.json", "GRPC_XDS_BOOTSTRAP"]);
}

#[test]
fn malformed_bootstrap_error_has_line_or_field() {
    for (text, place) in [
        ("{\n  \"xds_servers\": [,]\n}", "bootstrap.json:2:"),
        ("{ \"xds_servers\": [] }", "xds_servers"),
        (
            "{ \"xds_servers\": [{ \"server_uri\": 5 }] }",
            "xds_servers[0].server_uri",
        ),
        (
            "{ \"xds_servers\": [{ \"server_uri\": \"a:1\" }] }",
            "channel_creds",
        ),
    ] {
        let dir = folder(&[("bootstrap.json", text)]);
        let ran = call(
            &dir.path().join("bootstrap.json"),
            &["xds:///checkout", METHOD],
        );
        ran.expect(2, &["bootstrap.json", place]);
    }
}

#[test]
fn unreachable_control_plane_is_named_in_call_status() {
    let file = oxds(["bootstrap", "grpc", "--server", "127.0.0.1:1"]).stdout;
    let dir = folder(&[("bootstrap.json", &file)]);
    let path = dir.path().join("bootstrap.json");
    let ran = call(&path, &["xds:///checkout", METHOD, "--timeout", "2s"]);
    ran.expect(1, &["UNAVAILABLE", "127.0.0.1:1"]);
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for wrong in [
        &["checkout", METHOD][..],
        &["xds:///checkout", "Pay"],
        &["xds:///checkout", METHOD, "--data-hex", "0"],
        &["xds:///checkout", METHOD, "--timeout", "5"],
        &["xds:///checkout", METHOD, "-n", "0"],
        &["xds:///checkout", METHOD, "--concurrency", "0"],
    ] {
        let file = oxds(["bootstrap", "grpc", "--server", "127.0.0.1:1"]).stdout;
        let dir = folder(&[("bootstrap.json", &file)]);
        call(&dir.path().join("bootstrap.json"), wrong).expect(2, &["error: "]);
    }
}

/// A service that does not exist on the control plane.
#[test]
fn failed_call_is_in_report_with_its_status() {
    let server = Serve::start(&shop());
    let file = oxds(["bootstrap", "grpc", "--server", &server.grpc.to_string()]).stdout;
    let dir = folder(&[("bootstrap.json", &file)]);
    let path = dir.path().join("bootstrap.json");
    let arguments = [
        "xds:///unknown",
        METHOD,
        "--timeout",
        "1s",
        "--format",
        "json",
    ];
    let ran = call(&path, &arguments);
    ran.expect(1, &[]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["calls"], 1);
    assert_eq!(report["statuses"].get("OK"), None);
    assert_eq!(report["failures"][0]["calls"], 1);
}

/// A running backend for each endpoint of the shop.
struct Backends {
    all: Vec<EchoBackend>,
    _runtime: Runtime,
}

/// Returns a copy of the shop, and its running backends. They choose their ports, which so are theirs from the
/// beginning.
fn shop_with_backends() -> (Shop, Backends) {
    let runtime = Runtime::new().expect("a runtime");
    let all: Vec<_> = runtime.block_on(async {
        let mut all = Vec::new();
        for _ in 0..SHOP_ENDPOINTS {
            all.push(EchoBackend::start().await.expect("a free port"));
        }
        all
    });
    let shop = shop_at(all.iter().map(EchoBackend::address).collect());
    let backends = Backends {
        all,
        _runtime: runtime,
    };
    (shop, backends)
}

/// The shop's control plane, with its backends.
struct RunningShop {
    server: Serve,
    bootstrap: tempfile::TempDir,
    backends: Backends,
}

impl RunningShop {
    fn start(shop: &Shop, backends: Backends) -> Self {
        let server = Serve::start(shop.path());
        let file = oxds(["bootstrap", "grpc", "--server", &server.grpc.to_string()]).stdout;
        Self {
            server,
            bootstrap: folder(&[("bootstrap.json", &file)]),
            backends,
        }
    }

    fn call(&self, arguments: &[&str]) -> Ran {
        call(&self.bootstrap.path().join("bootstrap.json"), arguments)
    }
}

/// Given the example and its backends. When 300 calls are made, the report has their cluster, locality and
/// address, and none went to the standby.
#[test]
fn report_counts_calls_by_endpoint() {
    let (shop, backends) = shop_with_backends();
    let running = RunningShop::start(&shop, backends);

    let method = ["xds:///catalog", METHOD];
    let calls = ["-n", "300", "--concurrency", "8", "--format", "json"];
    let data = ["--data-hex", "0a036f6e65"];
    let ran = running.call(&[&method[..], &calls, &data].concat());
    ran.expect(0, &[]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["calls"], 300);
    assert_eq!(report["statuses"]["OK"], 300);
    let endpoints = report["endpoints"].as_array().expect("endpoints");
    let near: Vec<_> = shop.endpoints[4..6]
        .iter()
        .map(ToString::to_string)
        .collect();
    for endpoint in endpoints {
        assert_eq!(endpoint["cluster"], "catalog");
        assert_eq!(endpoint["locality"], "eu/b");
        assert!(
            near.iter().any(|near| endpoint["address"] == **near),
            "{report:#}"
        );
    }
    let calls = endpoints
        .iter()
        .map(|endpoint| endpoint["calls"].as_u64().expect("a count"));
    assert_eq!(calls.sum::<u64>(), 300);
    let (p50, p99) = (&report["latency_ms"]["p50"], &report["latency_ms"]["p99"]);
    assert!(
        p50.as_f64() > Some(0.0) && p99.as_f64() >= p50.as_f64(),
        "{report:#}"
    );

    let text = running.call(&["xds:///checkout", METHOD, "-n", "100"]);
    text.expect(
        0,
        &[
            "100 calls of /shop.Checkout/Pay",
            "OK",
            "checkout-v1",
            "eu/a",
            "p99",
        ],
    );
}

/// Given clusters that report load. When the process has ended, the control plane has the load of every call.
#[test]
fn c142_last_load_report_is_sent_before_exit() {
    let (shop, backends) = shop_with_backends();
    let clusters = shop.path().join("catalog/clusters.yaml");
    let text = std::fs::read_to_string(&clusters).expect("the example");
    std::fs::write(&clusters, format!("{text}\nlrs_server: {{ self: {{}} }}\n")).expect("written");
    let running = RunningShop::start(&shop, backends);
    // Enough calls that the LRS stream is open before the last one: the client waits for it one second at most.
    let ran = running.call(&["xds:///catalog", METHOD, "-n", "500"]);
    ran.expect(0, &["500 calls"]);
    let page = running.server.page("/status.json");
    let (_, status) = page.split_once("\r\n\r\n").expect("a page");
    let status: Value = serde_json::from_str(status).expect("JSON");
    let localities = status["loads"][0]["localities"].as_array();
    let localities = localities.into_iter().flatten();
    let requests = localities.map(|locality| &locality["requests"]);
    let sum = |field: &str| -> u64 { requests.clone().filter_map(|r| r[field].as_u64()).sum() };
    assert_eq!((sum("issued"), sum("succeeded")), (500, 500), "{status:#}");
}

/// Given a cluster with a deprecated field, then calls to it succeed, and stderr has one warning.
#[test]
fn v44_call_warns_of_deprecated_fields_on_stderr() {
    let (shop, backends) = shop_with_backends();
    let file = shop.path().join("checkout/clusters.yaml");
    let text = std::fs::read_to_string(&file).expect("the example");
    let text = text.replace("lb_policy:", "http2_protocol_options: {}\nlb_policy:");
    std::fs::write(file, text).expect("written");
    let running = RunningShop::start(&shop, backends);
    let ran = running.call(&["xds:///checkout", METHOD, "-n", "5", "--timeout", "20s"]);
    ran.expect(0, &[]);
    let warning = "deprecated field envoy.config.cluster.v3.Cluster.http2_protocol_options";
    assert_eq!(ran.stderr.matches(warning).count(), 1, "{ran:#?}");
}

/// Replaces a text in a file of the shop.
fn edit(shop: &Shop, file: &str, old: &str, new: &str) {
    let path = shop.path().join(file);
    let text = std::fs::read_to_string(&path).expect("the example");
    assert!(text.contains(old), "{text}");
    std::fs::write(path, text.replace(old, new)).expect("written");
}

/// Given a backend that fails every call, with retries, outlier detection and drops, then the report has their counts.
#[test]
fn report_has_attempts_ejections_and_drops() {
    let (shop, backends) = shop_with_backends();
    let retries = "route:\n      retry_policy: { retry_on: unavailable, num_retries: 3, retry_back_off: { base_interval: 0.001s } }";
    edit(&shop, "checkout/routes.yaml", "route:", retries);
    let detection = "lb_policy: ROUND_ROBIN\noutlier_detection:\n  interval: 0.02s\n  base_ejection_time: 300s\n  max_ejection_percent: 50\n  enforcing_success_rate: 0\n  enforcing_failure_percentage: 100\n  failure_percentage_minimum_hosts: 1\n  failure_percentage_request_volume: 1\n";
    let clusters = "checkout/clusters.yaml";
    edit(&shop, clusters, "lb_policy: ROUND_ROBIN\n", detection);
    let drops = "cluster_name: catalog\npolicy:\n  drop_overloads:\n  - { category: rush, drop_percentage: { numerator: 50, denominator: HUNDRED } }";
    edit(
        &shop,
        "catalog/endpoints.yaml",
        "cluster_name: catalog",
        drops,
    );
    let running = RunningShop::start(&shop, backends);
    let bad = shop.endpoints[0].to_string();
    running.backends.all[0].set_status(14);

    let arguments = ["xds:///checkout", METHOD, "-n", "2000", "--timeout", "20s"];
    // A call fails if all of its attempts go to that backend before it is ejected.
    let ran = running.call(&[&arguments[..], &["--output", "json"]].concat());
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let number = |key: &str| report[key].as_u64().expect("a number");
    assert_eq!(number("calls"), 2000);
    assert!(number("retries") > 0, "{report:#}");
    let retries = number("retries") + number("transparent_retries");
    assert_eq!(number("attempts"), 2000 + retries);
    let ejection = &report["ejections"][0];
    assert_eq!(ejection["cluster"], "checkout-v1");
    assert_eq!(ejection["reason"], "failure_percentage");
    let ejected = &report["ejected"][0];
    assert_eq!(ejected["address"], *bad, "{report:#}");
    assert_eq!(ejected["reason"], "failure_percentage");
    assert!(ejected["seconds_left"].as_f64() > Some(200.0), "{report:#}");
    assert_eq!(report["drops"], serde_json::json!([]));

    let text = running.call(&["xds:///catalog", METHOD, "-n", "100"]);
    text.expect(1, &["dropped ", " × catalog: rush"]);
}
