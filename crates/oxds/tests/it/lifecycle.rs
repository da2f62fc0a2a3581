//! Deprecated, unfinished and unknown fields: `oxds validate`, `oxds serve` and `oxds deprecations` (V-43 … V-45, V-58,
//! V-59, V-61).

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use oxds_client::lifecycle::{FieldChecks, UnknownFields};
use oxds_client::{Bootstrap, Options, Update, XdsClient};
use oxds_types::ResourceType;
use oxds_types::lifecycle::{Clock, Policy};
use oxds_types::runtime::{Layer, Snapshot, Source};
use serde_json::Value;

use crate::observe::Watching;
use crate::support::{Ran, Serve, cluster, folder, oxds};

const HTTP2: &str = "envoy.config.cluster.v3.Cluster.http2_protocol_options";
const HARD: &str = "envoy.config.route.v3.RateLimit.Action.dynamic_metadata";

/// A cluster with a deprecated field.
fn deprecated(name: &str) -> String {
    cluster(name) + "http2_protocol_options: {}\n"
}

/// Routes with a field that the API disallows.
fn disallowed() -> String {
    "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- name: all
  domains: ['*']
  rate_limits:
  - actions:
    - dynamic_metadata: { descriptor_key: user, metadata_key: { key: k, path: [{ key: p }] } }
"
    .to_owned()
}

/// A ledger whose releases are on these days.
fn ledger(releases: &[&str]) -> String {
    let releases = releases.iter().enumerate();
    let releases: String = releases
        .map(|(minor, date)| format!("- {{version: 1.{minor}.0, date: {date}}}\n"))
        .collect();
    format!(
        "releases:\n{releases}deprecated:\n- {{element: {HTTP2}, since: 1.0.0, replacement: shop.v1.NewField}}\n"
    )
}

fn run(command: &str, dir: &Path, options: &[&str]) -> Ran {
    let dir = dir.to_str().expect("UTF-8");
    oxds([&[command, dir], options].concat())
}

#[test]
fn v44_validate_warns_with_line_column_and_replacement() {
    let dir = folder(&[("a.yaml", &deprecated("a"))]);
    let text = format!(
        "a.yaml:4:1: warning: http2_protocol_options: deprecated field {HTTP2}: use envoy."
    );
    run("validate", dir.path(), &[]).expect(0, &[&text, "0 errors, 1 warning"]);
    run("validate", dir.path(), &["--strict"]).expect(1, &[&text]);
    let json = run("validate", dir.path(), &["--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let finding = &json["findings"][0];
    assert_eq!(
        (&finding["rule"], &finding["element"]),
        (&"deprecated".into(), &HTTP2.into())
    );
}

#[test]
fn v45_validate_refuses_a_disallowed_field_unless_allowed() {
    let dir = folder(&[("r.yaml", &disallowed())]);
    let key = format!("envoy.deprecated_features:{HARD}");
    let text = format!(
        "is disallowed: use envoy.config.route.v3.RateLimit.Action.metadata; to allow it for now, set the runtime key \"{key}\": true"
    );
    run("validate", dir.path(), &[]).expect(1, &["r.yaml:8:7: error: ", &text]);
    let allow = format!("{key}=true");
    run("validate", dir.path(), &["--runtime", &allow]).expect(0, &["allowed by the runtime"]);
    run("validate", dir.path(), &["--runtime", "x"])
        .expect(2, &["--runtime \"x\": expected KEY=VALUE"]);
    let fail = "envoy.features.fail_on_any_deprecated_feature=true";
    let soft = folder(&[("a.yaml", &deprecated("a"))]);
    run("validate", soft.path(), &["--runtime", fail]).expect(1, &["is disallowed by the runtime"]);
}

#[test]
fn v43_validate_follows_the_clock_of_the_ledger() {
    let dir = folder(&[("a.yaml", &deprecated("a"))]);
    let with = |releases: &[&str]| {
        let ledger = folder(&[("ledger.yaml", &ledger(releases))]);
        let path = ledger.path().join("ledger.yaml");
        let path = path.to_str().expect("UTF-8");
        let run = run("validate", dir.path(), &["--ledger", path]);
        drop(ledger);
        run
    };
    with(&["2999-01-01"]).expect(0, &["0 errors, 0 warnings"]);
    with(&["2020-01-01", "2999-01-01"])
        .expect(0, &["use shop.v1.NewField; disallowed from 2999-01-01"]);
    with(&["2020-01-01", "2020-06-01"]).expect(1, &["is disallowed: use shop.v1.NewField"]);
    run("validate", dir.path(), &["--ledger", "/no/ledger.yaml"])
        .expect(2, &["--ledger: /no/ledger.yaml"]);
}

#[test]
fn v58_unknown_static_fields_are_errors_unless_allowed() {
    let dir = folder(&[("a.yaml", &(cluster("a") + "new_field: 1\n"))]);
    run("validate", dir.path(), &[]).expect(1, &["a.yaml:4:1: error: new_field: unknown field"]);
    for flag in ["--allow-unknown-static-fields", "--allow-unknown-fields"] {
        run("validate", dir.path(), &[flag]).expect(0, &["warning: new_field: unknown field `new_field` in envoy.config.cluster.v3.Cluster, ignored"]);
    }
}

/// Given a served file with a deprecated field in three places, then it has one log line and counts three times; an
/// accepted unknown field and an unfinished one count, too.
#[test]
fn v44_serve_logs_once_per_field_and_file_and_counts_all() {
    let three = ["a", "b", "c"]
        .map(|name| format!("---\n{}", deprecated(name)))
        .concat();
    let unfinished = "\"@type\": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: x
typed_config: { \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http2_protocol_options: { use_oghttp2_codec: true } } }
new_field: 1
";
    let dir = folder(&[("a.yaml", &three), ("x.yaml", unfinished)]);
    let server = Serve::with(dir.path(), ["--allow-unknown-static-fields"]);
    server.shows("/metrics", "oxds_runtime_deprecated_feature_use_total 3");
    server.shows("/metrics", "oxds_wip_protos_total 1");
    server.shows("/metrics", "oxds_static_unknown_fields_total 1");
    server.signal("TERM");
    let (_, log) = server.end();
    assert_eq!(log.matches(HTTP2).count(), 1, "{log}");
    assert_eq!(
        log.matches("use_oghttp2_codec: it may change").count(),
        1,
        "{log}"
    );
    assert_eq!(log.matches("unknown field `new_field`").count(), 1, "{log}");
}

/// User story of the policy (V-61), "deprecate a field", with a server and a client: announced, warned, replaced by
/// some, refused, allowed by the operator, replaced by all. The clock is the ledger, which the server reads again on
/// SIGHUP.
#[test]
fn v61_deprecated_field_leaves_a_running_fleet_by_phases() {
    let dir = folder(&[
        ("config/a.yaml", &deprecated("a")),
        ("config/b.yaml", &deprecated("b")),
        ("ledger.yaml", &ledger(&["2999-01-01"])),
    ]);
    let at = |name: &str| dir.path().join(name);
    let ledger_path = at("ledger.yaml");
    let serve = |more: &[&str]| {
        let ledger = ["--ledger".as_ref(), ledger_path.as_os_str()];
        let more = more.iter().map(|one| OsStr::new(*one));
        Serve::with(&at("config"), ledger.into_iter().chain(more))
    };
    let server = serve(&[]);
    let grpc = server.grpc.to_string();
    let asks = |options: &[&str]| oxds([&["deprecations", "--server", &grpc], options].concat());

    // 1. Announced for a later release: no finding.
    server.shows("/readyz", "200 OK");
    asks(&["--fail-on", "warned"]).expect(0, &["no deprecated fields in use"]);

    // 2. The release comes: files are served, uses are listed with their client.
    let mut client = Watching::of(&["--server", &grpc, "clusters"]);
    client.expect("added", "a");
    client.expect("added", "b");
    fs::write(&ledger_path, ledger(&["2020-01-01", "2999-01-01"])).expect("written");
    server.signal("HUP");
    server.shows("/deprecations.json", "\"verdict\":\"warned\"");
    let shown = asks(&[]);
    shown.expect(
        0,
        &[
            &format!("{HTTP2}: warned, 2 uses"),
            "since        2020-01-01",
            "until        2999-01-01",
            "use          shop.v1.NewField",
            "config/a.yaml:4:1: cds a: http2_protocol_options",
            "config/b.yaml:4:1: cds b: http2_protocol_options",
            "clients      oxds",
        ],
    );
    asks(&["--fail-on", "warned"]).expect(1, &[]);

    // 3. One team follows.
    fs::write(at("config/a.yaml"), cluster("a")).expect("written");
    server.shows("/deprecations.json", "\"uses\":1,");

    // 4. The next release: the field is refused, the last content stays served.
    fs::write(&ledger_path, ledger(&["2020-01-01", "2020-06-01"])).expect("written");
    server.signal("HUP");
    server.shows("/deprecations.json", "\"verdict\":\"disallowed\"");
    let key = format!("envoy.deprecated_features:{HTTP2}");
    server.shows("/status.json", "is disallowed: use shop.v1.NewField");
    asks(&[]).expect(1, &[&format!("{HTTP2}: disallowed, 1 use"), &key]);
    fs::write(
        at("config/b.yaml"),
        deprecated("b") + "connect_timeout: 9s\n",
    )
    .expect("written");
    oxds(["get", "--server", &grpc, "clusters", "b", "-o", "yaml"])
        .expect(0, &["http2_protocol_options"]);
    server.signal("TERM");
    let (_, log) = server.end();
    assert!(
        log.contains(&format!("set the runtime key \"{key}\": true")),
        "{log}"
    );

    // 5. After a restart the file is not served, unless the operator allows the field for now.
    fs::write(at("config/b.yaml"), deprecated("b")).expect("written");
    let allow = format!("{key}=true");
    let server = serve(&["--runtime", &allow]);
    let grpc = server.grpc.to_string();
    server.shows("/deprecations.json", "\"verdict\":\"overridden\"");
    let shown = oxds(["deprecations", "--server", &grpc]);
    shown.expect(1, &[&format!("{HTTP2}: overridden, 1 use")]);
    oxds(["deprecations", "--server", &grpc, "--fail-on", "not-served"]).expect(0, &[]);

    // 6. The other team follows: nothing is left, and the next major may drop the field.
    fs::write(at("config/b.yaml"), cluster("b")).expect("written");
    server.shows("/deprecations.json", "\"elements\":[]");
    oxds(["deprecations", "--server", &grpc, "--fail-on", "warned"])
        .expect(0, &["no deprecated fields in use"]);
}

/// Given a server whose file is refused, when a request to the admin endpoint allows its field, then the file is
/// served, without a restart or a change of the file.
#[test]
fn v45_runtime_change_serves_a_refused_file() {
    let dir = folder(&[("r.yaml", &disallowed())]);
    let server = Serve::with(dir.path(), ["--runtime-admin"]);
    server.shows("/deprecations.json", "\"verdict\":\"disallowed\"");
    let key = format!("envoy.deprecated_features:{HARD}");
    let answer = server.post(&format!("/runtime_modify?{key}=true"), "", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.shows("/deprecations.json", "\"verdict\":\"overridden\"");
    server.shows("/metrics", "oxds_resources{resource_type=\"rds\"} 1");
    server.shows("/runtime", "deprecated fields");
}

#[test]
fn v45_deprecations_of_a_folder_have_places_and_exit_codes() {
    let dir = folder(&[("a.yaml", &deprecated("a")), ("r.yaml", &disallowed())]);
    let shown = run("deprecations", dir.path(), &[]);
    shown.expect(
        1,
        &[
            &format!("{HARD}: disallowed, 1 use"),
            "r.yaml:8:7: rds r: virtual_hosts[0]",
            &format!("{HTTP2}: warned, 1 use"),
        ],
    );
    assert!(
        shown.stdout.find(HARD) < shown.stdout.find(HTTP2),
        "disallowed ones come first"
    );
    run("deprecations", dir.path(), &["--fail-on", "never"]).expect(0, &[HARD]);
    let allow = format!("envoy.deprecated_features:{HARD}=true");
    run("deprecations", dir.path(), &["--runtime", &allow]).expect(1, &["overridden"]);
    run(
        "deprecations",
        dir.path(),
        &["--runtime", &allow, "--fail-on", "not-served"],
    )
    .expect(0, &["overridden"]);
    let json = run("deprecations", dir.path(), &["--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["elements"][0]["element"], HARD);
    assert_eq!(json["elements"][0]["places"][0]["line"], 8);
    assert_eq!(json["elements"][0]["clients"], Value::Null);
    run("deprecations", Path::new("/no/such"), &[]).expect(2, &["/no/such"]);
    run("deprecations", dir.path(), &["--server", "127.0.0.1:1"]).expect(2, &["--server"]);
}

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// A binary file of a cluster with the field 1234.
fn unknown_field() -> Vec<u8> {
    let mut any = vec![0x0a, CLUSTER.len() as u8];
    any.extend_from_slice(CLUSTER.as_bytes());
    any.extend_from_slice(b"\x12\x06\x0a\x01a\x90\x4d\x01");
    any
}

/// Given a control plane that serves an unknown field, then `oxds watch` accepts it with a warning, or without one, or
/// NACKs it, as its options say. The control plane shows the NACK.
#[test]
fn v58_watch_treats_unknown_dynamic_fields_as_its_options_say() {
    let dir = folder(&[]);
    let mut file = unknown_field();
    // The length of the cluster.
    let at = CLUSTER.len() + 3;
    file[at] = (file.len() - at - 1) as u8;
    fs::write(dir.path().join("a.pb"), file).expect("written");
    let server = Serve::with(dir.path(), ["--allow-unknown-static-fields"]);
    server.shows("/readyz", "200 OK");
    let grpc = server.grpc.to_string();
    for flag in [&[][..], &["--ignore-unknown-dynamic-fields"]] {
        let mut client = Watching::of(&[&["--server", &grpc, "clusters"], flag].concat());
        client.expect("added", "a");
    }
    let _client = Watching::of(&[
        "--server",
        &grpc,
        "clusters",
        "--reject-unknown-dynamic-fields",
    ]);
    server.shows(
        "/status.json",
        "unknown field `1234` in envoy.config.cluster.v3.Cluster",
    );
    oxds([
        "watch",
        "clusters",
        "--reject-unknown-dynamic-fields",
        "--ignore-unknown-dynamic-fields",
    ])
    .expect(2, &["cannot be used with"]);
}

/// Given a control plane that allows a disallowed field, and a client that checks fields: the client NACKs the resource
/// with the key in its reason, until its own runtime allows the field.
#[test]
fn v45_client_nacks_a_disallowed_field_until_allowed() {
    let dir = folder(&[("r.yaml", &disallowed())]);
    let key = format!("envoy.deprecated_features:{HARD}");
    let allow = format!("{key}=true");
    let server = Serve::with(dir.path(), ["--runtime", &allow]);
    server.shows("/readyz", "200 OK");

    let checks = FieldChecks::new(UnknownFields::Warn);
    let options = Options::default().with_resource_check(checks.resource_check());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let bootstrap = Bootstrap::builder(server.grpc.to_string())
            .node_id("me")
            .build();
        let client = XdsClient::with_options(bootstrap.expect("valid").into(), options);
        let mut routes = client.watch_raw(ResourceType::ROUTE, "r");
        let refused = routes.next().await.expect("an update");
        let Update::Changed(Err(error)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains(&key), "{error}");
        server.shows(
            "/status.json",
            &format!("set the runtime key \\\"{key}\\\": true"),
        );

        let layer = Layer::new("operator", Source::Static).with(key.as_str(), true);
        let runtime = Snapshot::from_layers(vec![layer.expect("a layer")]);
        checks.set_policy(Policy::new(runtime, Clock::default()));
        let changed = disallowed().replace("name: all", "name: every");
        fs::write(dir.path().join("r.yaml"), changed).expect("written");
        let accepted = routes.next().await.expect("an update");
        assert!(matches!(accepted, Update::Changed(Ok(_))), "{accepted:?}");
        assert_eq!(checks.counts().deprecated, 1);
    });
}

/// Given a control plane that serves deprecated and disallowed fields, then `oxds get` prints the resources, with a
/// warning for each field on stderr.
#[test]
fn v44_get_warns_of_deprecated_fields_on_stderr() {
    let dir = folder(&[("a.yaml", &deprecated("a")), ("r.yaml", &disallowed())]);
    let allow = format!("envoy.deprecated_features:{HARD}=true");
    let server = Serve::with(dir.path(), ["--runtime", &allow]);
    server.shows("/readyz", "200 OK");
    let grpc = server.grpc.to_string();
    for (of, name, element) in [("cds", "a", HTTP2), ("rds", "r", HARD)] {
        let got = oxds(["get", of, name, "-o", "json", "--server", &grpc]);
        got.expect(0, &[]);
        let values: Value = serde_json::from_str(&got.stdout).expect("JSON alone");
        assert_eq!(values[0]["name"], name);
        let warning = format!("deprecated field {element}");
        assert_eq!(got.stderr.matches(&warning).count(), 1, "{got:#?}");
    }
}
