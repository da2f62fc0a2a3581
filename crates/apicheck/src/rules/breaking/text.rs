//! Types, labels and ranges as text.

use crate::model::{Cardinality, Field, Kind, NumberRange, Tree};

/// Returns the type of a field: `map<string, a.B>`, `int32`, `a.B`.
pub(super) fn type_of(tree: &Tree, field: &Field) -> String {
    match tree.map_entry(field) {
        Some((key, value)) => format!("map<{}, {}>", kind(tree, key.kind), kind(tree, value.kind)),
        None => kind(tree, field.kind),
    }
}

fn kind(tree: &Tree, kind: Kind) -> String {
    match kind {
        Kind::Scalar(scalar) => scalar.keyword().to_owned(),
        Kind::Message(id) => tree[id].name.to_string(),
        Kind::Group(id) => format!("group {}", tree[id].name),
        Kind::Enum(id) => tree[id].name.to_string(),
    }
}

pub(super) fn cardinality(cardinality: Cardinality) -> &'static str {
    match cardinality {
        Cardinality::Implicit => "singular",
        Cardinality::Explicit => "optional",
        Cardinality::Required => "required",
        Cardinality::Repeated => "repeated",
        Cardinality::Map => "map",
    }
}

/// Formats a range: `5`, `5 to 7`.
pub(super) fn range(range: NumberRange) -> String {
    if range.first == range.last {
        range.first.to_string()
    } else {
        format!("{} to {}", range.first, range.last)
    }
}
