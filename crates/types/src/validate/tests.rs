//! One test per kind of rule. Messages of the API are checked in `tests/it/checks.rs`.

use bytes::Bytes;
use envoy_types::pb::google::protobuf::{Duration, Timestamp};
use envoy_types::pb::validate as pgv;
use envoy_types::pb::validate::field_rules::Type as Rules;
use prost_reflect::{Kind, Value};

use super::*;
use crate::rules::FieldRules;
use crate::{ApiVersion, descriptor};

/// Returns the rules that a value breaks.
fn broken(rules: Rules, kind: &Kind, value: &Value) -> Vec<String> {
    let rules = pgv::FieldRules {
        message: None,
        r#type: Some(rules),
    };
    let mut broken = Vec::new();
    FieldRules::from_pgv(&rules, kind).check(value, &mut |b| broken.push(b.rule));
    broken
}

fn text(rules: pgv::StringRules, value: &str) -> Vec<String> {
    broken(
        Rules::String(rules),
        &Kind::String,
        &Value::String(value.to_owned()),
    )
}

fn message(name: &str, fields: &[(u32, Value)]) -> Value {
    let mut message = DynamicMessage::new(descriptor::message(name).unwrap());
    fields
        .iter()
        .for_each(|(number, value)| message.set_field_by_number(*number, value.clone()));
    Value::Message(message)
}

fn u32_rules(edit: impl FnOnce(&mut pgv::UInt32Rules)) -> impl Fn(u32) -> Vec<String> {
    let mut rules = pgv::UInt32Rules::default();
    edit(&mut rules);
    move |value| {
        broken(
            Rules::Uint32(rules.clone()),
            &Kind::Uint32,
            &Value::U32(value),
        )
    }
}

#[test]
fn numbers_are_checked_against_limits() {
    let within = u32_rules(|r| (r.gt, r.lte) = (Some(3), Some(5)));
    assert_eq!(within(3), ["uint32.gt = 3"]);
    assert_eq!(within(4), [""; 0]);
    assert_eq!(within(5), [""; 0]);
    assert_eq!(within(6), ["uint32.lte = 5"]);
    let outside = u32_rules(|r| (r.gte, r.lt) = (Some(10), Some(5)));
    assert_eq!(outside(4), [""; 0]);
    assert_eq!(outside(5), ["uint32.gte = 10, or lt = 5"]);
    assert_eq!(outside(10), [""; 0]);
}

#[test]
fn numbers_are_checked_against_sets() {
    let rules = u32_rules(|r| (r.r#in, r.not_in) = (vec![1, 2], vec![2]));
    assert_eq!(rules(1), [""; 0]);
    assert_eq!(rules(2), ["uint32.not_in = [2]"]);
    assert_eq!(rules(3), ["uint32.in = [1, 2]"]);
    let rules = u32_rules(|r| r.r#const = Some(7));
    assert_eq!(rules(0), ["uint32.const = 7"]);
    let rules = u32_rules(|r| (r.gte, r.ignore_empty) = (Some(1), Some(true)));
    assert_eq!(rules(0), [""; 0]);
}

#[test]
fn floats_are_checked_and_nan_breaks_every_limit() {
    let rules = Rules::Double(pgv::DoubleRules {
        gte: Some(0.0),
        lte: Some(1.0),
        ..Default::default()
    });
    let check = |value| broken(rules.clone(), &Kind::Double, &Value::F64(value)).len();
    assert_eq!((check(0.0), check(0.5), check(1.0)), (0, 0, 0));
    assert_eq!((check(-0.1), check(1.1), check(f64::NAN)), (1, 1, 2));
}

#[test]
fn scalar_rules_apply_to_wrapped_values() {
    let rules = Rules::Uint32(pgv::UInt32Rules {
        lte: Some(5),
        ..Default::default()
    });
    let wrapper = message("google.protobuf.UInt32Value", &[(1, Value::U32(6))]);
    let kind = Kind::Message(descriptor::message("google.protobuf.UInt32Value").unwrap());
    assert_eq!(broken(rules, &kind, &wrapper), ["uint32.lte = 5"]);
}

#[test]
fn bools_are_checked_against_const() {
    let rules = Rules::Bool(pgv::BoolRules {
        r#const: Some(true),
    });
    assert_eq!(
        broken(rules, &Kind::Bool, &Value::Bool(false)),
        ["bool.const = true"]
    );
}

#[test]
fn strings_have_limits_in_characters_and_bytes() {
    let rules = pgv::StringRules {
        min_len: Some(2),
        max_bytes: Some(4),
        ..Default::default()
    };
    assert_eq!(text(rules.clone(), "ü"), ["string.min_len = 2"]);
    assert_eq!(text(rules.clone(), "üü"), [""; 0]);
    assert_eq!(text(rules, "üüü"), ["string.max_bytes = 4"]);
    let rules = pgv::StringRules {
        len: Some(1),
        ignore_empty: Some(true),
        ..Default::default()
    };
    assert_eq!(text(rules.clone(), ""), [""; 0]);
    assert_eq!(text(rules, "ab"), ["string.len = 1"]);
}

#[test]
fn strings_are_checked_against_patterns_and_parts() {
    let rules = pgv::StringRules {
        pattern: Some("^[a-z]+$".to_owned()),
        prefix: Some("a".to_owned()),
        suffix: Some("z".to_owned()),
        contains: Some("m".to_owned()),
        not_contains: Some("q".to_owned()),
        ..Default::default()
    };
    assert_eq!(text(rules.clone(), "amz"), [""; 0]);
    assert_eq!(
        text(rules, "Q q"),
        [
            "string.pattern = \"^[a-z]+$\"",
            "string.prefix = \"a\"",
            "string.suffix = \"z\"",
            "string.contains = \"m\"",
            "string.not_contains = \"q\"",
        ],
    );
}

#[test]
fn strings_are_checked_against_formats() {
    use pgv::string_rules::WellKnown;
    let format = |well_known, strict| pgv::StringRules {
        well_known: Some(well_known),
        strict,
        ..Default::default()
    };
    let name = WellKnown::WellKnownRegex(pgv::KnownRegex::HttpHeaderName as i32);
    assert_eq!(
        text(format(name, None), "a b"),
        ["string.well_known_regex = HTTP_HEADER_NAME"]
    );
    assert_eq!(text(format(name, Some(false)), "a b"), [""; 0]);
    assert_eq!(text(format(name, Some(false)), "a\nb").len(), 1);
}

#[test]
fn bytes_are_checked() {
    let check = |rules, value: &'static [u8]| {
        broken(
            Rules::Bytes(rules),
            &Kind::Bytes,
            &Value::Bytes(Bytes::from_static(value)),
        )
    };
    let rules = pgv::BytesRules {
        min_len: Some(2),
        contains: Some(b"\xff".to_vec()),
        ..Default::default()
    };
    assert_eq!(check(rules.clone(), b"a\xff"), [""; 0]);
    assert_eq!(
        check(rules, b"a"),
        ["bytes.min_len = 2", "bytes.contains = \\xff"]
    );
}

#[test]
fn enums_are_checked_against_defined_values() {
    let kind = Kind::Enum(
        descriptor::pool()
            .get_enum_by_name("envoy.config.core.v3.TrafficDirection")
            .unwrap(),
    );
    let check = |rules, value| broken(Rules::Enum(rules), &kind, &Value::EnumNumber(value));
    let defined = pgv::EnumRules {
        defined_only: Some(true),
        ..Default::default()
    };
    assert_eq!(check(defined.clone(), 1), [""; 0]);
    assert_eq!(check(defined, 99), ["enum.defined_only"]);
    let some = pgv::EnumRules {
        not_in: vec![0],
        ..Default::default()
    };
    assert_eq!(check(some, 0), ["enum.not_in = [0]"]);
}

#[test]
fn lists_have_limits_and_unique_items() {
    let list = |items: &[u32]| Value::List(items.iter().copied().map(Value::U32).collect());
    let rules = |edit: fn(&mut pgv::RepeatedRules)| {
        let mut rules = pgv::RepeatedRules::default();
        edit(&mut rules);
        Rules::Repeated(Box::new(rules))
    };
    let check = |rules, items: &[u32]| broken(rules, &Kind::Uint32, &list(items));
    assert_eq!(
        check(rules(|r| r.min_items = Some(1)), &[]),
        ["repeated.min_items = 1"]
    );
    assert_eq!(
        check(rules(|r| r.max_items = Some(1)), &[1, 2]),
        ["repeated.max_items = 1"]
    );
    assert_eq!(
        check(rules(|r| r.unique = Some(true)), &[1, 2, 1]),
        ["repeated.unique"]
    );
    let lenient = rules(|r| (r.min_items, r.ignore_empty) = (Some(1), Some(true)));
    assert_eq!(check(lenient, &[]), [""; 0]);
}

#[test]
fn anys_are_limited_to_types() {
    let any = message(
        "google.protobuf.Any",
        &[(1, Value::String("t/a.B".to_owned()))],
    );
    let rules = pgv::AnyRules {
        r#in: vec!["t/a.C".to_owned()],
        ..Default::default()
    };
    assert_eq!(
        broken(Rules::Any(rules), &Kind::String, &any),
        ["any.in = [\"t/a.C\"]"]
    );
}

#[test]
fn durations_and_timestamps_have_limits() {
    let value =
        |name, seconds, nanos| message(name, &[(1, Value::I64(seconds)), (2, Value::I32(nanos))]);
    let duration = |seconds, nanos| value("google.protobuf.Duration", seconds, nanos);
    let rules = pgv::DurationRules {
        gt: Some(Duration::default()),
        lte: Some(Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
        ..Default::default()
    };
    let check = |value| broken(Rules::Duration(rules.clone()), &Kind::String, &value);
    assert_eq!(check(duration(1, 500_000_000)), [""; 0]);
    assert_eq!(check(duration(0, 0)), ["duration.gt = 0s"]);
    assert_eq!(check(duration(1, 500_000_001)), ["duration.lte = 1.5s"]);

    let past = value("google.protobuf.Timestamp", 1, 0);
    let check = |rules| broken(Rules::Timestamp(rules), &Kind::String, &past);
    let limit = Some(Timestamp {
        seconds: 2,
        nanos: 0,
    });
    assert_eq!(
        check(pgv::TimestampRules {
            lt: limit,
            ..Default::default()
        }),
        [""; 0]
    );
    assert_eq!(
        check(pgv::TimestampRules {
            gt: limit,
            ..Default::default()
        }),
        ["timestamp.gt = 2s"]
    );
}

/// Returns the paths and rules that a message of the API breaks.
fn violations(name: &str, json: &str) -> Vec<(String, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let descriptor = descriptor::message(name).unwrap();
    let message = DynamicMessage::deserialize(descriptor, &mut deserializer).unwrap();
    validate(&message)
        .into_iter()
        .map(|v| (v.path, v.rule))
        .collect()
}

fn one(path: &str, rule: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), rule.to_owned())]
}

#[test]
fn items_keys_and_values_have_rules() {
    let route = |rest: &str| {
        format!("{{\"match\": {{\"prefix\": \"/\"}}, \"route\": {{\"cluster\": \"c\"}}, {rest}}}")
    };
    let route_type = "envoy.config.route.v3.Route";
    let found = violations(
        route_type,
        &route("\"request_headers_to_remove\": [\"ok\", \"a b\\n\"]"),
    );
    let rule = "string.well_known_regex (not strict)";
    assert_eq!(found, one("request_headers_to_remove[1]", rule));

    let pairs = "{\"fields\": {\"\": \"x\"}}";
    let found = violations(
        "envoy.config.core.v3.Metadata",
        &format!("{{\"filter_metadata\": {{\"\": {pairs}}}}}"),
    );
    assert_eq!(found, one("filter_metadata[\"\"]", "string.min_len = 1"));
}

#[test]
fn default_of_a_field_without_presence_is_checked() {
    let found = violations("envoy.config.core.v3.HeaderValue", "{}");
    assert_eq!(found, one("key", "string.min_len = 1"));
}

#[test]
fn oneof_checks_only_the_alternative_that_is_set() {
    assert_eq!(
        violations(
            "envoy.config.core.v3.DataSource",
            "{\"inline_string\": \"\"}"
        ),
        []
    );
    let found = violations("envoy.config.core.v3.DataSource", "{\"filename\": \"\"}");
    assert_eq!(found, one("filename", "string.min_len = 1"));
    let found = violations("envoy.config.core.v3.DataSource", "{}");
    assert_eq!(found, one("", "oneof.required = specifier"));
}

/// Fails when an upgrade of the API uses rules that are not implemented, such as `string.uuid`, `bytes.ip` or
/// `timestamp.lt_now`.
#[test]
fn every_rule_of_the_api_is_compiled() {
    let (mut rules, mut patterns, mut formats) = (0, 0, 0);
    for message in descriptor::v2_pool().all_messages() {
        let schema = schema::find_in(ApiVersion::V2, message.full_name()).unwrap();
        for field in &schema.fields {
            let Some(compiled) = &field.rules else {
                continue;
            };
            let (compiled, name) = (format!("{compiled:?}"), field.descriptor.full_name());
            let count = |text: &str| compiled.matches(text).count();
            let [given, asked] = ["pattern: Some(\"", "well_known: Some("].map(count);
            // The debug text of rules for items shows both the source and the compiled rules.
            let (understood, known) = (
                count("pattern: Some(Regex("),
                count("format: Some(NamedFormat"),
            );
            assert_eq!(given > 0, understood > 0, "{name}");
            assert_eq!(asked > 0, known > 0, "{name}");
            assert_eq!(count("Timestamp"), 0, "{name}");
            (rules, patterns, formats) = (rules + 1, patterns + given, formats + asked);
        }
    }
    // About the numbers in the proto files of the API.
    assert!(rules > 1000, "{rules}");
    assert!(patterns > 5, "{patterns}");
    assert!(formats > 50, "{formats}");
}
