//! How much of a type stays when it becomes another: nothing, its bytes, its JSON.

use crate::compare::Comparison;
use crate::model::{Field, Kind, Scalar};

/// What a change of type breaks. The later, the less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    /// The bytes mean something else.
    Wire,
    /// The bytes agree, the JSON does not.
    Json,
    /// Only the generated code differs.
    Stub,
}

/// What breaks between two fields that are both single, both repeated or both maps; none when the
/// types are the same.
pub(super) fn broken(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Option<Break> {
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

/// What breaks between two different types.
fn kind(old: Kind, new: Kind) -> Break {
    match (wire(old), wire(new)) {
        (Some(old_wire), Some(new_wire)) if old_wire == new_wire => {
            if json(old).is_some() && json(old) == json(new) {
                Break::Stub
            } else {
                Break::Json
            }
        }
        _ => Break::Wire,
    }
}

/// Types that read each other's bytes ("Updating A Message Type" of the language guide).
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

/// Types that are written alike in JSON, of those that share their bytes with another.
#[derive(PartialEq)]
enum Json {
    Number,
    /// 64-bit integers are strings.
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
