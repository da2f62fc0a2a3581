//! Changes of validation, compared by meaning.

use oxds_apicheck::compare::Comparison;
use oxds_apicheck::finding::Severity;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules::validation::{Mode, find};

use crate::support::one;

/// Returns `RULE: old -> new` for each change between two bodies of a message.
fn changes(old: &str, new: &str) -> Vec<String> {
    let file = |body: &str| {
        one(&format!(
            r#"syntax = "proto3";
package shop.v1;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "buf/validate/validate.proto";
import "validate/validate.proto";
enum Way {{ POST = 0; WIRE = 1; }}
message Order {{ {body} }}"#
        ))
    };
    let (old, new) = (file(old), file(new));
    let found = find(
        &Comparison::of(&old, &new),
        Profile::Policy,
        Mode::ByMeaning,
    );
    found
        .iter()
        .map(|finding| {
            assert_eq!(
                finding.severity == Severity::Note,
                finding.rule.id == "VALIDATION_LOOSENED"
            );
            let rule = finding.rule.id.trim_start_matches("VALIDATION_");
            format!("{rule}: {} -> {}", finding.old_value, finding.new_value)
        })
        .collect()
}

/// Compares the rules of one field.
fn field(kind: &str, old: &str, new: &str) -> Vec<String> {
    let with = |rules: &str| match rules {
        "" => format!("{kind} it = 1;"),
        rules => format!("{kind} it = 1 [{rules}];"),
    };
    changes(&with(old), &with(new))
}

/// Compares PGV rules of one type.
fn pgv(kind: &str, rules: &str, old: &str, new: &str) -> Vec<String> {
    let with = |text: &str| match text {
        "" => String::new(),
        text => format!("(validate.rules).{rules} = {{{text}}}"),
    };
    field(kind, &with(old), &with(new))
}

const DURATION: &str = "google.protobuf.Duration";
const NONE: [&str; 0] = [];

#[test]
fn v32_bound_moved_inward_is_tighter() {
    assert_eq!(
        pgv(DURATION, "duration", "gt: {}", "gte: {nanos: 1000000}"),
        ["BOUND_TIGHTENED: gt: 0s -> gte: 0.001s"]
    );
    assert_eq!(
        pgv("double", "double", "lte: 100", "lt: 100"),
        ["BOUND_TIGHTENED: lte: 100 -> lt: 100"]
    );
    assert_eq!(
        pgv("uint32", "uint32", "", "lte: 65535"),
        ["BOUND_TIGHTENED:  -> lte: 65535"]
    );
}

#[test]
fn v32_bound_moved_outward_is_looser() {
    assert_eq!(
        pgv(DURATION, "duration", "gt: {}", "gte: {}"),
        ["LOOSENED: gt: 0s -> gte: 0s"]
    );
    assert_eq!(
        pgv("int64", "int64", "gte: 1, lte: 5", "gte: 1"),
        ["LOOSENED: lte: 5, gte: 1 -> gte: 1"]
    );
}

#[test]
fn v32_tighter_and_looser_bounds_are_one_breaking_change() {
    assert_eq!(
        pgv("int32", "int32", "gte: 1, lte: 5", "gte: 2, lte: 6"),
        ["BOUND_TIGHTENED: lte: 5, gte: 1 -> lte: 6, gte: 2"]
    );
}

#[test]
fn v32_equivalent_spellings_are_no_change() {
    assert_eq!(pgv("string", "string", "min_bytes: 1", "min_len: 1"), NONE);
    assert_eq!(pgv("uint32", "uint32", "gt: 0", "gte: 1"), NONE);
    assert_eq!(pgv("uint32", "uint32", "gt: 0", "not_in: [0]"), NONE);
    assert_eq!(pgv("uint32", "uint32", "", "gte: 0"), NONE);
    assert_eq!(pgv("float", "float", "gt: -0", "gt: 0"), NONE);
    assert_eq!(
        pgv("int32", "int32", "in: [3, 1, 2]", "gte: 1, lte: 3"),
        NONE
    );
    assert_eq!(pgv(DURATION, "duration", "gt: {}", "gte: {nanos: 1}"), NONE);
    assert_eq!(
        pgv("string", "string", "len: 3", "min_len: 3, max_len: 3"),
        NONE
    );
    assert_eq!(pgv("string", "string", "const: \"a\"", "in: [\"a\"]"), NONE);
    assert_eq!(
        pgv(
            "string",
            "string",
            "prefix: \"/\"",
            "prefix: \"/\", min_len: 1"
        ),
        NONE
    );
    assert_eq!(
        pgv(
            "string",
            "string",
            "min_len: 2, ignore_empty: true",
            "min_len: 2, ignore_empty: true, max_len: 18446744073709551615"
        ),
        NONE
    );
    assert_eq!(pgv("bool", "bool", "", ""), NONE);
}

#[test]
fn v32_wrapper_has_the_range_of_its_number() {
    let wrapper = "google.protobuf.UInt32Value";
    assert_eq!(pgv(wrapper, "uint32", "", "gte: 0"), NONE);
    assert_eq!(
        pgv(wrapper, "uint32", "", "gte: 1"),
        ["BOUND_TIGHTENED:  -> gte: 1"]
    );
}

#[test]
fn v32_crossed_limits_allow_values_outside() {
    assert_eq!(
        pgv("int32", "int32", "gt: 10, lt: 5", "gt: 10, lt: 4"),
        ["BOUND_TIGHTENED: lt: 5, gt: 10 -> lt: 4, gt: 10"]
    );
    assert_eq!(
        pgv("int32", "int32", "gt: 10, lt: 5", ""),
        ["LOOSENED: lt: 5, gt: 10 -> "]
    );
}

#[test]
fn v32_value_lists_are_compared_as_sets() {
    assert_eq!(
        pgv("string", "string", "in: [\"a\", \"b\"]", "in: [\"a\"]"),
        ["VALUES_TIGHTENED: in: [\"a\", \"b\"] -> in: [\"a\"]"]
    );
    assert_eq!(
        pgv(
            "string",
            "string",
            "not_in: [\"a\"]",
            "not_in: [\"a\", \"b\"]"
        ),
        ["VALUES_TIGHTENED: not_in: [\"a\"] -> not_in: [\"a\", \"b\"]"]
    );
    assert_eq!(
        pgv("Way", "enum", "in: [0]", "in: [0, 1]"),
        ["LOOSENED: in: [0] -> in: [0, 1]"]
    );
    assert_eq!(
        pgv("bool", "bool", "", "const: true"),
        ["VALUES_TIGHTENED:  -> const: true"]
    );
    // Other rules may drop restrictions that the list implies.
    assert_eq!(
        pgv(
            "string",
            "string",
            "in: [\"a\", \"bb\"], min_len: 2",
            "in: [\"bb\"]"
        ),
        NONE
    );
    // Replacing a list by a rule that all its texts satisfy is looser.
    assert_eq!(
        pgv("string", "string", "in: [\"a\", \"b\"]", "min_len: 1"),
        ["LOOSENED: in: [\"a\", \"b\"] -> min_len: 1"]
    );
    assert_eq!(
        pgv(
            "google.protobuf.Any",
            "any",
            "in: [\"a/b\"]",
            "in: [\"a/c\"]"
        ),
        ["VALUES_TIGHTENED: in: [\"a/b\"] -> in: [\"a/c\"]"]
    );
}

#[test]
fn v32_text_formats_are_compared_by_implication() {
    let string = |old: &str, new: &str| pgv("string", "string", old, new);
    assert_eq!(
        string("ipv6: true", "ip: true"),
        ["LOOSENED: ipv6: true -> ip: true"]
    );
    assert_eq!(
        string("ip: true", "ipv6: true"),
        ["FORMAT_TIGHTENED: ip: true -> ipv6: true"]
    );
    assert_eq!(
        string("suffix: \".a.b\"", "suffix: \".b\""),
        ["LOOSENED: suffix: \".a.b\" -> suffix: \".b\""]
    );
    assert_eq!(
        string("not_contains: \"ab\"", "not_contains: \"a\""),
        ["FORMAT_TIGHTENED: not_contains: \"ab\" -> not_contains: \"a\""]
    );
    assert_eq!(
        string(
            "well_known_regex: HTTP_HEADER_VALUE",
            "well_known_regex: HTTP_HEADER_VALUE, strict: false"
        ),
        [
            "LOOSENED: well_known_regex: http_header_value -> well_known_regex: http_header_value, strict: false"
        ]
    );
    // A pattern that rejects the empty text is one change, not two.
    assert_eq!(
        string("", "pattern: \"^a+$\""),
        ["FORMAT_TIGHTENED:  -> pattern: \"^a+$\""]
    );
    assert_eq!(
        pgv("bytes", "bytes", "contains: \"\\xff\"", ""),
        ["LOOSENED: contains: \"\\xff\" -> "]
    );
}

#[test]
fn v32_empty_values_that_become_checked_are_tighter() {
    assert_eq!(
        pgv(
            "string",
            "string",
            "min_len: 3, ignore_empty: true",
            "min_len: 3"
        ),
        ["EMPTY_REFUSED: min_len: 3, ignore_empty: true -> min_len: 3"]
    );
    assert_eq!(
        pgv("uint32", "uint32", "gte: 3, ignore_empty: true", "gte: 3"),
        ["BOUND_TIGHTENED: ignore_empty: true, gte: 3 -> gte: 3"]
    );
    assert_eq!(
        pgv(
            "repeated string",
            "repeated",
            "min_items: 2",
            "min_items: 2, ignore_empty: true"
        ),
        ["LOOSENED: min_items: 2 -> ignore_empty: true, min_items: 2"]
    );
}

#[test]
fn v32_items_keys_and_values_are_compared_recursively() {
    assert_eq!(
        pgv(
            "repeated string",
            "repeated",
            "items: {string: {min_len: 1}}",
            "items: {string: {min_len: 2}}"
        ),
        ["LENGTH_TIGHTENED: items: min_len: 1 -> items: min_len: 2"]
    );
    assert_eq!(
        pgv(
            "map<string, uint32>",
            "map",
            "keys: {string: {max_len: 8}}, values: {uint32: {gte: 0}}",
            "keys: {string: {max_bytes: 8}}, values: {uint32: {gt: 0}}"
        ),
        [
            "LENGTH_TIGHTENED: keys: max_len: 8 -> keys: max_bytes: 8",
            "BOUND_TIGHTENED: values: gte: 0 -> values: gt: 0"
        ]
    );
    assert_eq!(
        pgv("map<string, Order>", "map", "", "no_sparse: true"),
        ["ITEMS_TIGHTENED:  -> no_sparse: true"]
    );
    assert_eq!(
        pgv(
            "repeated Way",
            "repeated",
            "",
            "items: {enum: {defined_only: true}}"
        ),
        ["DEFINED_ONLY_ADDED:  -> items: defined_only: true"]
    );
}

#[test]
fn v32_times_relative_to_now_are_compared() {
    let time = "google.protobuf.Timestamp";
    assert_eq!(
        pgv(time, "timestamp", "", "lt_now: true"),
        ["BOUND_TIGHTENED:  -> lt_now: true"]
    );
    assert_eq!(
        pgv(
            time,
            "timestamp",
            "within: {seconds: 60}",
            "within: {seconds: 90}"
        ),
        ["LOOSENED: within: 60s -> within: 90s"]
    );
    assert_eq!(
        pgv(time, "timestamp", "gt: {seconds: 0}", "gt: {seconds: 1}"),
        ["BOUND_TIGHTENED: gt: 1970-01-01T00:00:00Z -> gt: 1970-01-01T00:00:01Z"]
    );
}

#[test]
fn v32_changed_type_has_no_validation_finding() {
    assert_eq!(
        changes(
            "uint32 it = 1 [(validate.rules).uint32.gte = 1];",
            "string it = 1 [(validate.rules).string.min_len = 1];"
        ),
        NONE
    );
}

#[test]
fn v33_strict_mode_makes_looser_validation_an_error() {
    let file = |rules: &str| {
        one(&format!(
            "syntax = \"proto3\";\npackage shop.v1;\nimport \"validate/validate.proto\";\n\
             message Order {{ uint32 it = 1 [(validate.rules).uint32 = {{{rules}}}]; }}"
        ))
    };
    let severities = |new: &str| -> Vec<Severity> {
        let (old, new) = (file("gt: 0"), file(new));
        let found = find(
            &Comparison::of(&old, &new),
            Profile::EnvoyToday,
            Mode::Strict,
        );
        found.iter().map(|finding| finding.severity).collect()
    };
    assert_eq!(severities("gte: 0"), [Severity::Error]);
    assert_eq!(severities("gte: 1"), []);
}

#[test]
fn v33_migration_to_protovalidate_has_no_findings() {
    let same = [
        (
            "string",
            "(validate.rules).string = {min_len: 1, max_bytes: 9}",
            "(buf.validate.field).string = {min_len: 1, max_bytes: 9}",
        ),
        (
            "Order",
            "(validate.rules).message.required = true",
            "(buf.validate.field).required = true",
        ),
        (
            "Order",
            "(validate.rules).message.skip = true",
            "(buf.validate.field).ignore = IGNORE_ALWAYS",
        ),
        (
            "Way",
            "(validate.rules).enum.defined_only = true",
            "(buf.validate.field).enum.defined_only = true",
        ),
        (
            "uint32",
            "(validate.rules).uint32 = {gt: 3, ignore_empty: true}",
            "(buf.validate.field).uint32.gt = 3, (buf.validate.field).ignore = IGNORE_IF_ZERO_VALUE",
        ),
        (
            "google.protobuf.Duration",
            "(validate.rules).duration = {required: true, gt: {}}",
            "(buf.validate.field) = {required: true, duration: {gt: {}}}",
        ),
        (
            "repeated string",
            "(validate.rules).repeated = {min_items: 1, items: {string: {min_len: 1}}}",
            "(buf.validate.field).repeated = {min_items: 1, items: {string: {min_len: 1}}}",
        ),
        (
            "repeated string",
            "(validate.rules).repeated.min_items = 1",
            "(buf.validate.field).required = true",
        ),
        (
            "string",
            "(validate.rules).string.min_len = 1",
            "(buf.validate.field).required = true",
        ),
        (
            "uint32",
            "(validate.rules).uint32.gt = 0",
            "(buf.validate.field).required = true",
        ),
        (
            "google.protobuf.Any",
            "(validate.rules).any = {in: [\"a/b\"]}",
            "(buf.validate.field).any = {in: [\"a/b\"]}",
        ),
        (
            "google.protobuf.Timestamp",
            "(validate.rules).timestamp.lt_now = true",
            "(buf.validate.field).timestamp.lt_now = true",
        ),
    ];
    for (kind, pgv, buf) in same {
        assert_eq!(field(kind, pgv, buf), NONE, "{pgv} -> {buf}");
        assert_eq!(field(kind, buf, pgv), NONE, "{buf} -> {pgv}");
        // During the migration, files contain both.
        let both = format!("{pgv}, {buf}");
        assert_eq!(field(kind, pgv, &both), NONE, "{pgv} -> both");
        assert_eq!(field(kind, &both, buf), NONE, "both -> {buf}");
    }
}

#[test]
fn v33_expressions_are_compared_as_text() {
    let cel = |id: &str, text: &str| {
        format!("(buf.validate.field).cel = {{id: \"{id}\", expression: \"{text}\"}}")
    };
    assert_eq!(
        field(
            "int32",
            &cel("even", "this % 2 == 0"),
            &cel("even", "this % 4 == 0")
        ),
        ["EXPRESSION_TIGHTENED: cel: this % 2 == 0 -> cel: this % 4 == 0"]
    );
    assert_eq!(
        field("int32", &cel("even", "this % 2 == 0"), ""),
        ["LOOSENED: cel: this % 2 == 0 -> "]
    );
}

#[test]
fn strict_mode_of_header_formats_is_compared() {
    let string = |old: &str, new: &str| pgv("string", "string", old, new);
    let (name, value) = (
        "well_known_regex: HTTP_HEADER_NAME",
        "well_known_regex: HTTP_HEADER_VALUE",
    );
    let loose = |format: &str| format!("{format}, strict: false");
    // Without `strict`, names and values have the same format, which accepts the empty text.
    assert_eq!(string(&loose(name), &loose(value)), NONE);
    assert_eq!(string(&loose(value), &loose(name)), NONE);
    assert_eq!(
        string(&loose(name), &format!("{}, min_len: 1", loose(name))),
        ["LENGTH_TIGHTENED:  -> min_len: 1"]
    );
    assert_eq!(
        string(&loose(name), name),
        [
            "FORMAT_TIGHTENED: well_known_regex: http_header_name, strict: false -> well_known_regex: http_header_name"
        ]
    );
    // Every strict name is a strict value, and every strict value is a loose one.
    assert_eq!(
        string(name, value),
        ["LOOSENED: well_known_regex: http_header_name -> well_known_regex: http_header_value"]
    );
    assert_eq!(
        string(name, &loose(value)),
        [
            "LOOSENED: well_known_regex: http_header_name -> well_known_regex: http_header_value, strict: false"
        ]
    );
    // Lists are compared with the format.
    assert_eq!(
        string("in: [\"x-a\", \"x-b\"]", name),
        ["LOOSENED: in: [\"x-a\", \"x-b\"] -> well_known_regex: http_header_name"]
    );
    assert_eq!(
        string("in: [\"x a\"]", name),
        ["VALUES_TIGHTENED: in: [\"x a\"] -> well_known_regex: http_header_name"]
    );
}

#[test]
fn loose_header_name_of_protovalidate_is_not_empty() {
    let loose = "string = {well_known_regex: HTTP_HEADER_NAME, strict: false}";
    let buf = loose.replace("HTTP_HEADER_NAME", "KNOWN_REGEX_HTTP_HEADER_NAME");
    let (pgv, buf) = (
        format!("(validate.rules).{loose}"),
        format!("(buf.validate.field).{buf}"),
    );
    assert_eq!(field("string", &pgv, &buf).len(), 1);
    assert!(field("string", &buf, &pgv)[0].starts_with("LOOSENED"));
}

#[test]
fn required_member_of_a_oneof_demands_nothing() {
    let oneof = |rules: &str| format!("oneof to {{ Order it = 1 {rules}; string host = 2; }}");
    let with = |rules: &str| changes(&oneof(""), &oneof(rules));
    assert_eq!(with("[(validate.rules).message.required = true]"), NONE);
    // protovalidate requires the member itself.
    assert_eq!(
        with("[(buf.validate.field).required = true]"),
        ["REQUIRED_ADDED:  -> required: true"]
    );
}

#[test]
fn list_of_all_enum_values_equals_defined_only() {
    let way = |old: &str, new: &str| pgv("Way", "enum", old, new);
    let only = "defined_only: true";
    assert_eq!(way("in: [0, 1]", only), NONE);
    assert_eq!(way(only, "in: [1, 0]"), NONE);
    assert_eq!(way("defined_only: true, not_in: [0]", "const: 1"), NONE);
    assert_eq!(
        way(only, "in: [0]"),
        ["VALUES_TIGHTENED: defined_only: true -> in: [0]"]
    );
    assert_eq!(
        way("in: [0]", only),
        ["LOOSENED: in: [0] -> defined_only: true"]
    );
    assert_eq!(
        way("in: [0, 1, 2]", only),
        ["VALUES_TIGHTENED: in: [0, 1, 2] -> defined_only: true"]
    );
    assert_eq!(
        way("", only),
        ["DEFINED_ONLY_ADDED:  -> defined_only: true"]
    );
    assert_eq!(way(only, ""), ["LOOSENED: defined_only: true -> "]);
}

#[test]
fn added_enum_value_is_no_change_of_validation() {
    let order = |rules: &str, more: &str| {
        one(&format!(
            "syntax = \"proto3\";\npackage shop.v1;\nimport \"validate/validate.proto\";\n\
             enum Way {{ POST = 0; WIRE = 1; {more} }}\n\
             message Order {{ Way it = 1 [(validate.rules).enum = {{{rules}}}]; }}"
        ))
    };
    for rules in [
        "defined_only: true",
        "in: [0, 1]",
        "defined_only: true, not_in: [0]",
    ] {
        let (old, new) = (order(rules, ""), order(rules, "SHIP = 2;"));
        let comparison = Comparison::of(&old, &new);
        let found = find(&comparison, Profile::Policy, Mode::ByMeaning);
        assert!(found.is_empty(), "{rules}: {found:?}");
    }
}
