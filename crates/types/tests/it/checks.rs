//! S-71: files are parsed and validated, `Any` messages included. Unknown fields are errors, deprecated fields are
//! warnings.

use std::path::Path;

use oxds_types::codec::{Format, Options, decode};
use oxds_types::error::Reason;
use oxds_types::{Position, validate};
use prost_reflect::DynamicMessage;

use crate::{lines, load, yaml, yaml_errors};

const ASSIGNMENT: &str = "\
'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: shop
endpoints:
- lb_endpoints:
  - endpoint:
      address:
        socket_address: { address: 127.0.0.1, port_value: 8080 }
";

#[test]
fn s71_broken_rule_has_position_path_rule_and_value() {
    let text = ASSIGNMENT.replace("8080", "99999");
    let errors = load(Format::Yaml, &text).unwrap_err();
    assert_eq!(errors.len(), 1);
    let error = &errors[0];
    assert_eq!(
        error.position,
        Some(Position {
            line: 7,
            column: 47
        })
    );
    assert_eq!(error.resource.as_deref(), Some("shop"));
    let path = "endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value";
    assert_eq!(error.path, path);
    let (rule, value) = ("uint32.lte = 65535".to_owned(), "99999".to_owned());
    assert_eq!(error.reason, Reason::Rule { rule, value });
    assert_eq!(
        error.to_string(),
        format!("test:7:47: error: {path}: uint32.lte = 65535 does not hold, value is 99999"),
    );
    assert_eq!(
        error.snippet().unwrap(),
        concat!(
            "    5 |   - endpoint:\n",
            "    6 |       address:\n",
            "    7 |         socket_address: { address: 127.0.0.1, port_value: 99999 }\n",
            "      |                                               ^\n",
        ),
    );
}

/// Given an invalid resource with an `xdstp` name in another spelling, then its error has the name under which clients
/// ask for it (S-73).
#[test]
fn s73_errors_have_the_canonical_name() {
    let text = ASSIGNMENT.replace("8080", "99999").replace(
        "cluster_name: shop",
        "cluster_name: 'xdstp://a/T/%78?b=2&a=1'",
    );
    let errors = load(Format::Yaml, &text).unwrap_err();
    assert_eq!(errors[0].resource.as_deref(), Some("xdstp://a/T/x?a=1&b=2"));
}

#[test]
fn s71_all_unknown_fields_are_errors_with_path() {
    let text = "\
---
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
conect_timeout: 1s
load_assignment:
  cluster_name: shop
  endpoints:
  - lb_endpoint: []
";
    assert_eq!(
        yaml_errors(text),
        "test:4:1: error: conect_timeout: unknown field `conect_timeout` in envoy.config.cluster.v3.Cluster\n\
         test:8:5: error: load_assignment.endpoints[0].lb_endpoint: unknown field `lb_endpoint` in envoy.config.endpoint.v3.LocalityLbEndpoints\n",
    );
}

#[test]
fn s71_unknown_fields_are_accepted_if_allowed() {
    let text = ASSIGNMENT.to_owned() + "not_yet_invented: { a: [1, 2] }\n";
    let mut options = Options::default();
    options.allow_unknown_fields = true;
    let file = Path::new("test");
    let loaded = decode(file, Format::Yaml, text.as_bytes(), &options).unwrap();
    assert_eq!(loaded[0].version, yaml(ASSIGNMENT)[0].version);
}

#[test]
fn s71_unknown_binary_fields_are_errors_with_number() {
    // ClusterLoadAssignment { cluster_name: "shop", 1234: 1 } in an `Any`.
    let body = b"\x0a\x04shop\x90\x4d\x01";
    let url = b"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
    let mut any = vec![0x0a, url.len() as u8];
    any.extend_from_slice(url);
    any.extend_from_slice(&[0x12, body.len() as u8]);
    any.extend_from_slice(body);
    let file = Path::new("x.pb");
    let errors = decode(file, Format::Binary, &any, &Options::default()).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "x.pb: error: 1234: unknown field `1234` in envoy.config.endpoint.v3.ClusterLoadAssignment",
    );
    let mut options = Options::default();
    options.allow_unknown_fields = true;
    let loaded = decode(file, Format::Binary, &any, &options).unwrap();
    assert_eq!(loaded[0].any.value.as_ref(), body, "binary bodies are kept");
}

const LISTENER: &str = "\
'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: web
address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
filter_chains:
- filters:
  - name: hcm
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: web
      route_config:
        virtual_hosts:
        - name: all
          domains: ['*']
          routes:
          - match: { prefix: / }
            route: { cluster: shop }
";

#[test]
fn s71_rules_apply_inside_any() {
    assert_eq!(yaml(LISTENER).len(), 1);
    let text = LISTENER.replace("domains: ['*']", "domains: []");
    assert_eq!(
        yaml_errors(&text),
        "test:13:11: error: filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].domains: \
         repeated.min_items = 1 does not hold, value is 0 items\n",
    );
}

#[test]
fn s71_unknown_field_before_type_in_any_is_an_error() {
    let text = LISTENER
        .replace("      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n", "")
        + "      statprefix: x\n"
        + "      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n";
    let errors = yaml_errors(&text);
    assert!(
        errors.starts_with(
            "test:16:7: error: filter_chains[0].filters[0].typed_config.statprefix: unknown field"
        ),
        "{errors}",
    );
    let good = text.replace("      statprefix: x\n", "");
    assert_eq!(yaml(&good)[0].version, yaml(LISTENER)[0].version);
}

#[test]
fn s71_required_oneof_must_be_set() {
    let text = LISTENER.replace("match: { prefix: / }", "match: {}");
    let errors = yaml_errors(&text);
    let path =
        "filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0].match";
    assert_eq!(
        errors,
        format!("test:15:13: error: {path}: oneof.required = path_specifier does not hold\n")
    );
}

#[test]
fn s71_value_of_wrong_type_is_an_error_with_path() {
    let text = ASSIGNMENT.replace("8080", "eighty");
    let path = "endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value";
    assert_eq!(
        yaml_errors(&text),
        format!("test:7:47: error: {path}: \"eighty\": expected an unsigned 32-bit integer\n"),
    );
}

/// Given values that are of no form of their field / when they are read from YAML and JSON / then the errors name the
/// field and what it expects.
#[test]
fn s71_value_of_wrong_form_names_field_and_what_fits() {
    let seconds = "expected a duration in seconds, such as 1.5s";
    let time = "expected a time, such as 2006-01-02T15:04:05Z";
    let typed = "expected an object with `@type`";
    let socket = "expected the fields of envoy.config.core.v3.TransportSocket";
    let today = r#"{"x": {"@type": "/google.protobuf.Timestamp", "value": "today"}}"#;
    let today = format!(r#"{{"typed_filter_metadata": {today}}}"#);
    for (field, value, found, expected) in [
        ("connect_timeout", r#""5x""#, r#""5x":"#, seconds),
        ("connect_timeout", r#""1 day""#, r#""1 day":"#, seconds),
        ("connect_timeout", r#""9e9s""#, r#""9e9s":"#, seconds),
        ("connect_timeout", "5", "integer `5`,", seconds),
        ("connect_timeout", "[5]", "sequence,", seconds),
        ("transport_socket", "7", "integer `7`,", socket),
        (
            "typed_extension_protocol_options",
            "7",
            "integer `7`,",
            "expected a map",
        ),
        ("filters", "{}", "map,", "expected a list"),
        (
            "cluster_type",
            r#"{"typed_config": 3}"#,
            "integer `3`,",
            typed,
        ),
        ("metadata", &today, r#""today":"#, time),
    ] {
        let url = "/envoy.config.cluster.v3.Cluster";
        let text = format!("{{\"@type\": \"{url}\", \"name\": \"a\",\n\"{field}\": {value}}}");
        for format in [Format::Yaml, Format::Json] {
            let errors = lines(&load(format, &text).unwrap_err());
            let (position, rest) = errors.split_once(": error: ").unwrap();
            assert!(position.starts_with("test:2:"), "{format:?} {errors}");
            assert!(rest.starts_with(field), "{format:?} {errors}");
            let reason = format!("{found} {expected}\n");
            assert!(rest.ends_with(&reason), "{format:?} {errors}");
        }
    }
}

#[test]
fn s71_unknown_enum_value_error_lists_known_values() {
    let text = "\
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
type: ESD
";
    assert_eq!(
        yaml_errors(text),
        "test:3:1: error: type: \"ESD\": expected one of STATIC, STRICT_DNS, LOGICAL_DNS, EDS, ORIGINAL_DST\n",
    );
}

#[test]
fn s71_deprecated_fields_are_warnings() {
    let text = "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: one
  type: STATIC
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: two
  type: STATIC
  http2_protocol_options: {}
";
    let loaded = yaml(text);
    assert_eq!(loaded[0].warnings, []);
    let warnings: Vec<String> = loaded[1].warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "test:7:3: warning: [1].http2_protocol_options: deprecated field \
             envoy.config.cluster.v3.Cluster.http2_protocol_options: use \
             envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig.http2_protocol_options"
        ]
    );
    assert_eq!(loaded[1].warnings[0].resource.as_deref(), Some("two"));
}

#[test]
fn s71_unknown_type_in_nested_any_is_an_error() {
    let text = LISTENER.replace("v3.HttpConnectionManager", "v9.HttpConnectionManager");
    assert!(
        yaml_errors(&text).starts_with(
            "test:7:5: error: filter_chains[0].filters[0].typed_config: unknown message type `type.googleapis.com/"
        ),
        "{}",
        yaml_errors(&text),
    );
}

#[test]
fn s71_syntax_errors_have_line_and_column() {
    for (format, text, place) in [
        (Format::Yaml, "a: [1, 2\nb: 3\n", "test:"),
        (Format::Yaml, "---\n# one\n---\na: b\nx: y: z\n", "test:5:"),
        (
            Format::Json,
            "{\n  \"@type\": oops\n}",
            "test:2:12: error: ",
        ),
        (
            Format::Text,
            "resources {\n  type_url: 7\n}",
            "test:2:13: error: ",
        ),
    ] {
        let errors = load(format, text).unwrap_err();
        assert!(
            errors[0].to_string().starts_with(place),
            "{format:?}: {}",
            errors[0]
        );
        assert!(errors[0].snippet().is_some());
    }
}

#[test]
fn s71_duplicate_field_is_an_error_for_both_names() {
    let json = r#"{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": "a", "connectTimeout": "1s", "connect_timeout": "2s"}"#;
    let errors = load(Format::Json, json).unwrap_err();
    assert_eq!(
        errors[0].reason,
        Reason::Value("duplicate field".to_owned())
    );
    assert_eq!(errors[0].path, "connect_timeout");
    let yaml = yaml_errors(
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\nname: b\n",
    );
    assert!(yaml.contains("name"), "{yaml}");
}

#[test]
fn s71_any_of_well_known_type_has_key_value() {
    let text = LISTENER.replace("'@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "'@type': type.googleapis.com/google.protobuf.Struct\n      value: { a: 1 }");
    let text = &text[..text.find("      stat_prefix").unwrap()];
    assert_eq!(yaml(text).len(), 1);
}

#[test]
fn s71_messages_are_validated_without_a_file() {
    let descriptor = oxds_types::descriptor::message("envoy.config.core.v3.SocketAddress").unwrap();
    let violations = validate::validate(&DynamicMessage::new(descriptor));
    let paths: Vec<&str> = violations.iter().map(|v| v.path.as_str()).collect();
    assert_eq!(paths, ["", "address"], "{violations:?}");
}
