//! V-47: values, layers and their merge.

use std::collections::HashMap;
use std::sync::Arc;

use envoy_types::pb::google::protobuf::{ListValue, Struct, Value as ProtoValue, value::Kind};

use super::*;

fn layer(name: &str, values: &[(&str, &str)]) -> Layer {
    let mut layer = Layer::new(name, Source::Static);
    for (key, value) in values {
        layer
            .set((*key).to_owned(), Value::from_text(value))
            .unwrap();
    }
    layer
}

fn proto(kind: Kind) -> ProtoValue {
    ProtoValue { kind: Some(kind) }
}

fn structure(fields: Vec<(&str, ProtoValue)>) -> Struct {
    let fields = fields.into_iter();
    Struct {
        fields: fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<HashMap<_, _>>(),
    }
}

/// Given three layers with one key, when they are merged, then the last value wins, and the other keys stay.
#[test]
fn v47_later_layer_wins() {
    let runtime = Snapshot::from_layers(vec![
        layer("static", &[("a", "1"), ("b", "true")]),
        layer("disk", &[("a", "2")]),
        layer("admin", &[("a", "3"), ("c", "x")]),
    ]);
    let shown: Vec<String> = runtime
        .entries()
        .map(|entry| format!("{}={} of {}", entry.key, entry.value, entry.layer.name))
        .collect();
    assert_eq!(shown, ["a=3 of admin", "b=true of static", "c=x of admin"]);
    assert_eq!(runtime.get("a"), Some(&Value::Number(3.0)));
    let [first, ..] = runtime.layers() else {
        panic!("no layers")
    };
    assert_eq!((&*first.name, runtime.len()), ("static", 3));
}

#[test]
fn v47_values_are_read_as_envoy_reads_them() {
    for (text, flag) in [
        ("true", Some(true)),
        ("FALSE", Some(false)),
        (" true\n", Some(true)),
        ("1", Some(true)),
        ("0", Some(false)),
        ("1.5", None),
        ("yes", None),
        ("", None),
        ("inf", None),
        ("{numerator: 100}", None),
    ] {
        assert_eq!(Value::from_text(text).as_flag(), flag, "{text:?}");
    }
    let fraction = Value::Fraction {
        numerator: 7,
        denominator: Denominator::Million,
    };
    for text in [
        "numerator: 7\ndenominator: MILLION\n",
        r#"{"numerator": 7, "denominator": "MILLION"}"#,
        "{denominator: 2, numerator: 7}",
    ] {
        assert_eq!(Value::from_text(text), fraction, "{text}");
    }
    for text in ["numerator: x", "{numerator: 1, numerator: 2}", "{}", "a: b"] {
        assert_eq!(Value::from_text(text), Value::Text(text.to_owned()));
    }
    assert_eq!(Value::from_text(&fraction.to_string()), fraction);
}

#[test]
fn v47_struct_becomes_dotted_keys() {
    let fraction = structure(vec![
        ("numerator", proto(Kind::NumberValue(7.0))),
        (
            "denominator",
            proto(Kind::StringValue("MILLION".to_owned())),
        ),
    ]);
    let inner = structure(vec![
        ("on", proto(Kind::BoolValue(true))),
        ("text", proto(Kind::StringValue("12".to_owned()))),
        ("part", proto(Kind::StructValue(fraction))),
    ]);
    let outer = structure(vec![("health", proto(Kind::StructValue(inner)))]);
    let layer = Layer::new("rtds", Source::Rtds("x".to_owned()))
        .with_struct(&outer)
        .unwrap();
    let shown: Vec<String> = layer
        .values
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(
        shown,
        [
            "health.on=true",
            "health.part={numerator: 7, denominator: MILLION}",
            "health.text=12"
        ]
    );
}

#[test]
fn v47_struct_with_wrong_types_is_an_error_with_key() {
    let list = || proto(Kind::ListValue(ListValue::default()));
    let fraction = structure(vec![("numerator", proto(Kind::NumberValue(1.5)))]);
    let mut deep = structure(vec![]);
    for _ in 0..20 {
        deep = structure(vec![("a", proto(Kind::StructValue(deep)))]);
    }
    let one = structure(vec![("b", proto(Kind::BoolValue(true)))]);
    let twice = structure(vec![
        ("a", proto(Kind::StructValue(one))),
        ("a.b", proto(Kind::BoolValue(false))),
    ]);
    for (values, error) in [
        (
            structure(vec![("a", list())]),
            "a: a list: expected a boolean, a number, a string or a fraction",
        ),
        (
            structure(vec![("a", proto(Kind::NullValue(0)))]),
            "a: null: expected a boolean, a number, a string or a fraction",
        ),
        (
            structure(vec![("a", proto(Kind::StructValue(fraction)))]),
            "a: not a fraction: expected numerator (an integer) and denominator (HUNDRED, TEN_THOUSAND or MILLION)",
        ),
        (twice, "a.b: second value: expected one value per key"),
        (
            structure(vec![("", proto(Kind::BoolValue(true)))]),
            "empty key: expected a name such as envoy.reloadable_features.x",
        ),
        (
            deep,
            "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a: more than 16 levels: expected fewer",
        ),
    ] {
        let layer = Layer::new("l", Source::Static).with_struct(&values);
        assert_eq!(layer.unwrap_err().to_string(), error);
    }
}

/// Given a layer at a limit, when one more key or byte is added, then it is an error, and the layer stays as it was.
#[test]
fn v47_limits_of_layers_are_errors() {
    let mut layer = Layer::new("l", Source::Static);
    for number in 0..MAX_KEYS {
        layer.set(format!("k{number}"), Value::Bool(true)).unwrap();
    }
    let before = layer.clone();
    let too_many = layer.set("one.more".to_owned(), Value::Bool(true));
    assert_eq!(too_many, Err(LayerError::ManyKeys));
    assert_eq!(layer, before);
    layer.set("k1".to_owned(), Value::Bool(false)).unwrap();

    let mut layer = Layer::new("l", Source::Static);
    let huge = Value::Text("x".repeat(MAX_VALUE + 1));
    assert_eq!(
        layer.set("a".to_owned(), huge).unwrap_err().to_string(),
        "a: value of 65537 bytes: expected at most 65536 bytes"
    );
    let long = layer.set("k".repeat(MAX_KEY + 1), Value::Bool(true));
    let long = long.unwrap_err().to_string();
    assert!(long.starts_with("key of 1025 bytes, kkk"), "{long}");
    let big = || Value::Text("x".repeat(MAX_VALUE));
    let full = (0..2 * MAX_BYTES / MAX_VALUE)
        .map(|number| layer.set(number.to_string(), big()))
        .find_map(Result::err);
    assert_eq!(full, Some(LayerError::ManyBytes));
    layer.remove("0");
    layer
        .set("again".to_owned(), Value::Text("y".to_owned()))
        .unwrap();
}

#[test]
fn v47_readers_of_a_key_are_recorded() {
    let readers = Arc::new(Readers::default());
    let runtime = Snapshot::from_layers(vec![layer("static", &[("a", "true")])]);
    let checks = runtime.read_by("deprecation", Arc::clone(&readers));
    assert_eq!(
        runtime.read_by("other", Arc::clone(&readers)).flag("a"),
        Some(true)
    );
    assert_eq!((checks.flag("a"), checks.flag("unset")), (Some(true), None));
    assert_eq!(readers.of("a"), ["deprecation", "other"]);
    assert_eq!(readers.keys(), ["a", "unset"]);
    for number in 0..20_000 {
        readers.record(&number.to_string(), "flood");
    }
    assert_eq!(readers.keys().len(), 10_000);
}
