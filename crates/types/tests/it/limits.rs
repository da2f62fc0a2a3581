//! Hostile and oversized files cause a clear error, quickly and in bounded memory.

use std::path::Path;

use oxds_types::codec::{Format, Options, decode};
use oxds_types::error::Reason;

use crate::{load, yaml};

fn too_large(format: Format, text: &str) -> String {
    match &load(format, text).unwrap_err()[0].reason {
        Reason::TooLarge(reason) => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn file_above_the_size_limit_is_an_error() {
    let mut options = Options::default();
    options.max_bytes = 10;
    let errors = decode(Path::new("big"), Format::Yaml, b"0123456789a", &options).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "big: error: 11 bytes: expected at most 10"
    );
}

#[test]
fn alias_bomb_is_an_error() {
    let mut bomb =
        "'@type': type.googleapis.com/google.protobuf.Struct\nvalue:\n  a0: &a0 [x, x]\n"
            .to_owned();
    for i in 1..30 {
        bomb += &format!("  a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1);
    }
    too_large(Format::Yaml, &bomb);
}

#[test]
fn aliases_of_a_large_scalar_are_limited() {
    let big = "x".repeat(1 << 20);
    let uses = "*big, ".repeat(10_000);
    let text = format!(
        "'@type': type.googleapis.com/google.protobuf.Struct\nvalue: {{ a: &big {big}, b: [{uses}] }}\n"
    );
    too_large(Format::Yaml, &text);
}

#[test]
fn many_uses_of_one_anchor_are_accepted() {
    let mut text =
        "- &c { '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: c }\n"
            .to_owned();
    text += &"- *c\n".repeat(20_000);
    assert_eq!(yaml(&text).len(), 20_001);
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    let open = "'@type': type.googleapis.com/google.protobuf.Value\nvalue: ";
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(load(Format::Yaml, &text).is_err());
        assert!(load(Format::Yaml, &format!("{open}{text}")).is_err());
        assert!(load(Format::Json, &text).is_err());
    }
    assert!(load(Format::Yaml, &"- ".repeat(100_000)).is_err());
    assert!(load(Format::Text, &"resources {".repeat(100_000)).is_err());
    let json = "{\"@type\": \"type.googleapis.com/google.protobuf.Value\", \"value\": ";
    assert!(load(Format::Json, &format!("{json}{}", "[".repeat(100_000))).is_err());
}

#[test]
fn messages_nest_no_deeper_than_clients_decode() {
    // Nested matchers.
    let nested = |depth: usize| {
        let mut text = "'@type': type.googleapis.com/envoy.config.rbac.v3.Policy\nprincipals: [{ any: true }]\npermissions: [".to_owned();
        text += &"{ not_rule: ".repeat(depth);
        text += "{ any: true }";
        text += &"}".repeat(depth);
        text + "]\n"
    };
    let name_missing = |text: &str| match &load(Format::Yaml, text).unwrap_err()[0].reason {
        Reason::NoName(_) => true,
        Reason::TooLarge(_) => false,
        other => panic!("{other:?}"),
    };
    assert!(name_missing(&nested(95)));
    assert!(!name_missing(&nested(105)));
}

#[test]
fn findings_are_limited_in_length() {
    let long = "x".repeat(1 << 20);
    let cluster = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster";
    for text in [
        long.clone(),
        format!("'@type': t/{long}"),
        format!("{cluster}\nname: c\n? {long}\n: 1\n"),
        format!("{cluster}\nname: {long}\ntype: {long}\n"),
        format!("{cluster}\nname: {long}\nconnect_timeout: {long}\n"),
        format!("{cluster}\nname: {{ a: {long}\n"),
    ] {
        for error in load(Format::Yaml, &text).unwrap_err() {
            let length = format!("{error}{error:?}{}", error.snippet().unwrap_or_default()).len();
            assert!(length < 10_000, "{length}");
        }
    }
}

#[test]
fn findings_are_limited_in_number() {
    let mut text =
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: c\n".to_owned();
    for i in 0..10_000 {
        text += &format!("nonsense{i}: 1\n");
    }
    assert_eq!(load(Format::Yaml, &text).unwrap_err().len(), 100);
}

#[test]
fn large_list_is_loaded() {
    let count = 30_000;
    let text: String = (0..count)
        .map(|i| format!("- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: cluster-{i}\n  connect_timeout: 1s\n"))
        .collect();
    assert_eq!(yaml(&text).len(), count);
}
