//! Labels and types of fields: compatibility on the wire, in JSON, and in generated code.

use super::text;
use crate::compare::Comparison;
use crate::model::{Cardinality, Field, Kind, Scalar};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &FIELD_TYPE_CHANGED,
    &FIELD_CARDINALITY_CHANGED,
    &FIELD_JSON_TYPE_CHANGED,
    &FIELD_JSON_LIST_CHANGED,
    &FIELD_STUB_TYPE_CHANGED,
];

static FIELD_TYPE_CHANGED: Rule = Rule {
    id: "FIELD_TYPE_CHANGED",
    behaviours: &["V-27"],
    purpose: "A field keeps a type with the same encoding",
    why: "The bytes of one type are not valid for the other: readers fail, or read another value. Add a field of the new type.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_TYPE",
        "FIELD_WIRE_COMPATIBLE_TYPE",
        "FIELD_WIRE_JSON_COMPATIBLE_TYPE",
    ],
};

static FIELD_JSON_TYPE_CHANGED: Rule = Rule {
    id: "FIELD_JSON_TYPE_CHANGED",
    behaviours: &["V-28"],
    purpose: "A field keeps a type with the same JSON form",
    why: "The bytes may be compatible, but the JSON is not: 64-bit integers are strings, bytes are base64, enums are names. Add a field.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_TYPE", "FIELD_WIRE_JSON_COMPATIBLE_TYPE"],
};

static FIELD_STUB_TYPE_CHANGED: Rule = Rule {
    id: "FIELD_STUB_TYPE_CHANGED",
    behaviours: &["V-30"],
    purpose: "A field keeps its type in generated code",
    why: "Bytes and JSON are compatible, the type of the accessor is not: callers no longer compile, or truncate values.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_TYPE"],
};

/// Compares the label and the type.
pub(super) fn changed(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Option<Fact> {
    let (earlier, current) = (
        text::type_of(comparison.old, old),
        text::type_of(comparison.new, new),
    );
    // Presence alone does not change the encoding; `fields::presence` reports it (V-30).
    if coarse(old.cardinality) != coarse(new.cardinality) {
        let label = |field: &Field, kind: &str| match field.cardinality {
            Cardinality::Map => kind.to_owned(),
            other => format!("{} {kind}", text::cardinality(other)),
        };
        let (earlier, current) = (label(old, &earlier), label(new, &current));
        let message = format!("changed from {earlier} to {current}");
        return Some(Fact::new(cardinality_rule(old, new), message, earlier, current).breaks(ALL));
    }
    let rule = match broken(comparison, old, new)? {
        Break::Wire => &FIELD_TYPE_CHANGED,
        Break::Json => &FIELD_JSON_TYPE_CHANGED,
        Break::Stub => &FIELD_STUB_TYPE_CHANGED,
    };
    let message = format!("type changed from {earlier} to {current}");
    Some(Fact::new(rule, message, earlier, current).breaks(ALL))
}

/// Returns the cardinality without the difference between implicit and explicit presence.
fn coarse(cardinality: Cardinality) -> Cardinality {
    match cardinality {
        Cardinality::Explicit => Cardinality::Implicit,
        other => other,
    }
}

static FIELD_CARDINALITY_CHANGED: Rule = Rule {
    id: "FIELD_CARDINALITY_CHANGED",
    behaviours: &["V-27"],
    purpose: "A field stays singular, repeated, required or a map",
    why: "A packed list does not parse as one number, a missing required field fails the whole message, and a map is not compatible with its value type. Add a field.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_CARDINALITY",
        "FIELD_WIRE_COMPATIBLE_CARDINALITY",
        "FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY",
        "MESSAGE_SAME_REQUIRED_FIELDS",
    ],
};

static FIELD_JSON_LIST_CHANGED: Rule = Rule {
    id: "FIELD_JSON_LIST_CHANGED",
    behaviours: &["V-28"],
    purpose: "A singular field does not become repeated, nor a repeated field singular, in JSON",
    why: "On the wire, the last of several strings or messages wins. In JSON, a list is not a value and a value is not a list. Add a repeated field.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_CARDINALITY",
        "FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY",
    ],
};

/// Selects the rule for a changed label. Protobuf reads a repeated string, bytes or message field
/// as a singular one and the other way round (the last value wins, or all are merged). Packed
/// numbers are not compatible, nor are fields that change their type as well.
fn cardinality_rule(old: &Field, new: &Field) -> &'static Rule {
    let many = |field: &Field| field.cardinality == Cardinality::Repeated;
    let one = |field: &Field| coarse(field.cardinality) == Cardinality::Implicit;
    let prefixed = |field: &Field| {
        matches!(
            field.kind,
            Kind::Message(_) | Kind::Scalar(Scalar::String | Scalar::Bytes)
        )
    };
    let same_sort = std::mem::discriminant(&old.kind) == std::mem::discriminant(&new.kind);
    let lists = (many(old) && one(new)) || (one(old) && many(new));
    if lists && same_sort && prefixed(old) && prefixed(new) {
        &FIELD_JSON_LIST_CHANGED
    } else {
        &FIELD_CARDINALITY_CHANGED
    }
}

/// Highest level that a change of type breaks. Later variants are less severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Break {
    /// The bytes have another meaning.
    Wire,
    /// The bytes are compatible, the JSON is not.
    Json,
    /// Only the generated code differs.
    Stub,
}

/// Returns what changes between two fields that are both singular, both repeated or both maps.
/// Returns `None` if the types are equal.
fn broken(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Option<Break> {
    if comparison.same_type(old, new) {
        return None;
    }
    let entries = (comparison.old.map_entry(old), comparison.new.map_entry(new));
    let (Some((old_key, old_value)), Some((new_key, new_value))) = entries else {
        return Some(kind(old.kind, new.kind));
    };
    [(old_key, new_key), (old_value, new_value)]
        .into_iter()
        .filter(|(old, new)| !comparison.same_kind(old.kind, new.kind))
        .map(|(old, new)| kind(old.kind, new.kind))
        .min()
}

/// Returns what a change between two different types breaks.
fn kind(old: Kind, new: Kind) -> Break {
    // Protobuf language guide, "Updating A Message Type": types of one group read each other's
    // bytes (V-27).
    match (wire(old), wire(new)) {
        (Some(old_wire), Some(new_wire)) if old_wire == new_wire => {
            // ProtoJSON format: 64-bit integers are strings, bytes are base64, enums are names
            // (V-28).
            if json(old).is_some() && json(old) == json(new) {
                Break::Stub
            } else {
                Break::Json
            }
        }
        _ => Break::Wire,
    }
}

/// Types that can read each other's bytes (protobuf language guide, "Updating A Message Type").
#[derive(PartialEq)]
enum Wire {
    Varint,
    Zigzag,
    Fixed32,
    Fixed64,
    Text,
}

fn wire(kind: Kind) -> Option<Wire> {
    let Kind::Scalar(scalar) = kind else {
        return matches!(kind, Kind::Enum(_)).then_some(Wire::Varint);
    };
    Some(match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Bool => {
            Wire::Varint
        }
        Scalar::Sint32 | Scalar::Sint64 => Wire::Zigzag,
        Scalar::Fixed32 | Scalar::Sfixed32 => Wire::Fixed32,
        Scalar::Fixed64 | Scalar::Sfixed64 => Wire::Fixed64,
        Scalar::String | Scalar::Bytes => Wire::Text,
        Scalar::Float | Scalar::Double => return None,
    })
}

/// JSON form of types that share a wire format.
#[derive(PartialEq)]
enum Json {
    Number,
    /// 64-bit integers are JSON strings.
    NumberText,
}

fn json(kind: Kind) -> Option<Json> {
    let Kind::Scalar(scalar) = kind else {
        return None;
    };
    match scalar {
        Scalar::Int32 | Scalar::Uint32 | Scalar::Sint32 | Scalar::Fixed32 | Scalar::Sfixed32 => {
            Some(Json::Number)
        }
        Scalar::Int64 | Scalar::Uint64 | Scalar::Sint64 | Scalar::Fixed64 | Scalar::Sfixed64 => {
            Some(Json::NumberText)
        }
        _ => None,
    }
}
