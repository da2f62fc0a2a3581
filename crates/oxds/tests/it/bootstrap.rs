//! Tests of `oxds bootstrap`.

use std::ffi::OsStr;

use serde_json::Value;

use crate::support::{Ran, folder, oxds};

#[test]
fn grpc_file_is_valid_for_our_client() {
    let ran = oxds([
        "bootstrap",
        "grpc",
        "--server",
        "127.0.0.1:18000",
        "--node-id",
        "me",
    ]);
    ran.expect(0, &[]);
    let file: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(file["xds_servers"][0]["server_uri"], "127.0.0.1:18000");
    let bootstrap = oxds_client::Bootstrap::from_json(&ran.stdout).expect("a bootstrap");
    assert_eq!(bootstrap.node().id, "me");
    assert_eq!(bootstrap.node().cluster, "default");
    // grpc-js requires a locality in the node; gRPC servers require the template (gRFC A36).
    assert!(file["node"]["locality"].is_object());
    let template = bootstrap.server_listener_template();
    assert_eq!(
        template,
        Some("grpc/server?xds.resource.listening_address=%s")
    );
}

#[test]
fn node_id_with_special_characters_is_quoted() {
    let ran = oxds([
        "bootstrap",
        "grpc",
        "--server",
        "[::1]:80",
        "--node-id",
        "a\"b: {c}\n",
    ]);
    ran.expect(0, &[]);
    let file: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(file["node"]["id"], "a\"b: {c}\n");
    assert_eq!(file["xds_servers"][0]["server_uri"], "[::1]:80");
}

/// Envoy itself checks the file in `interop/`. This test checks that the arguments are in the file.
#[test]
fn envoy_file_contains_the_arguments() {
    let server = [
        "bootstrap",
        "envoy",
        "--server",
        "xds.example:18000",
        "--cluster",
        "edge",
    ];
    let sotw = oxds(server);
    sotw.expect(
        0,
        &[
            "api_type: GRPC\n",
            "type: STRICT_DNS",
            "port_value: 18000",
            "\"edge\"",
        ],
    );
    let delta = oxds(server.iter().chain(&["--delta"]));
    delta.expect(0, &["api_type: DELTA_GRPC\n"]);
}

#[test]
fn grpc_with_delta_is_a_usage_error() {
    let ran = oxds(["bootstrap", "grpc", "--server", "127.0.0.1:1", "--delta"]);
    ran.expect(2, &["--delta", "support SotW only"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn malformed_server_is_a_usage_error() {
    for server in ["localhost", "localhost:port", "::1:80", "http://a:1"] {
        oxds(["bootstrap", "grpc", "--server", server]).expect(2, &[server, "--server"]);
    }
    oxds(["bootstrap", "grpc"]).expect(2, &["--server <HOST:PORT>"]);
}

/// Given the file that `grpc` prints. `check` prints its node and server. The error for a malformed file has the file
/// and the line or field.
#[test]
fn check_prints_node_and_server_or_the_error_place() {
    let printed = oxds([
        "bootstrap",
        "grpc",
        "--server",
        "127.0.0.1:18000",
        "--node-id",
        "me",
    ]);
    let wrong_uri = printed.stdout.replace("127.0.0.1:18000", "ftp://x");
    let dir = folder(&[
        ("good.json", &printed.stdout),
        ("field.json", &wrong_uri),
        ("syntax.json", "{\n  \"xds_servers\": [}"),
    ]);
    let check = |file: &str| {
        let path = dir.path().join(file);
        oxds(["bootstrap".as_ref(), "check".as_ref(), path.as_os_str()])
    };
    let summary = "node \"me\", cluster \"default\"\nserver 127.0.0.1:18000 (insecure, xDS v3)\n";
    check("good.json").expect(0, &[summary]);
    check("field.json").expect(2, &["field.json: xds_servers[0].server_uri: "]);
    check("syntax.json").expect(2, &["syntax.json:2:19: "]);
    check("none.json").expect(2, &["none.json: No such file"]);
}

/// Returns what `oxds bootstrap CLIENT --certs DIR` prints for a folder with these files.
fn with_certs(client: &str, files: &[(&str, &str)]) -> (Ran, std::path::PathBuf) {
    let dir = folder(files);
    let server = ["--server", "127.0.0.1:1", "--certs"].map(AsRef::<OsStr>::as_ref);
    let command = ["bootstrap", client].map(AsRef::<OsStr>::as_ref);
    let dir_path = dir.path().to_owned();
    let arguments = command.into_iter().chain(server);
    (oxds(arguments.chain([dir_path.as_os_str()])), dir_path)
}

/// gRFC A29: the provider has the absolute paths of the files.
#[test]
fn certs_become_the_default_certificate_provider() {
    let (ran, dir) = with_certs("grpc", &[("tls.crt", ""), ("tls.key", ""), ("ca.crt", "")]);
    ran.expect(0, &[]);
    let file: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let provider = &file["certificate_providers"]["default"];
    assert_eq!(provider["plugin_name"], "file_watcher");
    for (field, name) in [
        ("certificate_file", "tls.crt"),
        ("private_key_file", "tls.key"),
        ("ca_certificate_file", "ca.crt"),
    ] {
        let path = dir.join(name);
        assert_eq!(
            provider["config"][field],
            path.to_str().expect("UTF-8"),
            "{field}"
        );
    }
    assert_eq!(provider["config"]["refresh_interval"], "60s");
    oxds_client::Bootstrap::from_json(&ran.stdout).expect("a bootstrap");
}

#[test]
fn refresh_interval_of_certs_is_written_in_seconds() {
    let files = ["cert.pem", "key.pem", "ca.pem"].map(|name| (name, ""));
    let dir = folder(&files);
    let command = ["bootstrap", "grpc", "--server", "127.0.0.1:1"];
    let with = |interval: &str| {
        let options = ["--refresh-interval", interval, "--certs"];
        let arguments = command.into_iter().chain(options).map(OsStr::new);
        oxds(arguments.chain([dir.path().as_os_str()]))
    };
    for (interval, seconds) in [("1s", "1s"), ("500ms", "0.5s"), ("10m", "600s")] {
        let ran = with(interval);
        ran.expect(0, &[]);
        let file: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let config = &file["certificate_providers"]["default"]["config"];
        assert_eq!(config["refresh_interval"], seconds);
        oxds_client::Bootstrap::from_json(&ran.stdout).expect("a bootstrap");
    }
    with("soon").expect(2, &["--refresh-interval"]);
    let without_certs = command.into_iter().chain(["--refresh-interval", "1s"]);
    oxds(without_certs).expect(2, &["--certs"]);
}

#[test]
fn certs_with_a_missing_file_are_a_usage_error() {
    let (ran, _) = with_certs("grpc", &[("cert.pem", ""), ("key.pem", "")]);
    ran.expect(
        2,
        &[
            "--certs: ",
            "missing ca.pem: expected cert.pem, key.pem, ca.pem; or tls.crt",
        ],
    );
    assert_eq!(ran.stdout, "");
    let (ran, _) = with_certs("grpc", &[]);
    ran.expect(2, &["missing cert.pem, key.pem, ca.pem"]);
    let (ran, _) = with_certs(
        "envoy",
        &[("cert.pem", ""), ("key.pem", ""), ("ca.pem", "")],
    );
    ran.expect(2, &["--certs: Envoy has no certificate providers", "SDS"]);
}
