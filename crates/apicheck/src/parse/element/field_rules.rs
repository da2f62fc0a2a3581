//! Rules about the number, the options and the features of one field.

use prost_reflect::Value;
use prost_types::FieldDescriptorProto;

use super::cursor::Cursor;
use crate::model::{Cardinality, Field, Kind, Scalar, Syntax};
use crate::parse::features;

/// Numbers that the language keeps for implementations (proto3 language guide, "Assigning Field
/// Numbers").
const OF_IMPLEMENTATIONS: std::ops::RangeInclusive<i32> = 19_000..=19_999;

/// Reports violations of the current field or extension.
pub(super) fn check_field(
    cursor: &mut Cursor<'_>,
    full: &str,
    proto: &FieldDescriptorProto,
    field: &Field,
) {
    if !cursor.is_text() {
        return;
    }
    if OF_IMPLEMENTATIONS.contains(&field.number) {
        let why = format!(
            "{full}: number {} is reserved for protobuf implementations (19000 to 19999)",
            field.number
        );
        cursor.rule(&[3], why);
    }
    if proto.extendee.is_some() && proto.json_name.is_some() {
        cursor.rule(&[10], format!("{full}: an extension has no json_name"));
    }
    let is_message = matches!(field.kind, Kind::Message(_) | Kind::Group(_));
    if proto.default_value.is_some() && is_message {
        cursor.rule(&[7], format!("{full}: a message has no default value"));
    }
    check_field_options(cursor, full, proto, field);
    if matches!(cursor.draft.syntax, Syntax::Edition(_)) {
        check_field_features(cursor, full, proto, field);
    }
}

fn check_field_options(
    cursor: &mut Cursor<'_>,
    full: &str,
    proto: &FieldDescriptorProto,
    field: &Field,
) {
    let options = &field.options;
    let is_repeated = field.cardinality == Cardinality::Repeated;
    let mut wrong = Vec::new();
    let packed = options.get("packed").and_then(Value::as_bool);
    match (packed, cursor.draft.syntax) {
        (Some(_), Syntax::Edition(_)) => {
            wrong.push("packed is not valid in editions: use features.repeated_field_encoding");
        }
        (Some(true), _) if !(is_repeated && is_packable(field.kind)) => {
            wrong.push("packed is only valid for repeated numbers, bools and enums");
        }
        _ => {}
    }
    if (options.is_true("lazy") || options.is_true("unverified_lazy"))
        && !matches!(field.kind, Kind::Message(_))
    {
        wrong.push("lazy is only valid for messages with a length prefix");
    }
    if options.is_true("unverified_lazy") && proto.extendee.is_some() {
        wrong.push("unverified_lazy is not valid for extensions");
    }
    let jstype = options.get("jstype").and_then(Value::as_enum_number);
    if jstype.is_some_and(|jstype| jstype != 0) && !is_64_bit(field.kind) {
        wrong.push("jstype is only valid for 64-bit integers");
    }
    for why in wrong {
        cursor.rule(&[8], format!("{full}: {why}"));
    }
}

/// Checks the features that the field itself sets, and what they mean for it.
fn check_field_features(
    cursor: &mut Cursor<'_>,
    full: &str,
    proto: &FieldDescriptorProto,
    field: &Field,
) {
    let set = field.options.get("features").and_then(Value::as_message);
    let set = |feature: &str| set.and_then(|set| features::number(set, feature));
    let is_many = matches!(field.cardinality, Cardinality::Repeated | Cardinality::Map);
    let mut wrong = Vec::new();
    if let Some(presence) = set("field_presence") {
        let sort = match field.kind {
            _ if field.oneof.is_some() => Some("a oneof member"),
            _ if is_many => Some("a repeated field"),
            _ if proto.extendee.is_some() => Some("an extension"),
            Kind::Message(_) | Kind::Group(_) if presence == 2 => Some("a message"),
            _ => None,
        };
        if let Some(sort) = sort {
            let value = if sort == "a message" {
                " = IMPLICIT"
            } else {
                ""
            };
            wrong.push(format!("field_presence{value} is not valid for {sort}"));
        }
    }
    if field.cardinality == Cardinality::Implicit && field.default.is_some() {
        wrong.push("a field with implicit presence has no default value".to_owned());
    }
    let is_map = field.cardinality == Cardinality::Map;
    if set("utf8_validation").is_some() && !is_map && field.kind != Kind::Scalar(Scalar::String) {
        wrong.push("utf8_validation is only valid for strings".to_owned());
    }
    match set("repeated_field_encoding") {
        Some(_) if !is_many => {
            wrong.push("repeated_field_encoding is only valid for repeated fields".to_owned());
        }
        Some(1) if is_map || !is_packable(field.kind) => {
            wrong.push("PACKED is only valid for numbers, bools and enums".to_owned());
        }
        _ => {}
    }
    let is_message = matches!(field.kind, Kind::Message(_) | Kind::Group(_));
    if set("message_encoding").is_some() && (is_map || !is_message) {
        wrong.push("message_encoding is only valid for messages".to_owned());
    }
    for why in wrong {
        cursor.rule(&[8], format!("{full}: {why}"));
    }
}

/// Returns whether repeated values of the type can be packed.
pub(super) fn is_packable(kind: Kind) -> bool {
    match kind {
        Kind::Scalar(scalar) => !matches!(scalar, Scalar::String | Scalar::Bytes),
        Kind::Enum(_) => true,
        Kind::Message(_) | Kind::Group(_) => false,
    }
}

fn is_64_bit(kind: Kind) -> bool {
    let Kind::Scalar(scalar) = kind else {
        return false;
    };
    matches!(
        scalar,
        Scalar::Int64 | Scalar::Uint64 | Scalar::Sint64 | Scalar::Fixed64 | Scalar::Sfixed64
    )
}
