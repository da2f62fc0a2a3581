//! C-14 – C-17, C-26, C-27, C-34, C-36: `channel_creds`, `call_creds` and certificate providers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{environment, error, minimal, read, with};
use crate::bootstrap::environment::CONFIG_VARIABLE;
use crate::bootstrap::*;
use crate::credentials::{CallCredentials, CallError, Configured, Insecure, Pending, Trust};

const CALL_VARIABLE: &str = "GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS";

/// Bootstrap of one server with these fields.
fn server(fields: &Value) -> Value {
    let mut json = minimal();
    for (name, value) in fields.as_object().unwrap() {
        json["xds_servers"][0][name] = value.clone();
    }
    json
}

fn channel(creds: &Value) -> Value {
    server(&json!({ "channel_creds": creds }))
}

/// Reads a bootstrap while a variable is `TRUE`.
fn switched_on(variable: &str, json: &Value) -> Result<Bootstrap, BootstrapError> {
    environment(&[(CONFIG_VARIABLE, &json.to_string()), (variable, "TRUE")])
}

#[test]
fn c15_google_default_is_unknown_unless_registered() {
    let json = channel(&json!([{ "type": "google_default" }, { "type": "insecure" }]));
    let bootstrap = read(&json).unwrap();
    assert_eq!(bootstrap.servers()[0].credentials.type_name(), "insecure");
    let types = CredentialTypes::default().with("google_default", |_| Ok(Arc::new(Insecure)));
    let bootstrap = Bootstrap::from_json_with(&json.to_string(), &types).unwrap();
    assert_eq!(
        bootstrap.servers()[0].credentials.type_name(),
        "google_default"
    );
}

#[test]
fn c16_tls_is_known_and_reads_no_file_yet() {
    let config = json!({ "ca_certificate_file": "/does/not/exist" });
    for creds in [
        json!([{ "type": "tls" }]),
        json!([{ "type": "tls", "config": config }, { "type": "insecure" }]),
    ] {
        let bootstrap = read(&channel(&creds)).unwrap();
        let server = &bootstrap.servers()[0];
        assert_eq!(server.credentials.type_name(), "tls");
        assert!(server.credentials.is_private());
        assert_eq!(
            Bootstrap::from_json(&bootstrap.to_json()).unwrap(),
            bootstrap
        );
    }
}

#[test]
fn c17_certificate_without_key_error_names_field() {
    let creds =
        json!([{ "type": "tls", "config": { "certificate_file": "c" } }, { "type": "insecure" }]);
    assert_eq!(
        error(&channel(&creds)),
        "bootstrap: xds_servers[0].channel_creds[0].config: private_key_file: must be set, as certificate_file is"
    );
}

#[test]
fn c46_servers_with_other_credentials_differ() {
    let of = |config: Value| {
        let bootstrap = read(&channel(&json!([{ "type": "tls", "config": config }]))).unwrap();
        bootstrap.servers()[0].clone()
    };
    assert_eq!(
        of(json!({ "ca_certificate_file": "a" })),
        of(json!({ "ca_certificate_file": "a" }))
    );
    assert_ne!(
        of(json!({ "ca_certificate_file": "a" })),
        of(json!({ "ca_certificate_file": "b" }))
    );
}

#[test]
fn c26_unknown_certificate_provider_is_skipped() {
    let bootstrap = read(&with(
        "certificate_providers",
        json!({
            "unknown": { "plugin_name": "vault", "config": 7 },
            "known": { "plugin_name": "file_watcher", "config": { "ca_certificate_file": "ca.pem" } },
        }),
    ))
    .unwrap();
    let providers = bootstrap.certificate_providers();
    assert_eq!(providers.keys().collect::<Vec<_>>(), ["known"]);
    assert_eq!(
        providers["known"].files().map(|files| files.trust),
        Some(Trust::Authorities("ca.pem".into()))
    );
    assert_eq!(
        Bootstrap::from_json(&bootstrap.to_json()).unwrap(),
        bootstrap
    );
}

#[test]
fn c26_c27_invalid_known_certificate_provider_is_error() {
    for (provider, fault) in [
        (
            json!({}),
            "certificate_providers.a.plugin_name: must be set",
        ),
        (json!([]), "certificate_providers.a: must be an object"),
        (
            json!({ "plugin_name": "file_watcher" }),
            "certificate_providers.a.config: must have certificate_file, ",
        ),
        (
            json!({ "plugin_name": "file_watcher", "config": { "certificate_file": "c" } }),
            "certificate_providers.a.config: private_key_file: must be set",
        ),
        (
            json!({ "plugin_name": "file_watcher", "config": { "private_key_file": "k", "ca_certificate_file": "a" } }),
            "certificate_providers.a.config: certificate_file: must be set",
        ),
    ] {
        let error = error(&with("certificate_providers", json!({ "a": provider })));
        assert!(error.starts_with(&format!("bootstrap: {fault}")), "{error}");
    }
}

#[derive(Debug)]
struct Named;

impl CallCredentials for Named {
    fn headers(&self) -> Pending<'_, Result<http::HeaderMap, CallError>> {
        Box::pin(async { Ok(http::HeaderMap::new()) })
    }
}

#[test]
fn c34_all_known_call_credentials_apply() {
    let types = CredentialTypes::default()
        .with_jwt_token_file()
        .with_call("named", |_| Ok(Arc::new(Named)));
    let json = server(&json!({ "call_creds": [
        { "type": "unknown", "config": 7 },
        { "type": "named" },
        { "type": "jwt_token_file", "config": { "jwt_token_file": "/token" } },
        { "type": "insecure" },
    ] }));
    let bootstrap = Bootstrap::from_json_with(&json.to_string(), &types).unwrap();
    let applied = bootstrap.servers()[0].call_credentials.iter();
    let applied: Vec<_> = applied.map(Configured::type_name).collect();
    assert_eq!(applied, ["named", "jwt_token_file"]);
    assert_eq!(
        Bootstrap::from_json_with(&bootstrap.to_json(), &types).unwrap(),
        bootstrap
    );
}

#[test]
fn c34_invalid_call_credentials_config_is_error() {
    for config in [
        json!(null),
        json!({}),
        json!({ "jwt_token_file": "" }),
        json!({ "jwt_token_file": 7 }),
        json!([]),
    ] {
        let creds = json!([{ "type": "jwt_token_file", "config": config }]);
        let error = switched_on(CALL_VARIABLE, &server(&json!({ "call_creds": creds })));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("xds_servers[0].call_creds[0].config: jwt_token_file: must be"),
            "{error}"
        );
    }
    for creds in [json!({}), json!([7]), json!([{}])] {
        let error = switched_on(CALL_VARIABLE, &server(&json!({ "call_creds": creds })));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("xds_servers[0].call_creds")
        );
    }
}

#[test]
fn c34_call_creds_is_unknown_field_by_default() {
    let json = server(
        &json!({ "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": "t" } }] }),
    );
    let applied = |bootstrap: Bootstrap| bootstrap.servers()[0].call_credentials.len();
    assert_eq!(applied(switched_on(CALL_VARIABLE, &json).unwrap()), 1);
    let text = json.to_string();
    assert_eq!(
        applied(environment(&[(CONFIG_VARIABLE, &text)]).unwrap()),
        0
    );
    assert_eq!(
        applied(environment(&[(CONFIG_VARIABLE, &text), (CALL_VARIABLE, "1")]).unwrap()),
        0
    );
    let wrong = server(&json!({ "call_creds": 7 })).to_string();
    assert_eq!(
        applied(environment(&[(CONFIG_VARIABLE, &wrong)]).unwrap()),
        0
    );
}

#[test]
fn c36_allowed_services_are_read_if_a_filter_is_on() {
    let good = with(
        "allowed_grpc_services",
        json!({
            "dns:///limits.example:443": { "channel_creds": [{ "type": "unknown" }, { "type": "tls" }] },
        }),
    );
    let bad = with(
        "allowed_grpc_services",
        json!({ "dns:///limits.example:443": {} }),
    );
    for variable in [
        "GRPC_EXPERIMENTAL_XDS_EXT_PROC_ON_CLIENT",
        "GRPC_EXPERIMENTAL_XDS_EXT_AUTHZ_ON_CLIENT",
    ] {
        let bootstrap = switched_on(variable, &good).unwrap();
        let service = &bootstrap.allowed_grpc_services()["dns:///limits.example:443"];
        assert_eq!(service.credentials.type_name(), "tls");
        assert_eq!(
            switched_on(
                variable,
                &serde_json::from_str(&bootstrap.to_json()).unwrap()
            )
            .unwrap(),
            bootstrap
        );
        let error = switched_on(variable, &bad).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "allowed_grpc_services.dns:///limits.example:443.channel_creds: must be set"
            ),
            "{error}"
        );
    }
    for json in [good, bad, with("allowed_grpc_services", json!(7))] {
        assert!(read(&json).unwrap().allowed_grpc_services().is_empty());
    }
}
