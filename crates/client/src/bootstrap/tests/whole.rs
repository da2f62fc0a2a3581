//! C-6, C-7, C-28 – C-30, C-33: whole documents, authorities, templates.

use serde_json::json;

use super::{error, read, server, with};
use crate::bootstrap::*;

#[test]
fn c6_error_names_line_or_field() {
    let syntax = Bootstrap::from_json("{\n  \"xds_servers\": [,]\n}")
        .unwrap_err()
        .to_string();
    assert!(syntax.starts_with("bootstrap:2:19: "), "{syntax}");
    for (json, path) in [
        (json!([]), "the document"),
        (with("node", json!("me")), "node"),
        (with("node", json!({ "id": 7 })), "node.id"),
        (
            with("node", json!({ "locality": { "zone": [] } })),
            "node.locality.zone",
        ),
        (with("xds_servers", json!({})), "xds_servers"),
        (with("xds_servers", json!(["cp:1"])), "xds_servers[0]"),
        (with("authorities", json!([])), "authorities"),
        (
            with("client_default_listener_resource_name_template", json!(1)),
            "client_default_listener_resource_name_template",
        ),
    ] {
        let error = error(&json);
        assert!(
            error.starts_with(&format!("bootstrap: {path}: ")),
            "{path}: {error}"
        );
    }
}

#[test]
fn c6_empty_file_is_error_at_line_one() {
    let error = Bootstrap::from_json("").unwrap_err();
    let BootstrapError::Syntax { line, column, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((line, column), (1, 1));
}

#[test]
fn c7_unknown_fields_are_ignored() {
    let mut json = with("node", json!({ "id": "me", "later": 1 }));
    json["later"] = json!({});
    json["xds_servers"][0]["later"] = json!([]);
    json["authorities"] = json!({ "a": { "later": true } });
    read(&json).unwrap();
}

#[test]
fn c28_c29_authority_servers_are_optional() {
    let authorities = json!({ "a": {}, "b": { "xds_servers": [server("b:1")] } });
    let bootstrap = read(&with("authorities", authorities)).unwrap();
    assert!(bootstrap.authorities()["a"].servers.is_empty());
    assert_eq!(bootstrap.authorities()["b"].servers[0].uri, "b:1");
}

#[test]
fn c30_authority_template_must_name_authority() {
    let template = |template: &str| {
        with(
            "authorities",
            json!({ "a b": { "client_listener_resource_name_template": template } }),
        )
    };
    read(&template(
        "xdstp://a%20b/envoy.config.listener.v3.Listener/%s",
    ))
    .unwrap();
    for other in ["xdstp://a%20bc/x/%s", "xdstp://a%20b", "%s"] {
        let error = error(&template(other));
        assert!(
            error.contains("must begin with \"xdstp://a%20b/\""),
            "{other}: {error}"
        );
    }
}

#[test]
fn written_bootstrap_reads_back_equal() {
    let json = json!({
        "xds_servers": [server("one:1"), server("unix:/two")],
        "node": { "id": "me", "cluster": "c", "locality": { "zone": "z" }, "metadata": { "a": [null, 1.5] } },
        "authorities": { "a": { "xds_servers": [server("three:3")], "client_listener_resource_name_template": "xdstp://a/%s" } },
        "client_default_listener_resource_name_template": "x/%s",
        "server_listener_resource_name_template": "server/%s",
    });
    let bootstrap = read(&json).unwrap();
    assert_eq!(
        Bootstrap::from_json(&bootstrap.to_json()).unwrap(),
        bootstrap
    );
}

#[test]
fn builder_equals_json() {
    let built = Bootstrap::builder("one:1")
        .fallback_server("two:2")
        .node_id("me")
        .cluster("c")
        .build()
        .unwrap();
    assert_eq!(Bootstrap::from_json(&built.to_json()).unwrap(), built);
    let error = Bootstrap::builder("no uri")
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("xds_servers[0].server_uri"), "{error}");
}

#[test]
fn c33_server_template_is_required_only_for_servers() {
    let servers = r#""xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]"#;
    let listening = "[::1]:50051".parse().unwrap();
    let without = Bootstrap::from_json(&format!("{{{servers}}}")).unwrap();
    let why = without.server_listener_name(listening).unwrap_err();
    assert_eq!(
        why.to_string(),
        "bootstrap: server_listener_resource_name_template: must be set for an xDS server"
    );
    for (template, name) in [
        ("grpc/server?%s", "grpc/server?[::1]:50051"),
        (
            "xdstp://a/T/server/%s",
            "xdstp://a/T/server/%5B::1%5D:50051",
        ),
    ] {
        let template = format!(r#""server_listener_resource_name_template":"{template}""#);
        let with = Bootstrap::from_json(&format!("{{{servers},{template}}}")).unwrap();
        assert_eq!(with.server_listener_name(listening).unwrap(), name);
    }
}
