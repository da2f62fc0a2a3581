//! `oxds bootstrap`.

use serde_json::Value;

use crate::support::{folder, oxds};

#[test]
fn the_grpc_file_is_json_that_our_own_client_reads() {
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
    // grpc-js takes no node without a locality; gRPC servers take no file without a template (gRFC A36).
    assert!(file["node"]["locality"].is_object());
    let template = bootstrap.server_listener_template();
    assert_eq!(
        template,
        Some("grpc/server?xds.resource.listening_address=%s")
    );
}

#[test]
fn names_that_need_quoting_are_quoted() {
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

/// The file itself is judged by Envoy in `interop/`; here, that the arguments reach it.
#[test]
fn the_envoy_file_says_how_to_ask() {
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
fn grpc_knows_no_delta() {
    let ran = oxds(["bootstrap", "grpc", "--server", "127.0.0.1:1", "--delta"]);
    ran.expect(2, &["--delta", "full states only"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_bad_server_is_a_usage_error_that_shows_it() {
    for server in ["localhost", "localhost:port", "::1:80", "http://a:1"] {
        oxds(["bootstrap", "grpc", "--server", server]).expect(2, &[server, "--server"]);
    }
    oxds(["bootstrap", "grpc"]).expect(2, &["--server <HOST:PORT>"]);
}

/// Given the file that `grpc` prints; then `check` says what it means; one with a mistake is named with file and place.
#[test]
fn a_file_is_checked_as_clients_read_it() {
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
    let said = "node \"me\" of cluster \"default\"\nserver 127.0.0.1:18000 (insecure, xDS v3)\n";
    check("good.json").expect(0, &[said]);
    check("field.json").expect(2, &["field.json: xds_servers[0].server_uri: "]);
    check("syntax.json").expect(2, &["syntax.json:2:19: "]);
    check("none.json").expect(2, &["none.json: No such file"]);
}
