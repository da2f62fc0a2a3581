//! C-1 – C-14, C-19 – C-25, C-28 – C-35: what a bootstrap may say.

use std::sync::Arc;

use envoy_types::pb::google::protobuf::value::Kind;
use serde_json::json;

use super::source::{CONFIG_VARIABLE, FILE_VARIABLE, from_variables};
use super::*;
use crate::credentials::Insecure;
use crate::transport::Place;

fn server(uri: &str) -> serde_json::Value {
    json!({ "server_uri": uri, "channel_creds": [{ "type": "insecure" }] })
}

pub(super) fn minimal() -> serde_json::Value {
    json!({ "xds_servers": [server("cp:1")] })
}

pub(super) fn with(field: &str, value: serde_json::Value) -> serde_json::Value {
    let mut whole = minimal();
    whole[field] = value;
    whole
}

pub(super) fn read(json: &serde_json::Value) -> Result<Bootstrap, BootstrapError> {
    Bootstrap::from_json(&json.to_string())
}

pub(super) fn error(json: &serde_json::Value) -> String {
    read(json).unwrap_err().to_string()
}

/// Reads with these variables and no others.
pub(super) fn environment(variables: &[(&str, &str)]) -> Result<Bootstrap, BootstrapError> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).into())
    };
    from_variables(variable, None)
}

#[test]
fn c1_the_file_is_used_and_the_inline_variable_not_looked_at() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        json!({ "xds_servers": [server("file:1")] }).to_string(),
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    let bootstrap =
        environment(&[(FILE_VARIABLE, path), (CONFIG_VARIABLE, "not even JSON")]).unwrap();
    assert_eq!(bootstrap.servers()[0].uri, "file:1");
    let inline = json!({ "xds_servers": [server("inline:1")] }).to_string();
    let bootstrap = environment(&[(CONFIG_VARIABLE, &inline)]).unwrap();
    assert_eq!(bootstrap.servers()[0].uri, "inline:1");
}

#[test]
fn c2_an_unreadable_file_is_an_error_that_names_it() {
    let inline = minimal().to_string();
    let variables = [
        (FILE_VARIABLE, "/does/not/exist.json"),
        (CONFIG_VARIABLE, inline.as_str()),
    ];
    let error = environment(&variables).unwrap_err().to_string();
    assert!(
        error.contains("/does/not/exist.json") && error.contains(FILE_VARIABLE),
        "{error}"
    );
}

#[test]
fn c3_without_either_variable_the_error_names_both() {
    let error = environment(&[]).unwrap_err();
    assert_eq!(error, BootstrapError::Missing);
    let text = error.to_string();
    assert!(
        text.contains(FILE_VARIABLE) && text.contains(CONFIG_VARIABLE),
        "{text}"
    );
}

#[tokio::test]
async fn c4_pools_with_different_bootstraps_live_side_by_side() {
    let pool = |uri: &str| crate::ClientPool::new(Bootstrap::builder(uri).build().unwrap());
    let (one, two) = (pool("one:1"), pool("two:2"));
    assert_eq!(one.client("xds:///a").bootstrap().servers()[0].uri, "one:1");
    assert_eq!(two.client("xds:///a").bootstrap().servers()[0].uri, "two:2");
}

#[test]
fn c6_what_is_wrong_is_named_by_line_or_field() {
    let syntax = Bootstrap::from_json("{\n  \"xds_servers\": [,]\n}")
        .unwrap_err()
        .to_string();
    assert!(syntax.starts_with("bootstrap:2:19: "), "{syntax}");
    for (json, path) in [
        (json!([]), "the whole"),
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
fn c6_an_empty_file_is_an_error_at_its_start() {
    let error = Bootstrap::from_json("").unwrap_err();
    let BootstrapError::Syntax { line, column, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((line, column), (1, 1));
}

#[test]
fn c7_unknown_keys_are_ignored_everywhere() {
    let mut json = with("node", json!({ "id": "me", "later": 1 }));
    json["later"] = json!({});
    json["xds_servers"][0]["later"] = json!([]);
    json["authorities"] = json!({ "a": { "later": true } });
    read(&json).unwrap();
}

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

#[test]
fn c22_the_node_goes_out_as_it_was_written() {
    let node = json!({
        "id": "me", "cluster": "shop",
        "locality": { "region": "r", "zone": "z", "sub_zone": "s" },
        "metadata": { "null": null, "list": [1, "two", { "three": false }] },
    });
    let bootstrap = read(&with("node", node)).unwrap();
    let node = bootstrap.node();
    assert_eq!((node.id.as_str(), node.cluster.as_str()), ("me", "shop"));
    let locality = node.locality.as_ref().unwrap();
    assert_eq!(
        (&*locality.region, &*locality.zone, &*locality.sub_zone),
        ("r", "z", "s")
    );
    let metadata = &node.metadata.as_ref().unwrap().fields;
    assert_eq!(metadata["null"].kind, Some(Kind::NullValue(0)));
    let Some(Kind::ListValue(list)) = &metadata["list"].kind else {
        panic!("a list")
    };
    assert_eq!(list.values[0].kind, Some(Kind::NumberValue(1.0)));
    assert_eq!(
        list.values[1].kind,
        Some(Kind::StringValue("two".to_owned()))
    );
    let Some(Kind::StructValue(inner)) = &list.values[2].kind else {
        panic!("an object")
    };
    assert_eq!(inner.fields["three"].kind, Some(Kind::BoolValue(false)));
}

#[test]
fn c23_without_a_node_one_goes_out_that_says_what_the_client_is() {
    let bootstrap = read(&minimal()).unwrap();
    assert_eq!(bootstrap.node().id, "");
    assert_eq!(bootstrap.node().user_agent_name, "oxds");
}

#[test]
fn c24_a_file_does_not_speak_for_the_library() {
    let node = json!({ "id": "me", "user_agent_name": "other", "client_features": ["lie"], "build_version": "0" });
    let bootstrap = read(&with("node", node)).unwrap();
    assert_eq!(bootstrap.node().user_agent_name, "oxds");
    assert!(!bootstrap.node().client_features.contains(&"lie".to_owned()));
}

#[test]
fn c25_the_client_says_which_features_it_has() {
    let features = read(&minimal()).unwrap().node().client_features.clone();
    for feature in [
        "envoy.lb.does_not_support_overprovisioning",
        "xds.config.resource-in-sotw",
    ] {
        assert!(features.iter().any(|known| known == feature), "{feature}");
    }
}

#[test]
fn c28_c29_an_authority_has_its_own_servers_or_none() {
    let authorities = json!({ "a": {}, "b": { "xds_servers": [server("b:1")] } });
    let bootstrap = read(&with("authorities", authorities)).unwrap();
    assert!(bootstrap.authorities()["a"].servers.is_empty());
    assert_eq!(bootstrap.authorities()["b"].servers[0].uri, "b:1");
}

#[test]
fn c30_the_template_of_an_authority_names_it() {
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
fn c35_without_fallback_only_the_first_server_of_every_list_is_kept() {
    let mut json = with("xds_servers", json!([server("one:1"), server("two:2")]));
    json["authorities"] = json!({ "a": { "xds_servers": [server("three:3"), server("four:4")] } });
    let json = json.to_string();
    let variable = |fallback| {
        let mut variables = vec![(CONFIG_VARIABLE, json.as_str())];
        variables.extend(Option::map(fallback, |value| {
            ("GRPC_EXPERIMENTAL_XDS_FALLBACK", value)
        }));
        let bootstrap = environment(&variables).unwrap();
        (
            bootstrap.servers().len(),
            bootstrap.authorities()["a"].servers.len(),
        )
    };
    assert_eq!(variable(Some("False")), (1, 1));
    assert_eq!(variable(Some("junk")), (2, 2));
    assert_eq!(variable(None), (2, 2));
}

#[test]
fn c48_without_federation_there_are_no_authorities() {
    // Not even looked at: the list would be an error.
    let json = with("authorities", json!([])).to_string();
    let read = |value| {
        environment(&[
            (CONFIG_VARIABLE, &json),
            ("GRPC_EXPERIMENTAL_XDS_FEDERATION", value),
        ])
    };
    let bootstrap = read("false").unwrap();
    assert!(bootstrap.authorities().is_empty());
    assert_eq!(bootstrap.names, Names::Opaque);
    assert!(read("true").is_err());
    let json = minimal().to_string();
    let unset = environment(&[(CONFIG_VARIABLE, &json)]).unwrap();
    assert_eq!(unset.names, Names::Federated);
}

#[test]
fn c143_the_rule_before_a85_can_be_asked_for() {
    let json = minimal().to_string();
    for (value, expected) in [
        ("false", false),
        ("FALSE", false),
        ("true", true),
        ("", true),
    ] {
        let variables = [
            (CONFIG_VARIABLE, &*json),
            ("GRPC_EXPERIMENTAL_XDS_ORCA_LRS_PROPAGATION", value),
        ];
        let bootstrap = environment(&variables).unwrap();
        assert_eq!(bootstrap.listed_metrics, expected, "{value:?}");
    }
}

#[test]
fn c62_the_variable_that_once_allowed_v3_is_not_looked_at() {
    let json = minimal().to_string();
    let unset = environment(&[(CONFIG_VARIABLE, &json)]).unwrap();
    for value in ["true", "false", ""] {
        let variable = ("GRPC_XDS_EXPERIMENTAL_V3_SUPPORT", value);
        let set = environment(&[(CONFIG_VARIABLE, &json), variable]).unwrap();
        assert_eq!(set, unset);
        assert_eq!(set.servers()[0].version(), oxds_types::ApiVersion::V3);
    }
}

#[test]
fn c36_fallback_on_reachability_only_is_an_unknown_key_unless_turned_on() {
    let json = |value| {
        let mut json = with("xds_servers", json!([server("one:1")]));
        json["authorities"] = json!({ "a": { "fallback_on_reachability_only": value }, "b": {} });
        json.to_string()
    };
    let read = |json: &str, switch| {
        let switch = ("GRPC_EXPERIMENTAL_XDS_ENDPOINT_FALLBACK", switch);
        environment(&[(CONFIG_VARIABLE, json), switch])
    };
    let on = read(&json(json!(true)), "true").unwrap();
    assert!(on.authorities()["a"].fallback_on_reachability_only);
    assert!(!on.authorities()["b"].fallback_on_reachability_only);
    let off = read(&json(json!(true)), "").unwrap();
    assert!(!off.authorities()["a"].fallback_on_reachability_only);
    let error = read(&json(json!("yes")), "TRUE").unwrap_err().to_string();
    let path = "authorities.a.fallback_on_reachability_only";
    assert!(error.contains(path), "{error}");
    assert!(read(&json(json!("yes")), "no").is_ok(), "not looked at");
}

#[test]
fn a_bootstrap_that_is_written_reads_back_the_same() {
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
fn a_builder_makes_what_a_file_would_say() {
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
fn c33_a_server_needs_a_template_when_it_starts_and_not_before() {
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
