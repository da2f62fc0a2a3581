//! C-8 – C-13, C-19 – C-21: `xds_servers`, their credentials and features.

use std::sync::Arc;

use oxds_net::transport::DialTarget;
use serde_json::json;

use super::{error, minimal, read, server, with};
use crate::bootstrap::CredentialTypes;
use crate::bootstrap::*;
use crate::credentials::{Configured, Insecure};

#[test]
fn c8_top_level_servers_are_required() {
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
fn c9_server_without_uri_is_error() {
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
fn c10_server_uri_must_be_grpc_target() {
    let bootstrap = read(&with(
        "xds_servers",
        json!([server("unix:///etc/istio/xds")]),
    ))
    .unwrap();
    assert_eq!(
        bootstrap.servers()[0].address.target(),
        &DialTarget::Unix("/etc/istio/xds".into())
    );
}

#[test]
fn c10_address_without_port_gets_443() {
    for (uri, address) in [
        ("ipv4:10.0.0.1", "10.0.0.1:443"),
        ("ipv6:[::1]", "[::1]:443"),
        ("ipv6:::1", "[::1]:443"),
        ("ipv4:10.0.0.1:80", "10.0.0.1:80"),
    ] {
        let bootstrap = read(&with("xds_servers", json!([server(uri)]))).unwrap();
        let expected = DialTarget::Addresses(vec![address.parse().unwrap()]);
        assert_eq!(bootstrap.servers()[0].address.target(), &expected, "{uri}");
    }
    for uri in ["ipv4:[::1]:80", "ipv6:10.0.0.1:80", "ipv4:host:80", "ipv4:"] {
        let error = error(&with("xds_servers", json!([server(uri)])));
        assert!(error.contains("xds_servers[0].server_uri"), "{error}");
    }
}

#[test]
fn c11_c14_first_known_credential_type_wins() {
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
fn c12_no_known_credential_type_is_error() {
    for (creds, found) in [
        (json!(null), "must be set"),
        (json!([]), "found none"),
        (
            json!([{ "type": "other" }, { "type": "another" }]),
            "found other, another",
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
fn c13_only_config_of_chosen_type_is_checked() {
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
fn c19_c20_c21_features_are_per_server_unknown_ignored() {
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

#[test]
fn transport_policy_has_a_json_form() {
    for (name, policy) in [
        (None, TransportPolicy::V3Only),
        (Some("V3"), TransportPolicy::V3Only),
        (Some("V2"), TransportPolicy::V2Only),
        (Some("AUTO"), TransportPolicy::Auto),
    ] {
        let mut one = server("one:1");
        if let Some(name) = name {
            one["transport_api_version"] = json!(name);
        }
        let bootstrap = read(&with("xds_servers", json!([one, server("two:2")]))).unwrap();
        let [one, two] = bootstrap.servers() else {
            panic!("two servers")
        };
        assert_eq!(one.transport, policy, "{name:?}");
        assert_eq!(two.transport, TransportPolicy::V3Only, "of its own");
        assert_eq!(
            Bootstrap::from_json(&bootstrap.to_json()).unwrap(),
            bootstrap
        );
    }
    for (value, rule) in [
        (
            json!("v3"),
            r#"transport_api_version: "v3" is unknown, expected one of "V3", "V2", "AUTO""#,
        ),
        (json!(3), "transport_api_version: must be a string"),
    ] {
        let mut one = server("one:1");
        one["transport_api_version"] = value;
        let error = read(&with("xds_servers", json!([one])))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("xds_servers[0].{rule}")), "{error}");
    }
}

/// Given the default policy, then v3 is used whatever the server says; the previous major needs the configuration or a
/// flag.
#[test]
fn v48_previous_major_is_used_only_if_asked_for() {
    use oxds_types::ApiVersion::{V2, V3};
    use oxds_types::identity::{Major, Majors};
    let current: Majors = [Major::V3].into_iter().collect();
    let both: Majors = [Major::V2, Major::V3].into_iter().collect();
    for (policy, version, is_allowed) in [
        (None, V3, true),
        (Some("V3"), V3, true),
        // Asked for by the configuration of this server.
        (Some("V2"), V2, true),
        // A choice that would end at the previous major silently.
        (Some("AUTO"), V2, false),
    ] {
        let mut one = server("one:1");
        if let Some(policy) = policy {
            one["transport_api_version"] = json!(policy);
        }
        let bootstrap = read(&with("xds_servers", json!([server("zero:0"), one]))).unwrap();
        assert_eq!(bootstrap.servers()[1].version(), version, "{policy:?}");
        assert_eq!(
            bootstrap.check_majors(&current).is_ok(),
            is_allowed,
            "{policy:?}"
        );
        assert_eq!(bootstrap.check_majors(&both), Ok(()), "{policy:?}");
    }
}

#[test]
fn v49_no_common_major_names_server_and_both_sets() {
    use oxds_types::identity::{Major, Majors};
    let mut own = server("own:1");
    own["transport_api_version"] = json!("AUTO");
    own["server_features"] = json!(["xds_v4", { "xds_v3": true }, 3, null, "other"]);
    let mut json = minimal();
    json["authorities"] = json!({ "a": { "xds_servers": [own] } });
    let current: Majors = [Major::V3].into_iter().collect();
    let error = read(&json).unwrap().check_majors(&current).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bootstrap: authorities.a.xds_servers[0].server_features: no common API version: the client allows v3; the server supports v2"
    );
}
