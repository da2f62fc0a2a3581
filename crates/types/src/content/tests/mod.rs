//! Tests of contents: secrets are hidden, and comparisons are complete.

mod property;
mod secrets;

use std::path::Path;

use serde_json::{Value, json};

use super::key::keys;
use super::node::{Content, Entry};
use super::read::from_json;
use super::secret::hide_secrets;
use super::{FieldChange, ValueChange, compare, read};
use crate::codec::{self, Format, Options, canonical};
use crate::discovery::Any;
use crate::generator::Generator;
use crate::path::Step;
use crate::schema;

const HIDDEN: &str = "(not shown)";

fn resource(message: &str, yaml: &str) -> Content {
    let text = format!("'@type': type.googleapis.com/{message}\n{yaml}\n");
    let loaded = codec::decode(
        Path::new("a.yaml"),
        Format::Yaml,
        text.as_bytes(),
        &Options::default(),
    );
    let any = loaded.expect("valid").remove(0).any;
    read(&any).expect("known")
}

fn routes(yaml: &str) -> Content {
    resource("envoy.config.route.v3.RouteConfiguration", yaml)
}

fn shown(content: &Content) -> String {
    serde_json::to_string(content).unwrap()
}

/// Returns the changes as lines: `path: old -> new`.
fn lines(old: &Content, new: &Content) -> Vec<String> {
    let line = |change: FieldChange| {
        let path = change.path();
        match change.change {
            ValueChange::Added(new) => format!("+ {path}: {}", shown(&new)),
            ValueChange::Removed(old) => format!("- {path}: {}", shown(&old)),
            ValueChange::Changed { old, new } => {
                format!("~ {path}: {} -> {}", shown(&old), shown(&new))
            }
            ValueChange::Order { new, .. } => format!("~ {path}: order {}", new.join(", ")),
        }
    };
    compare(old, new).into_iter().map(line).collect()
}

#[test]
fn fields_are_named_by_natural_keys() {
    let old = routes(
        "name: main
virtual_hosts:
- name: shop
  domains: [shop, shop.example]
  routes:
  - {match: {prefix: /a}, route: {cluster: a, timeout: 1s}}
  - {match: {prefix: /}, route: {cluster: b}}",
    );
    let new = routes(
        "name: main
virtual_hosts:
- name: shop
  domains: [shop, '*.shop.example']
  routes:
  - {match: {prefix: /new}, route: {cluster: c}}
  - {match: {prefix: /a}, route: {cluster: a2, timeout: 1.500s}}
  - {match: {prefix: /}, route: {cluster: b}}",
    );
    assert_eq!(
        lines(&old, &new),
        [
            r#"- virtual_hosts["shop"].domains["shop.example"]: "shop.example""#,
            r#"+ virtual_hosts["shop"].domains["*.shop.example"]: "*.shop.example""#,
            r#"~ virtual_hosts["shop"].routes["prefix: /a"].route.cluster: "a" -> "a2""#,
            r#"~ virtual_hosts["shop"].routes["prefix: /a"].route.timeout: "1s" -> "1.500s""#,
            r#"+ virtual_hosts["shop"].routes["prefix: /new"]: {"match":{"prefix":"/new"},"route":{"cluster":"c"}}"#,
            r#"~ virtual_hosts["shop"].routes: order prefix: /new, prefix: /a, prefix: /"#,
        ]
    );
}

#[test]
fn endpoints_are_paired_by_locality_and_address() {
    let endpoint = |port: u16| {
        format!(
            "{{endpoint: {{address: {{socket_address: {{address: 10.0.0.1, port_value: {port}}}}}}}}}"
        )
    };
    let assignment = |endpoints: &str| {
        resource(
            "envoy.config.endpoint.v3.ClusterLoadAssignment",
            &format!(
                "cluster_name: a\nendpoints:\n- locality: {{region: eu, zone: b}}\n  lb_endpoints: [{endpoints}]"
            ),
        )
    };
    let old = assignment(&[endpoint(80), endpoint(81)].join(", "));
    let heavy = endpoint(81).replacen('{', "{load_balancing_weight: 7, ", 1);
    let new = assignment(&[heavy, endpoint(82)].join(", "));
    let locality = r#"endpoints["region: eu, zone: b"].lb_endpoints"#;
    let found = lines(&old, &new);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[0].starts_with(&format!("- {locality}[\"10.0.0.1:80\"]: ")),
        "{found:#?}"
    );
    assert_eq!(
        found[1],
        format!("+ {locality}[\"10.0.0.1:81\"].load_balancing_weight: 7")
    );
    assert!(
        found[2].starts_with(&format!("+ {locality}[\"10.0.0.1:82\"]: ")),
        "{found:#?}"
    );
}

#[test]
fn content_of_an_any_is_compared_by_its_type() {
    let options = |settings: &str| {
        resource(
            "envoy.config.cluster.v3.Cluster",
            &format!(
                "name: a\ntyped_extension_protocol_options:\n  o: {{'@type': type.googleapis.com/{settings}}}"
            ),
        )
    };
    let of_http = |ip: &str| {
        options(&format!(
            "envoy.config.core.v3.SocketAddress, address: {ip}, port_value: 1"
        ))
    };
    let path = r#"typed_extension_protocol_options["o"]"#;
    assert_eq!(
        lines(&of_http("10.0.0.1"), &of_http("10.0.0.2")),
        [format!("~ {path}.address: \"10.0.0.1\" -> \"10.0.0.2\"")]
    );
    let other = lines(
        &of_http("10.0.0.1"),
        &options("envoy.config.core.v3.Locality, zone: z"),
    );
    assert!(
        other.len() == 1 && other[0].starts_with(&format!("~ {path}: ")),
        "{other:#?}"
    );
}

/// Given fields and types that the descriptors do not know, then a difference is named, and the bytes are not shown.
#[test]
fn unknown_content_differs_and_is_not_shown() {
    let any = |value: &[u8]| Any {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        value: value.to_vec().into(),
    };
    // Field 1000, of the length 4.
    let of = |text: &[u8; 4]| read(&any(&[b"\xc2\x3e\x04", &text[..]].concat())).unwrap();
    assert_eq!(
        lines(&of(b"HUSH"), &of(b"hush")),
        [
            r#"~ 1000: "(unknown to this version of the API)" -> "(unknown to this version of the API)""#
        ]
    );
    assert_eq!(lines(&of(b"HUSH"), &of(b"HUSH")), [""; 0]);
    assert!(read(&any(b"\xff")).is_err());
    let unknown = Any {
        type_url: "type.googleapis.com/a.B".to_owned(),
        value: Vec::new().into(),
    };
    assert_eq!(
        read(&unknown).unwrap_err().to_string(),
        "unknown message type `type.googleapis.com/a.B`"
    );
}
