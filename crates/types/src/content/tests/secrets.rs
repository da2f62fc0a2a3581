//! Secrets are hidden, and differ.

use super::*;

/// Given two clusters that differ only in secrets, then each is named by its path, and no value is shown.
#[test]
fn s78_secrets_differ_and_are_not_shown() {
    let cluster = |secret: &str| {
        resource(
            "envoy.config.cluster.v3.Cluster",
            &format!(
                "name: a
transport_socket:
  name: tls
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificates:
      - private_key: {{inline_string: {secret}}}
        certificate_chain: {{inline_string: public}}
metadata:
  filter_metadata:
    app: {{password: {secret}}}"
            ),
        )
    };
    let (old, new) = (cluster("HUSH1"), cluster("HUSH2"));
    assert!(!shown(&old).contains("HUSH"), "{}", shown(&old));
    assert!(!format!("{old:?}").contains("HUSH"));
    assert!(shown(&old).contains("public"));
    let found = lines(&old, &new);
    assert_eq!(
        found,
        [
            r#"~ transport_socket.common_tls_context.tls_certificates[0].private_key.inline_string: "(not shown)" -> "(not shown)""#,
            r#"~ metadata.filter_metadata["app"]["password"]: "(not shown)" -> "(not shown)""#,
        ]
        .map(|line| line.replace("transport_socket.common", "transport_socket.typed_config.common"))
    );
}

#[test]
fn s78_content_of_a_secret_is_hidden_but_its_name() {
    let secret = resource(
        "envoy.extensions.transport_sockets.tls.v3.Secret",
        "name: key\ngeneric_secret: {secret: {filename: /run/HUSH}}",
    );
    assert_eq!(
        shown(&secret),
        format!(
            r#"{{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret","name":"key","generic_secret":{{"secret":{{"filename":"{HIDDEN}"}}}}}}"#
        )
    );
    // Marked by the API (`udpa.annotations.sensitive`), and named by no word of the list.
    let marked = resource(
        "envoy.config.listener.v3.Listener",
        "name: l
filter_chains:
- filters:
  - name: redis
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
      stat_prefix: r
      settings: {op_timeout: 1s}
      downstream_auth_username: {inline_string: HUSH}
      downstream_auth_password: {filename: /run/public}",
    );
    assert!(shown(&marked).contains("/run/public"), "{}", shown(&marked));
    assert!(shown(&marked).contains(HIDDEN), "{}", shown(&marked));
    assert!(!shown(&marked).contains("HUSH"), "{}", shown(&marked));
}

/// Given secrets of each sort in messages with descriptors, then they are hidden, and what is beside them is shown.
#[test]
fn s78_secrets_of_each_sort_are_hidden() {
    const TLS: &str = "envoy.extensions.transport_sockets.tls.v3";
    const FILTERS: &str = "envoy.extensions.filters.http";
    let cases = [
        (
            format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context: {tls_certificates: [{private_key: {inline_bytes: SFVTSA==}, certificate_chain: {inline_string: PUBLIC}}]}",
        ),
        (
            format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context: {tls_certificates: [{private_key: {filename: PUBLIC}, password: {inline_string: HUSH}}]}",
        ),
        (
            format!("{TLS}.DownstreamTlsContext"),
            "{session_ticket_keys: {keys: [{inline_string: HUSH}]}, common_tls_context: {alpn_protocols: [PUBLIC]}}",
        ),
        (
            format!("{FILTERS}.ext_authz.v3.ExtAuthzPerRoute"),
            "check_settings: {context_extensions: {PUBLIC: HUSH}}",
        ),
        (
            format!("{FILTERS}.api_key_auth.v3.ApiKeyAuthPerRoute"),
            "{credentials: [{key: HUSH, client: HUSH}], allowed_clients: [PUBLIC]}",
        ),
        (
            format!("{FILTERS}.basic_auth.v3.BasicAuth"),
            "{users: {inline_string: HUSH}, forward_username_header: PUBLIC}",
        ),
        (
            "envoy.config.core.v3.GrpcService".to_owned(),
            "{google_grpc: {target_uri: PUBLIC, stat_prefix: s, call_credentials: [{access_token: HUSH}]}, initial_metadata: [{key: x-api-key, value: HUSH}]}",
        ),
        (
            "envoy.config.core.v3.Metadata".to_owned(),
            "filter_metadata: {PUBLIC: {accessToken: HUSH, credentials: {id: HUSH, of: [HUSH]}}}",
        ),
        (
            format!("{FILTERS}.local_ratelimit.v3.LocalRateLimit"),
            "{stat_prefix: PUBLIC, token_bucket: {max_tokens: 7, fill_interval: 1s}, request_headers_to_add_when_not_enforced: [{header: {key: cookie, value: HUSH}}]}",
        ),
    ];
    for (message, yaml) in cases {
        let cluster = |settings: &str| {
            let settings = settings
                .strip_prefix('{')
                .and_then(|s| s.strip_suffix('}'))
                .filter(|_| settings.starts_with('{'))
                .unwrap_or(settings);
            resource(
                "envoy.config.cluster.v3.Cluster",
                &format!(
                    "name: a\ntyped_extension_protocol_options:\n  credentials: {{'@type': type.googleapis.com/{message}, {settings}}}"
                ),
            )
        };
        let shown = shown(&cluster(yaml));
        assert!(
            !shown.contains("HUSH") && !shown.contains("SFVTSA"),
            "{shown}"
        );
        assert!(
            shown.contains("PUBLIC") && shown.contains(HIDDEN),
            "{shown}"
        );
        assert!(shown.contains(&message), "{shown}");
        assert_eq!(
            yaml.contains("max_tokens"),
            shown.contains("\"max_tokens\":7"),
            "{shown}"
        );
    }
}

#[test]
fn s78_inline_data_and_headers_with_secrets_are_hidden() {
    let read = |value: &Value| {
        let mut content = from_json(value.clone());
        hide_secrets(&mut content, "");
        shown(&content)
    };
    for value in [
        json!({"tls_certificates": [{"private_key": {"inline_string": "HUSH"}}]}),
        json!({"session_ticket_keys": {"keys": [{"inline_bytes": "HUSH"}]}}),
        json!({"password": "HUSH"}),
        json!({"auth_password": {"inline_string": "HUSH"}}),
        json!({"request_headers_to_add": [{"header": {"key": "Authorization", "value": "HUSH"}}]}),
        json!({"header": {"value": "HUSH", "key": "x-api-key"}}),
        json!({"headers": [{"name": "authorization", "string_match": {"exact": "HUSH"}}]}),
        json!({"users": {"inline_string": "HUSH"}}),
        json!({"credentials": [{"access_token": "HUSH"}]}),
        json!({"apiKey": "HUSH"}),
        json!({"private-key": {"pem": ["HUSH"]}}),
        json!({"tokens": ["HUSH"]}),
        json!({"Set-Cookie": "HUSH"}),
        json!({"password": "HUSH", "pin": {"passphrase": 4711}}),
    ] {
        let shown = read(&value);
        let hides = !shown.contains("HUSH") && !shown.contains("4711");
        assert!(hides && shown.contains(HIDDEN), "{shown}");
    }
    let public = json!({
        "direct_response": {"body": {"inline_string": "hello"}},
        "header": {"key": "x-team", "value": "shop"},
        "name": "token-service",
        "list": [1, -2, 0.5, true, null],
    });
    assert_eq!(read(&public), public.to_string());
}
