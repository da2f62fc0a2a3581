//! C-8 – C-13, C-19 – C-21: servers, their credentials and features.

use std::sync::Arc;

use serde_json::json;

use super::{error, read, server, with};
use crate::bootstrap::*;
use crate::credentials::Insecure;
use crate::transport::Place;

#[test]
fn c8_servers_are_required_at_the_top_even_if_every_authority_has_its_own() {
    for servers in [json!(null), json!([])] {
        let mut json = with("xds_servers", servers);
        json["authorities"] = json!({ "a": { "xds_servers": [server("cp:1")] } });
        assert!(
            error(&json).contains("xds_servers: must"),
            "{}",
            error(&json)
        );
    }
}

#[test]
fn c9_a_server_has_a_uri() {
    for uri in [json!(null), json!("")] {
        let json = with(
            "xds_servers",
            json!([{ "server_uri": uri, "channel_creds": [{ "type": "insecure" }] }]),
        );
        assert_eq!(
            error(&json),
            "bootstrap: xds_servers[0].server_uri: must be set"
        );
    }
    assert!(
        error(&with("xds_servers", json!([server("not a uri")])))
            .contains("xds_servers[0].server_uri")
    );
}

#[test]
fn c10_a_uri_is_a_grpc_target() {
    let bootstrap = read(&with(
        "xds_servers",
        json!([server("unix:///etc/istio/xds")]),
    ))
    .unwrap();
    assert_eq!(
        bootstrap.servers()[0].address.place(),
        &Place::Unix("/etc/istio/xds".into())
    );
}

#[test]
fn c10_addresses_have_the_default_port_of_grpc() {
    for (uri, address) in [
        ("ipv4:10.0.0.1", "10.0.0.1:443"),
        ("ipv6:[::1]", "[::1]:443"),
        ("ipv6:::1", "[::1]:443"),
        ("ipv4:10.0.0.1:80", "10.0.0.1:80"),
    ] {
        let bootstrap = read(&with("xds_servers", json!([server(uri)]))).unwrap();
        let expected = Place::Addresses(vec![address.parse().unwrap()]);
        assert_eq!(bootstrap.servers()[0].address.place(), &expected, "{uri}");
    }
    for uri in ["ipv4:[::1]:80", "ipv6:10.0.0.1:80", "ipv4:host:80", "ipv4:"] {
        let error = error(&with("xds_servers", json!([server(uri)])));
        assert!(error.contains("xds_servers[0].server_uri"), "{error}");
    }
}

#[test]
fn c11_c14_the_first_type_of_credentials_that_is_known_wins() {
    let creds = json!([{ "type": "unknown" }, { "type": "insecure" }, { "type": "tls" }]);
    let json = with(
        "xds_servers",
        json!([{ "server_uri": "cp:1", "channel_creds": creds }]),
    );
    assert_eq!(
        read(&json).unwrap().servers()[0].credentials,
        Configured::insecure()
    );
}

#[test]
fn c12_without_a_known_type_the_bootstrap_is_rejected() {
    for (creds, found) in [
        (json!(null), "must be set"),
        (json!([]), "but none"),
        (
            json!([{ "type": "other" }, { "type": "another" }]),
            "but other, another",
        ),
    ] {
        let json = with(
            "xds_servers",
            json!([{ "server_uri": "cp:1", "channel_creds": creds }]),
        );
        let error = error(&json);
        assert!(
            error.contains("xds_servers[0].channel_creds: ") && error.contains(found),
            "{error}"
        );
    }
}

#[test]
fn c13_the_config_of_the_chosen_type_counts_and_no_other() {
    let types = CredentialTypes::default().with("strict", |config| match config {
        Some(config) if config["key"].is_string() => Ok(Arc::new(Insecure)),
        _ => Err("must have a key".to_owned()),
    });
    let read = |creds: serde_json::Value| {
        let json = with(
            "xds_servers",
            json!([{ "server_uri": "cp:1", "channel_creds": creds }]),
        );
        Bootstrap::from_json_with(&json.to_string(), &types)
    };
    let bad = json!({ "type": "strict", "config": {} });
    let error = read(json!([{ "type": "unknown" }, bad, { "type": "insecure" }]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("channel_creds[1].config: must have a key"),
        "{error}"
    );
    read(json!([{ "type": "insecure" }, bad])).unwrap();
    read(json!([{ "type": "strict", "config": { "key": "k" } }])).unwrap();
}

#[test]
fn c19_c20_c21_features_are_kept_per_server_and_unknown_ones_ignored() {
    let mut one = server("one:1");
    one["server_features"] = json!([
        "xds_v3",
        7,
        {},
        "resource_timer_is_transient_failure",
        "ignore_resource_deletion"
    ]);
    let mut two = server("two:2");
    two["server_features"] = json!([
        "fail_on_data_errors",
        "resource_timer_is_transient_error",
        "trusted_xds_server"
    ]);
    let bootstrap = read(&with("xds_servers", json!([one, two]))).unwrap();
    let [one, two] = bootstrap.servers() else {
        panic!("two servers")
    };
    assert_eq!(
        one.features,
        Features {
            xds_v3: true,
            ignore_resource_deletion: true,
            ..Features::default()
        }
    );
    assert_eq!(
        two.features,
        Features {
            fail_on_data_errors: true,
            resource_timer_is_transient_error: true,
            trusted_xds_server: true,
            ..Features::default()
        }
    );
}
