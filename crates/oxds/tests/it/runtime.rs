//! V-47: the runtime of `oxds serve`, and `oxds runtime`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::support::{Ran, Serve, cluster, command, folder, oxds, until};

const PORTS: [&str; 4] = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];

fn refused<S: AsRef<std::ffi::OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = S>) -> Ran {
    let mut command = command(["serve"]);
    let output = command.arg(dir).args(PORTS).args(arguments).output();
    output.expect("ran").into()
}

fn runtime(server: SocketAddr, arguments: &[&str]) -> Ran {
    let server = server.to_string();
    oxds(["runtime", "--server", &server].iter().chain(arguments))
}

/// Waits until `oxds runtime` prints a text.
#[track_caller]
fn prints(server: &Serve, text: &str) {
    until(|| {
        let ran = runtime(server.grpc, &[]);
        let is_printed = ran.stdout.contains(text).then_some(());
        is_printed.ok_or_else(|| format!("no {text:?} in {ran:#?}"))
    });
}

const LAYERED: &str = "
layered_runtime:
  layers:
  - name: base
    static_layer: {shop: {limit: 1, mode: gold}, base_only: true}
  - name: missing
    disk_layer: {symlink_root: /no/such/folder}
";

/// Given a key in the configuration, on disk twice and on the command line, then the last layer decides, and all are
/// shown.
#[test]
fn v47_layers_override_each_other_in_order() {
    let dir = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("envoy.yaml", LAYERED),
        ("disk/shop/limit", "2\n"),
        ("disk/disk_only", "# why\nx\n"),
        ("over.yaml", "shop.limit: 3\nover_only: 1\n"),
    ]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (config, disk, over) = (path("envoy.yaml"), path("disk"), path("over.yaml"));
    let server = Serve::with(
        &dir.path().join("config"),
        [
            "--runtime",
            "over_only=2",
            "--runtime-config",
            &config,
            "--runtime-path",
            &disk,
            "--runtime-path",
            &over,
            "--runtime",
            "cli_only={numerator: 1, denominator: MILLION}",
        ],
    );
    let ran = runtime(server.grpc, &["-o", "json"]);
    ran.expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let of = |key: &str| {
        let entry = &report["entries"][key];
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("final_value"), text("layer"))
    };
    let pair = |value: &str, layer: &str| (value.to_owned(), layer.to_owned());
    assert_eq!(of("shop.limit"), pair("3", &over));
    assert_eq!(of("shop.mode"), pair("gold", "base"));
    assert_eq!(of("base_only"), pair("true", "base"));
    assert_eq!(of("disk_only"), pair("x", &disk));
    assert_eq!(of("over_only"), pair("2", "command line"));
    let fraction = "{numerator: 1, denominator: MILLION}";
    assert_eq!(of("cli_only"), pair(fraction, "command line"));
    let layers = serde_json::json!(["environment", "base", "missing", disk, over, "command line"]);
    assert_eq!(report["layers"], layers);
    let values = serde_json::json!(["", "1", "", "2", "3", ""]);
    assert_eq!(report["entries"]["shop.limit"]["layer_values"], values);
    // As a table, one prefix; and in the status.
    let ran = runtime(server.grpc, &["shop."]);
    ran.expect(0, &["KEY", "shop.limit", "LAYER", "disk /no/such/folder"]);
    assert!(!ran.stdout.contains("base_only"), "{ran:?}");
    server.shows("/status.json", "\"key\":\"shop.limit\",\"value\":\"3\"");
    server.shows("/metrics", "oxds_runtime_num_keys 6");
    server.shows("/metrics", "oxds_runtime_num_layers 6");
}

/// Given a folder behind a link, when the link is turned over, a file is invalid, and it is fixed, then values change,
/// stay and change; the error has the file.
#[test]
fn v47_disk_layer_is_followed_and_keeps_its_last_values() {
    let dir = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("1/shop/mode", "one"),
        ("2/shop/mode", "two"),
        ("3/shop/mode", "three"),
    ]);
    let current = dir.path().join("current");
    let link_to = |target: &str| {
        let new = dir.path().join("new");
        std::os::unix::fs::symlink(target, &new).expect("a link");
        fs::rename(new, &current).expect("renamed");
    };
    link_to("1");
    let path = current.display().to_string();
    let server = Serve::with(&dir.path().join("config"), ["--runtime-path", &path]);
    prints(&server, "one");
    link_to("2");
    prints(&server, "two");
    fs::write(dir.path().join("2/shop/mode"), b"\xff").expect("written");
    prints(&server, "shop/mode: not UTF-8");
    let ran = runtime(server.grpc, &[]);
    ran.expect(1, &["two", "current/shop/mode: not UTF-8"]);
    server.shows("/metrics", "oxds_runtime_load_error_total 1");
    server.shows("/status.json", "shop/mode: not UTF-8");
    link_to("3");
    prints(&server, "three");
    runtime(server.grpc, &[]).expect(0, &["three"]);
    fs::remove_file(&current).expect("removed");
    prints(&server, "No such file");
    prints(&server, "three");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("runtime changed"), "{log}");
    let errors = log.matches("shop/mode: not UTF-8").count();
    assert_eq!(errors, 1, "{log}");
}

#[test]
fn v47_admin_endpoint_is_off_by_default() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    let response = server.post("/runtime_modify?a=1", "", "");
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    assert!(response.contains("--runtime-admin"), "{response}");
    server.shows("/runtime", "\"entries\":{}");
}

/// Given the admin layer, when keys are set and removed, then they change; errors, a request of a browser and a later
/// layer change nothing, and say why.
#[test]
fn v47_admin_endpoint_sets_and_removes_keys() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let arguments = ["--runtime-admin", "--runtime", "fixed=1"];
    let server = Serve::with(dir.path(), arguments);
    let post = |query: &str| server.post(&format!("/runtime_modify{query}"), "", "");
    let response = post("?shop.mode=gold%20one&b=2");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    server.shows("/runtime?prefix=shop", "\"final_value\":\"gold one\"");
    server.shows("/metrics", "oxds_runtime_admin_overrides_active 1");
    let response = post("?fixed=2");
    assert!(
        response.contains("fixed: the layer \"command line\" decides"),
        "{response}"
    );
    server.shows("/runtime?prefix=fixed", "\"final_value\":\"1\"");
    for (query, headers, status, text) in [
        ("", "", "400", "usage: /runtime_modify"),
        ("?=1", "", "400", "empty key"),
        ("?c=3&=1", "", "400", "empty key"),
        (
            "?c=3",
            "origin: https://evil.example\r\n",
            "403",
            "browsers",
        ),
    ] {
        let response = server.post(&format!("/runtime_modify{query}"), headers, "");
        let expected = format!("HTTP/1.1 {status}");
        assert!(response.starts_with(&expected), "{query}: {response}");
        assert!(response.contains(text), "{query}: {response}");
    }
    assert!(
        !server.page("/runtime").contains("\"c\":"),
        "all or nothing"
    );
    let get = server.page("/runtime_modify?c=3");
    assert!(get.starts_with("HTTP/1.1 405"), "{get}");
    post("?shop.mode=&b=&fixed=");
    server.shows("/metrics", "oxds_runtime_admin_overrides_active 0");
    assert!(!server.page("/runtime").contains("shop.mode"));
    let page = server.page("/runtime?page=1");
    assert!(page.starts_with("HTTP/1.1 400"), "{page}");
}

/// Given more keys than a page has, then `oxds runtime` prints all of them, and the status a part.
#[test]
fn v47_pages_of_keys_are_bounded() {
    use std::fmt::Write as _;
    let mut keys = String::new();
    for number in 0..2500 {
        let _ = writeln!(keys, "key{number:04}: {number}");
    }
    let dir = folder(&[("config/a.yaml", &cluster("a")), ("keys.yaml", &keys)]);
    let path = dir.path().join("keys.yaml").display().to_string();
    let server = Serve::with(&dir.path().join("config"), ["--runtime-path", &path]);
    let ran = runtime(server.grpc, &["key"]);
    ran.expect(0, &["key0000", "key2499"]);
    assert_eq!(ran.stdout.matches("\nkey").count(), 2500);
    let page = server.page("/runtime?limit=10");
    assert!(
        page.contains("key0009") && !page.contains("key0010"),
        "{page}"
    );
    let status = server.page("/status.json");
    assert!(status.contains("key0099") && !status.contains("key0100"));
}

const RUNTIME: &str = "'@type': type.googleapis.com/envoy.service.runtime.v3.Runtime\nname: shop\n";

/// Given a control plane with a runtime resource, when it changes, becomes invalid, valid and is deleted, then the
/// layer follows, keeps its last values, follows, and is empty.
#[test]
fn v47_rtds_layer_follows_its_control_plane() {
    let upper = folder(&[]);
    let file = upper.path().join("runtime.yaml");
    let set = |layer: &str| {
        let new = upper.path().join("new");
        fs::write(&new, format!("{RUNTIME}layer: {layer}\n")).expect("written");
        fs::rename(new, &file).expect("renamed");
    };
    set("{shop: {mode: gold}}");
    let control_plane = Serve::start(upper.path());
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let address = control_plane.grpc.to_string();
    let arguments = ["--runtime-rtds", "shop", "--runtime-server", &address];
    let server = Serve::with(dir.path(), arguments);
    prints(&server, "gold");
    set("{shop: {mode: silver}}");
    prints(&server, "silver");
    set("{shop: {mode: [bronze]}}");
    control_plane.shows("/status.json", "shop.mode: a list: expected a boolean");
    prints(&server, "shop.mode: a list");
    runtime(server.grpc, &[]).expect(1, &["silver", "rtds shop"]);
    set("{shop: {mode: iron}}");
    prints(&server, "iron");
    fs::remove_file(&file).expect("removed");
    prints(&server, "rtds shop     0");
    server.signal("TERM");
    let (_, log) = server.end();
    assert!(log.contains("runtime resource does not exist"), "{log}");
}

/// Given an Envoy bootstrap whose RTDS layer names a static cluster, then the layer follows the cluster's address, and
/// keeps its values when the control plane vanishes. A cluster with TLS, one with several endpoints and one that does
/// not exist are errors with the reason.
#[test]
fn v47_rtds_layer_uses_the_address_of_a_static_cluster() {
    let upper = folder(&[(
        "runtime.yaml",
        &format!("{RUNTIME}layer: {{shop: {{mode: gold}}}}\n"),
    )]);
    let control_plane = Serve::start(upper.path());
    let (host, port) = (control_plane.grpc.ip(), control_plane.grpc.port());
    let endpoint = format!(
        "{{endpoint: {{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}}}"
    );
    let bootstrap = |cluster: &str, endpoints: &str, more: &str| {
        format!(
            "node: {{id: edge}}
static_resources:
  clusters:
  - name: xds_cluster
    type: STATIC
    http2_protocol_options: {{}}
    load_assignment: {{cluster_name: xds_cluster, endpoints: [{{lb_endpoints: [{endpoints}]}}]}}
{more}
layered_runtime:
  layers:
  - name: shop
    rtds_layer:
      rtds_config:
        resource_api_version: V3
        api_config_source: {{api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{{envoy_grpc: {{cluster_name: {cluster}}}}}]}}
"
        )
    };
    let dir = folder(&[("config/a.yaml", &cluster("a"))]);
    let (config, file) = (dir.path().join("config"), dir.path().join("envoy.yaml"));
    let path = file.display().to_string();
    fs::write(&file, bootstrap("xds_cluster", &endpoint, "")).expect("written");
    let server = Serve::with(&config, ["--runtime-config", &path]);
    prints(&server, "gold");
    // A control plane that vanishes leaves its values, and the layer has an error.
    drop(control_plane);
    until(|| match runtime(server.grpc, &[]) {
        ran if ran.code == Some(1) && ran.stdout.contains("gold") => Ok(()),
        ran => Err(format!("{ran:#?}")),
    });
    let two = format!("{endpoint}, {endpoint}");
    let tls = "    transport_socket: {name: envoy.transport_sockets.tls}";
    for (cluster, endpoints, more, reason) in [
        (
            "other",
            &endpoint,
            "",
            "not found: expected one of static_resources.clusters",
        ),
        (
            "xds_cluster",
            &two,
            "",
            "has 2 endpoints in load_assignment: expected one, or `ads: {}` with --runtime-bootstrap",
        ),
        (
            "xds_cluster",
            &endpoint,
            tls,
            "has a transport_socket: expected plaintext, or `ads: {}` with --runtime-bootstrap",
        ),
    ] {
        fs::write(&file, bootstrap(cluster, endpoints, more)).expect("written");
        let ran = refused(&config, ["--runtime-config", &path]);
        ran.expect(
            2,
            &[
                "runtime layer \"shop\": rtds_layer.rtds_config: ",
                cluster,
                reason,
            ],
        );
    }
}

#[test]
fn v47_wrong_runtime_options_are_usage_errors() {
    let dir = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("list.yaml", "a: 1\nb: [1]\n"),
        ("unknown.yaml", "layers: [{name: a, magic_layer: {}}]"),
        (
            "ads.yaml",
            "layers: [{name: a, rtds_layer: {rtds_config: {ads: {}}}}]",
        ),
    ]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (option, value, text) in [
        ("--runtime", "a".to_owned(), "expected KEY=VALUE"),
        ("--runtime", "=1".to_owned(), "empty key"),
        ("--runtime-path", path("none"), "none: No such file"),
        (
            "--runtime-path",
            path("list.yaml"),
            "list.yaml:2:4: a list: expected a boolean",
        ),
        (
            "--runtime-config",
            path("unknown.yaml"),
            "unknown field `magic_layer`, expected one of name, staticLayer, ",
        ),
        (
            "--runtime-config",
            path("ads.yaml"),
            "expected --runtime-server or --runtime-bootstrap",
        ),
        (
            "--runtime-rtds",
            "x".to_owned(),
            "expected --runtime-server or --runtime-bootstrap",
        ),
    ] {
        let ran = refused(&dir.path().join("config"), [option, &value]);
        ran.expect(2, &[text]);
    }
}

/// Given a group that selects nodes by their user agent, then it works, and the log warns of it with the alternative.
#[test]
fn v51_group_by_user_agent_is_warned_about() {
    let dir = folder(&[
        ("a.yaml", &cluster("a")),
        ("groups/old/group.yaml", "match: {user_agent: envoy 1.1*}\n"),
        ("groups/old/b.yaml", &cluster("b")),
    ]);
    let server = Serve::start(dir.path());
    server.shows("/status.json", "\"name\":\"old\"");
    server.signal("TERM");
    let (_, log) = server.end();
    assert!(log.contains("group matches by user agent"), "{log}");
    assert!(
        log.contains("use its features, extensions or versions"),
        "{log}"
    );
}

/// Given a bootstrap whose choice of the version ends at v2, then the command does not start, unless v2 is asked for.
#[test]
fn v48_previous_major_is_refused_at_start_unless_asked_for() {
    let entry = |policy: &str| {
        format!(
            r#"{{ "xds_servers": [{{ "server_uri": "127.0.0.1:1", "channel_creds": [{{ "type": "insecure" }}],
                  "transport_api_version": "{policy}" }}] }}"#
        )
    };
    let (auto, v2) = (entry("AUTO"), entry("V2"));
    let dir = folder(&[
        ("auto.json", &auto),
        ("v2.json", &v2),
        ("config/a.yaml", &cluster("a")),
    ]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let get = |file: &str, more: &[&str]| {
        let file = path(file);
        oxds(["get", "cds", "--bootstrap", &file].iter().chain(more))
    };
    let sets = "the client allows v3; the server supports v2";
    get("auto.json", &[]).expect(2, &["xds_servers[0]", sets, "--bootstrap-version 2"]);
    get("auto.json", &["--bootstrap-version", "3"]).expect(2, &[sets]);
    get("auto.json", &["--bootstrap-version", "4"]).expect(2, &["expected 2 or 3"]);
    // These start, and fail because nothing listens there.
    get("auto.json", &["--bootstrap-version", "2"]).expect(1, &["cannot connect"]);
    get("auto.json", &["--transport", "auto"]).expect(1, &["cannot connect"]);
    get("v2.json", &[]).expect(1, &["cannot connect"]);
    let mut call = command(["call", "xds:///a", "/a.B/C"]);
    let call: Ran = call
        .env("GRPC_XDS_BOOTSTRAP", path("auto.json"))
        .output()
        .expect("ran")
        .into();
    call.expect(2, &[sets]);
    // The layers of an Envoy bootstrap.
    let source = "api_config_source: {api_type: GRPC, transport_api_version: V2, grpc_services: [{google_grpc: {target_uri: 'a:1', stat_prefix: a}}]}";
    for source in [source, "resource_api_version: V2, ads: {}"] {
        let layers = format!("layers: [{{name: a, rtds_layer: {{rtds_config: {{{source}}}}}}}]");
        fs::write(dir.path().join("envoy.yaml"), layers).expect("written");
        let file = path("envoy.yaml");
        let ran = refused(&dir.path().join("config"), ["--runtime-config", &file]);
        ran.expect(2, &["v2 is the previous major: expected V3"]);
    }
}

#[test]
fn v47_grpc_features_are_runtime_keys_with_readers() {
    let upper = folder(&[("a.yaml", &cluster("a"))]);
    let control_plane = Serve::start(upper.path());
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let address = control_plane.grpc.to_string();
    let key = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING";
    let mut command = command(["serve"]);
    command.arg(dir.path()).args(PORTS).env(key, "true");
    let server = Serve::of(command.args(["--runtime-rtds", "x", "--runtime-server", &address]));
    let ran = runtime(server.grpc, &[key]);
    ran.expect(0, &[key, "true", "environment", "rtds client"]);
}
