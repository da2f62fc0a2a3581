//! The litmus test of a deprecation: a stateless translator can fill the replacement (V-46).

use crate::model::{Cardinality, Enum, Field, Kind, Message, Scalar, Tree};

/// Returns why no translator can fill the replacement of a deprecated element; `None` if it can.
///
/// A field takes the value of another field of its message with the same type, or with a wider integer type. A list
/// takes a single value. An enum value has its replacement in the same enum. A message or enum has any other one.
pub(super) fn obstacle(tree: &Tree, element: &str, replacement: &str) -> Option<String> {
    let absent = || {
        Some(format!(
            "has the replacement {replacement}, which the tree does not contain"
        ))
    };
    if tree.names.contains_key(element) {
        return if tree.names.contains_key(replacement) {
            None
        } else {
            absent()
        };
    }
    if let Some((of, _)) = value(tree, element) {
        return match value(tree, replacement) {
            None => absent(),
            Some((other, _)) if other.id == of.id => None,
            Some((other, _)) => Some(format!(
                "has the replacement {replacement} in another enum, {}, which no translator can fill",
                other.name
            )),
        };
    }
    let (message, old) = field(tree, element)?;
    let Some((other, new)) = field(tree, replacement) else {
        return absent();
    };
    if other.id != message.id {
        return Some(format!(
            "has the replacement {replacement} in another message, {}, which no translator can fill",
            other.name
        ));
    }
    if old.name == new.name {
        return Some("replaces itself".to_owned());
    }
    (!fits(old, new)).then(|| {
        format!("has the replacement {replacement} of another type, which no translator can fill")
    })
}

fn field<'t>(tree: &'t Tree, element: &str) -> Option<(&'t Message, &'t Field)> {
    let (scope, name) = element.rsplit_once('.')?;
    let message = tree.message(scope)?;
    Some((message, message.field_by_name(name)?))
}

fn value<'t>(tree: &'t Tree, element: &str) -> Option<(&'t Enum, i32)> {
    let (scope, name) = element.rsplit_once('.')?;
    let of = tree.enumeration(scope)?;
    let value = of.values.iter().find(|value| &*value.name == name)?;
    Some((of, value.number))
}

/// Returns whether every value of a field is a value of another one.
fn fits(old: &Field, new: &Field) -> bool {
    let is_many =
        |field: &Field| matches!(field.cardinality, Cardinality::Repeated | Cardinality::Map);
    let shape = match (is_many(old), is_many(new)) {
        (true, _) => old.cardinality == new.cardinality,
        (false, true) => new.cardinality == Cardinality::Repeated,
        (false, false) => true,
    };
    let wider = matches!(
        (old.kind, new.kind),
        (Kind::Scalar(Scalar::Int32), Kind::Scalar(Scalar::Int64))
            | (
                Kind::Scalar(Scalar::Uint32),
                Kind::Scalar(Scalar::Uint64 | Scalar::Int64)
            )
    );
    shape && (old.kind == new.kind || wider)
}
