//! Tests of `oxds validate`: exit code and reported place for each sort of invalid input.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::support::{Ran, cluster, folder, oxds, shop};

fn validate(files: &[(&str, &str)]) -> Ran {
    let dir = folder(files);
    oxds(["validate".as_ref(), dir.path().as_os_str()])
}

#[test]
fn examples_have_no_findings() {
    let examples = shop().join("..").read_dir().expect("the examples");
    for example in examples {
        let example = example.expect("an example").path();
        // Scripts stand beside the folders; the folder `api` has protos, not resources.
        if example.is_file() || example.ends_with("api") {
            continue;
        }
        let strict = [
            "validate".as_ref(),
            example.as_os_str(),
            "--strict".as_ref(),
        ];
        oxds(strict).expect(0, &["0 errors, 0 warnings"]);
    }
}

/// A cluster of other clusters.
fn aggregate(name: &str, clusters: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\nlb_policy: CLUSTER_PROVIDED\n\
         cluster_type:\n  name: envoy.clusters.aggregate\n  typed_config:\n    \
         \"@type\": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig\n    \
         clusters: [{clusters}]\n"
    )
}

#[test]
fn s70_missing_cluster_of_an_aggregate_is_a_finding() {
    let (both, near) = (aggregate("both", "near, far"), cluster("near"));
    let files = [("a.yaml", both.as_str()), ("b.yaml", near.as_str())];
    validate(&files).expect(0, &["a.yaml", "\"far\"", "0 errors, 1 warning"]);
    let far = cluster("far");
    let complete = [files[0], files[1], ("c.yaml", far.as_str())];
    validate(&complete).expect(0, &["0 errors, 0 warnings"]);
}

#[test]
fn c198_empty_aggregate_is_an_error() {
    let empty = aggregate("both", "");
    validate(&[("a.yaml", &empty)]).expect(1, &["a.yaml:", "clusters", "1 error"]);
}

#[test]
fn missing_folder_is_a_usage_error() {
    oxds(["validate", "/no/such/folder"]).expect(2, &["/no/such/folder", "No such file"]);
}

#[test]
fn file_instead_of_folder_is_a_usage_error() {
    let dir = folder(&[("a.yaml", "")]);
    let file = dir.path().join("a.yaml");
    oxds(["validate".as_ref(), file.as_os_str()]).expect(2, &["a.yaml is not a folder"]);
}

#[test]
fn empty_folder_is_a_warning_and_fails_with_strict() {
    validate(&[]).expect(0, &["no resources found", "1 warning"]);
    let dir = folder(&[]);
    let strict = oxds([
        "validate".as_ref(),
        dir.path().as_os_str(),
        "--strict".as_ref(),
    ]);
    strict.expect(1, &["no resources found"]);
}

#[test]
fn syntax_error_is_reported_with_line() {
    validate(&[("a.yaml", "name: [1, 2\nother: x\n")]).expect(1, &["a.yaml:2:", "error: "]);
    validate(&[("a.json", "{\"@type\": }")]).expect(1, &["a.json:1:", "error: "]);
}

#[test]
fn unknown_field_is_an_error_unless_allowed() {
    let text = cluster("a") + "lb_polizy: RANDOM\n";
    let ran = validate(&[("a.yaml", &text)]);
    ran.expect(
        1,
        &[
            "a.yaml:4:1: error: lb_polizy: unknown field `lb_polizy`",
            "1 error",
        ],
    );
    let dir = folder(&[("a.yaml", &text)]);
    let dir = dir.path().as_os_str();
    oxds(["validate".as_ref(), dir, "--allow-unknown-fields".as_ref()]).expect(0, &["0 errors"]);
}

#[test]
fn violated_validation_rule_is_reported_with_line() {
    let text = cluster("a").replace("connect_timeout: 1s", "connect_timeout: 0s");
    validate(&[("a.yaml", &text)]).expect(1, &["a.yaml:3:", "connect_timeout", "does not hold"]);
}

#[test]
fn duplicate_name_error_names_both_files() {
    let ran = validate(&[
        ("a.yaml", &cluster("same")),
        ("sub/b.yaml", &cluster("same")),
    ]);
    ran.expect(1, &["b.yaml:", "\"same\"", "already defined in", "a.yaml"]);
}

#[test]
fn s70_missing_reference_is_warning_or_strict_error() {
    let eds = cluster("a") + "type: EDS\neds_cluster_config: { eds_config: { ads: {} } }\n";
    let dir = folder(&[("a.yaml", &eds)]);
    let path = dir.path().as_os_str();
    oxds(["validate".as_ref(), path]).expect(0, &["a.yaml:1:", "warning: ", "eds \"a\""]);
    oxds(["validate".as_ref(), path, "--strict".as_ref()]).expect(1, &["error: ", "eds \"a\""]);
}

#[test]
fn large_invalid_file_is_an_error_with_bounded_output() {
    let many: String = (0..500_000).map(|n| format!("- {{ a: {n}, b: [1, 2, 3], c: some text that fills a line up to a hundred characters }}\n")).collect();
    assert!(many.len() > 40_000_000, "{}", many.len());
    let ran = validate(&[("big.yaml", &many), ("good.yaml", &cluster("good"))]);
    ran.expect(1, &["big.yaml", "error: ", "1 resource"]);
    assert!(ran.stdout.len() < 1_000_000, "findings are bounded");
}

#[test]
fn symlink_loop_and_dangling_link_are_errors() {
    let dir = folder(&[("good.yaml", &cluster("good"))]);
    symlink(dir.path(), dir.path().join("loop")).expect("a link");
    symlink("a.yaml", dir.path().join("a.yaml")).expect("a link");
    symlink("/no/such/file", dir.path().join("b.yaml")).expect("a link");
    let ran = oxds(["validate".as_ref(), dir.path().as_os_str()]);
    ran.expect(1, &["/a.yaml: error: ", "/b.yaml: error: ", "1 resource"]);
}

/// CI may run as root, which ignores permissions. So a folder with the name of a file stands for an unreadable file.
#[test]
fn unreadable_file_does_not_affect_other_files() {
    let dir = folder(&[("good.yaml", &cluster("good"))]);
    fs::create_dir(dir.path().join("bad.yaml")).expect("a folder");
    let ran = oxds(["validate".as_ref(), dir.path().as_os_str()]);
    ran.expect(1, &["bad.yaml: error: ", "1 resource"]);
}

#[test]
fn json_findings_have_line_and_column() {
    let dir = folder(&[("a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"))]);
    let path = dir.path().as_os_str();
    let ran = oxds([
        "validate".as_ref(),
        path,
        "--format".as_ref(),
        "json".as_ref(),
    ]);
    ran.expect(1, &[]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["line"], &finding["column"]),
        (&4.into(), &1.into())
    );
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["path"], "lb_polizy");
    assert!(
        finding["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("a.yaml"))
    );
    assert_eq!(report["errors"], 1);
}

/// Given file and field names with line breaks, terminal escapes and bidirectional marks, then the output has none of
/// them, as text and as JSON.
#[test]
fn validate_escapes_names_from_files() {
    let dir = folder(&[(
        "x\n::error::forged\u{1b}[2J.yaml",
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n\"\u{202e}lb\u{7f} ##[error]\": 1\n",
    )]);
    for format in ["text", "json"] {
        let ran = oxds([
            "validate".as_ref(),
            dir.path().as_os_str(),
            "--format".as_ref(),
            format.as_ref(),
        ]);
        ran.expect(1, &["forged"]);
        assert!(
            !ran.stdout
                .lines()
                .any(|line| line.trim_start().starts_with("::")),
            "{ran:?}"
        );
        assert!(
            !ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7f}']),
            "{ran:?}"
        );
        assert!(format == "json" || !ran.stdout.contains("##["), "{ran:?}");
    }
}

/// The listener of a gRPC server with mTLS from the provider `name`, on a port.
fn grpc_server(port: u16, provider: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: grpc/server?xds.resource.listening_address=0.0.0.0:8443
address: {{ socket_address: {{ address: 0.0.0.0, port_value: {port} }} }}
filter_chains:
- filters:
  - name: http
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: server
      route_config: {{ name: all }}
      http_filters:
      - name: router
        typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  transport_socket:
    name: tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
      require_client_certificate: true
      common_tls_context:
        tls_certificate_provider_instance: {{ instance_name: {provider} }}
        validation_context: {{ ca_certificate_provider_instance: {{ instance_name: {provider} }} }}
"#
    )
}

/// Given the listener of a gRPC server, then a wrong address is a warning with its line, and so is a certificate
/// provider that the bootstrap does not have. The bootstrap that `oxds bootstrap grpc --certs` prints has the provider
/// `default`.
#[test]
fn grpc_server_with_unknown_provider_is_a_warning() {
    let (good, wrong) = (grpc_server(8443, "default"), grpc_server(8444, "defualt"));
    validate(&[("a.yaml", &good)]).expect(0, &["0 errors, 0 warnings"]);
    let ran = validate(&[("a.yaml", &wrong)]);
    ran.expect(
        0,
        &["a.yaml:3:1: warning: address: gRPC servers", "1 warning"],
    );

    let certs = folder(&[("cert.pem", ""), ("key.pem", ""), ("ca.pem", "")]);
    let bootstrap = oxds([
        "bootstrap".as_ref(),
        "grpc".as_ref(),
        "--server".as_ref(),
        "127.0.0.1:1".as_ref(),
        "--certs".as_ref(),
        certs.path().as_os_str(),
    ]);
    let dir = folder(&[("good/a.yaml", &good), ("wrong/a.yaml", &wrong)]);
    let file = certs.path().join("bootstrap.json");
    fs::write(&file, &bootstrap.stdout).expect("written");
    let validate = |which: &str| {
        let (dir, option) = (dir.path().join(which), "--bootstrap".as_ref());
        oxds([
            "validate".as_ref(),
            dir.as_os_str(),
            option,
            file.as_os_str(),
        ])
    };
    validate("good").expect(0, &["0 errors, 0 warnings"]);
    let place = "a.yaml:21:";
    let provider = "certificate provider \"defualt\" is not in the bootstrap, expected \"default\"";
    validate("wrong").expect(0, &[place, provider, "3 warnings"]);
    fs::write(&file, "{").expect("written");
    validate("good").expect(2, &["bootstrap.json:1:"]);
}

/// Replaces a part of a file that is there.
fn replaced(file: &str, part: &str, by: &str) -> String {
    assert!(file.contains(part), "{part}");
    file.replace(part, by)
}

/// Adds this filter to a server's listener.
fn with_filter(server: &str, config: &str) -> String {
    let filter =
        format!("      http_filters:\n      - name: own\n        typed_config: {config}\n");
    replaced(server, "      http_filters:\n", &filter)
}

/// Adds an RBAC filter with this principal.
fn with_principal(server: &str, principal: &str) -> String {
    let config = format!(
        r#"{{ "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC, rules: {{ policies: {{ p: {{
          permissions: [{{ any: true }}],
          principals: [{principal}] }} }} }} }}"#
    );
    with_filter(server, &config)
}

/// Expects that validation of a file has one warning, at this line, about this field.
fn expect_warning(file: &str, line: usize, path: &str, text: &str) {
    let place = format!("a.yaml:{line}:");
    let warning = format!("warning: {path}");
    let parts = [&*place, &warning, text, "0 errors, 1 warning"];
    validate(&[("a.yaml", file)]).expect(0, &parts);
}

/// A listener that only gRPC servers read is checked by the parser of servers (gRFC A29, A36, A39, A41).
#[test]
fn listeners_that_grpc_servers_reject_are_warnings() {
    let server = grpc_server(8443, "default");
    let disabled = "      - name: r\n        disabled: true\n      - name: router";
    let disabled = replaced(&server, "      - name: router", disabled);
    let cors = r#"{ "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors }"#;
    let regex = "{ authenticated: { principal_name: { safe_regex: { regex: 'a(' } } } }";
    let range = "{ direct_remote_ip: { address_prefix: 10.0.0.0, prefix_len: 33 } }";
    let filter = "filter_chains[0].filters[0].typed_config.http_filters[0]";
    let principal = format!("{filter}.typed_config.rules.policies[\"p\"].principals[0]");
    let unsupported = "\"r\" of type \"\" is not supported";
    expect_warning(&disabled, 12, &format!("{filter}: "), unsupported);
    let unsupported = "cors.v3.Cors\" is not supported: gRPC servers reject the resource";
    let file = with_filter(&server, cors);
    expect_warning(&file, 12, &format!("{filter}: "), unsupported);
    let path = format!("{principal}.authenticated.principal_name.safe_regex");
    let file = with_principal(&server, regex);
    expect_warning(&file, 15, &path, "gRPC servers reject the resource");
    let path = format!("{principal}.direct_remote_ip.prefix_len: ");
    let file = with_principal(&server, range);
    expect_warning(&file, 15, &path, "must be at most 32");
}

/// A listener and a cluster that only gRPC clients read are checked by the parsers of clients (gRFC A27, A29).
#[test]
fn resources_that_grpc_clients_reject_are_warnings() {
    let channel = r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: shop
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: shop
    route_config: { name: all }
"#;
    let cluster = r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: a
type: LOGICAL_DNS
load_assignment: { cluster_name: a, endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: a.example, port_value: 1 } } } }] }] }
transport_socket:
  name: tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_provider_instance: { instance_name: default }
"#;
    let text = "must end with a router: gRPC clients reject the resource";
    expect_warning(channel, 4, "api_listener.api_listener.http_filters: ", text);
    let text = "must have a ca_certificate_provider_instance or system_root_certs: gRPC clients reject the resource";
    let path = "transport_socket.typed_config.common_tls_context.validation_context: ";
    expect_warning(cluster, 9, path, text);
}

#[test]
fn rules_of_grpc_are_for_what_only_grpc_reads() {
    let server = grpc_server(8443, "default");
    // Filters and loggers of a program have types of their own.
    let own = r#"{ "@type": type.googleapis.com/xds.type.v3.TypedStruct, type_url: type.googleapis.com/example.Tag, value: {} }"#;
    let own = with_filter(&server, own);
    validate(&[("a.yaml", &own)]).expect(0, &["0 errors, 0 warnings"]);
    // Envoy may have what gRPC has not.
    let name = "grpc/server?xds.resource.listening_address=0.0.0.0:8443";
    let hops = "      xff_num_trusted_hops: 1\n      http_filters";
    let envoy = replaced(&server, name, "edge");
    let envoy = replaced(&envoy, "      http_filters", hops);
    validate(&[("a.yaml", &envoy)]).expect(0, &["0 errors, 0 warnings"]);
}

/// Filter chains, RBAC policies and references to secrets, each with line and field.
#[test]
fn parts_without_effect_are_warnings_with_their_place() {
    let listener = r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: front
filter_chains:
- filter_chain_match: { server_names: [a.example] }
- filter_chain_match:
    server_names: [a.example]
  filters:
  - name: rbac
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC
      stat_prefix: rbac
      rules:
        policies:
          never:
            permissions: [{ any: true }]
            principals: [{ not_id: { any: true } }]
"#;
    let cluster = cluster("a")
        + r#"transport_socket:
  name: tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_sds_secret_configs: [{ name: key, sds_config: { ads: {} } }]
"#;
    let files = [("a.yaml", listener), ("b.yaml", &cluster)];
    let dir = folder(&files);
    let path = dir.path().as_os_str();
    let ran = oxds(["validate".as_ref(), path]);
    ran.expect(
        0,
        &[
            "a.yaml:5:3: warning: filter_chains[1].filter_chain_match: matches the same connections as filter_chains[0]",
            "a.yaml:16:13: warning: filter_chains[1].filters[0].typed_config.rules.policies[\"never\"].principals: the policy never",
            "b.yaml:1:1: warning: cds \"a\" refers to sds \"key\", which does not exist",
            "0 errors, 3 warnings",
        ],
    );
    let strict = oxds(["validate".as_ref(), path, "--strict".as_ref()]);
    strict.expect(1, &["error: cds \"a\" refers to sds \"key\""]);
    let json = oxds([
        "validate".as_ref(),
        path,
        "--format".as_ref(),
        "json".as_ref(),
    ]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let findings = json["findings"].as_array().expect("a list").iter();
    let rules: Vec<_> = findings
        .map(|finding| finding["rule"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(rules, ["filter-chain", "rbac", "dangling"]);
}
