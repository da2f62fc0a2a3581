//! C-1 – C-4, C-35, C-36, C-48, C-62, C-143: environment variables.

use oxds_core::ads::NameSyntax;
use serde_json::json;

use super::{environment, minimal, server, with};
use crate::bootstrap::environment::{CONFIG_VARIABLE, FILE_VARIABLE};
use crate::bootstrap::*;

#[test]
fn c1_file_variable_wins_over_config_variable() {
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
fn c2_unreadable_file_is_error_with_its_path() {
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
fn c3_missing_variables_error_names_both() {
    let error = environment(&[]).unwrap_err();
    assert_eq!(error, BootstrapError::Missing);
    let text = error.to_string();
    assert!(
        text.contains(FILE_VARIABLE) && text.contains(CONFIG_VARIABLE),
        "{text}"
    );
}

#[tokio::test]
async fn c4_pools_have_separate_bootstraps() {
    let pool = |uri: &str| crate::ClientPool::new(Bootstrap::builder(uri).build().unwrap());
    let (one, two) = (pool("one:1"), pool("two:2"));
    assert_eq!(one.client("xds:///a").bootstrap().servers()[0].uri, "one:1");
    assert_eq!(two.client("xds:///a").bootstrap().servers()[0].uri, "two:2");
}

#[test]
fn c35_fallback_off_keeps_first_server_of_each_list() {
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
fn c48_federation_off_ignores_authorities() {
    // The invalid list would be an error if it were read.
    let json = with("authorities", json!([])).to_string();
    let read = |value| {
        environment(&[
            (CONFIG_VARIABLE, &json),
            ("GRPC_EXPERIMENTAL_XDS_FEDERATION", value),
        ])
    };
    let bootstrap = read("false").unwrap();
    assert!(bootstrap.authorities().is_empty());
    assert_eq!(bootstrap.names, NameSyntax::Opaque);
    assert!(read("true").is_err());
    let json = minimal().to_string();
    let unset = environment(&[(CONFIG_VARIABLE, &json)]).unwrap();
    assert_eq!(unset.names, NameSyntax::Federated);
}

#[test]
fn c143_environment_selects_metrics_rule_before_a85() {
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
fn c62_v3_support_variable_is_ignored() {
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
fn c36_reachability_only_is_unknown_field_by_default() {
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

/// Given a runtime with the names of gRPC's variables as keys, then its last layer decides, and the environment does
/// not count.
#[test]
fn v47_features_of_grpc_are_runtime_keys() {
    use oxds_types::runtime::{Layer, Snapshot, Source};
    let key = "GRPC_EXPERIMENTAL_XDS_FALLBACK";
    let json = with("xds_servers", json!([server("one:1"), server("two:2")])).to_string();
    let servers = |layers| {
        let runtime = Snapshot::from_layers(layers);
        Bootstrap::from_json_in(&json, &runtime)
            .unwrap()
            .servers()
            .len()
    };
    let environment = || {
        let variable = [(key.into(), "false".into())];
        Layer::environment(variable.into_iter())
    };
    let override_it = Layer::new("operator", Source::CommandLine);
    let override_it = override_it.with(key, true).unwrap();
    assert_eq!(servers(vec![environment()]), 1);
    assert_eq!(servers(vec![environment(), override_it]), 2);
    assert_eq!(servers(vec![]), 2);
    let on = Layer::new("operator", Source::CommandLine);
    let on = on
        .with("GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING", true)
        .unwrap();
    let options = crate::Options::in_runtime(&Snapshot::from_layers(vec![on]));
    assert!(options.data_error_handling);
}
