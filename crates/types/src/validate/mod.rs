//! The rules that the API carries in its options (`validate.rules`, from protoc-gen-validate),
//! checked over reflection.
//!
//! Rules are compiled once per message type (`rules`); checking a message looks at the fields
//! that are set, and at the few that must not be unset. What an `Any` holds is checked too, when
//! the descriptors know it.

use prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};

use crate::path::{Path, Step};
use crate::schema::{self, Field, Message, Shape, Type, WellKnown};

mod format;
mod number;
pub(crate) mod rules;
mod string;
mod time;

use rules::FieldRules;

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path to the field.
    pub path: String,
    /// The rule, as the API writes it: `uint32.lte = 65535`.
    pub rule: String,
    /// The value, shortened; empty when there is none.
    pub value: String,
}

/// Checks a message of [`descriptor::pool`](crate::descriptor::pool), and the messages in it.
#[must_use]
pub fn validate(message: &DynamicMessage) -> Vec<Violation> {
    let mut violations = Vec::new();
    let Some(schema) = schema::find(message.descriptor().full_name()) else {
        return violations;
    };
    check(
        schema,
        message,
        &mut Path::default(),
        Nested::Check,
        &mut |path, broken| {
            violations.push(Violation {
                path: path.to_string(),
                rule: broken.rule,
                value: broken.value,
            });
        },
    );
    violations
}

/// A rule that does not hold, the place known to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) rule: String,
    pub(crate) value: String,
}

impl Broken {
    pub(crate) fn new(rule: impl Into<String>, value: impl Into<String>) -> Broken {
        Broken {
            rule: rule.into(),
            value: value.into(),
        }
    }
}

/// Whether what an `Any` holds is checked too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nested {
    Check,
    /// The caller has done so already.
    Skip,
}

type Report<'a> = dyn FnMut(&Path, Broken) + 'a;

/// Checks `message`, which `path` leads to.
pub(crate) fn check(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut Path,
    nested: Nested,
    report: &mut Report<'_>,
) {
    if schema.rules.off {
        return;
    }
    for oneof in &schema.rules.required_oneofs {
        if !oneof
            .fields
            .iter()
            .any(|number| message.has_field_by_number(*number))
        {
            report(
                path,
                Broken::new(format!("oneof.required = {}", oneof.name), ""),
            );
        }
    }
    for (number, broken) in &schema.rules.broken_when_unset {
        if !message.has_field_by_number(*number) {
            let Some(field) = schema.field(*number) else {
                continue;
            };
            path.push(Step::Field(&field.name));
            report(path, broken.clone());
            path.pop();
        }
    }
    for (descriptor, value) in message.fields() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        path.push(Step::Field(&field.name));
        check_field(field, value, path, nested, report);
        path.pop();
    }
}

fn check_field(
    field: &'static Field,
    value: &Value,
    path: &mut Path,
    nested: Nested,
    report: &mut Report<'_>,
) {
    let rules = field.rules.as_ref();
    if let Some(rules) = rules {
        rules.check(value, &mut |broken| report(path, broken));
    }
    match (&field.shape, value) {
        (Shape::One(one), value) => check_inner(one, rules, value, path, nested, report),
        (Shape::List(item), Value::List(values)) => {
            let rules = rules.and_then(FieldRules::items);
            for (index, value) in values.iter().enumerate() {
                path.push(Step::Index(index));
                check_element(item, rules, value, path, nested, report);
                path.pop();
            }
        }
        (Shape::Map { value: item, .. }, Value::Map(values)) => {
            let (key_rules, value_rules) = rules.map_or((None, None), FieldRules::entries);
            for (key, value) in values {
                path.push(Step::Key(key_text(key)));
                if let Some(rules) = key_rules {
                    let key = Value::from(key.clone());
                    rules.check(&key, &mut |broken| report(path, broken));
                }
                check_element(item, value_rules, value, path, nested, report);
                path.pop();
            }
        }
        _ => {}
    }
}

/// An element of a list or a value of a map: its own rules, then what is in it.
fn check_element(
    ty: &'static Type,
    rules: Option<&FieldRules>,
    value: &Value,
    path: &mut Path,
    nested: Nested,
    report: &mut Report<'_>,
) {
    if let Some(rules) = rules {
        rules.check(value, &mut |broken| report(path, broken));
    }
    check_inner(ty, rules, value, path, nested, report);
}

/// What is in a value, if it is a message.
fn check_inner(
    ty: &'static Type,
    rules: Option<&FieldRules>,
    value: &Value,
    path: &mut Path,
    nested: Nested,
    report: &mut Report<'_>,
) {
    let (Some(schema), Value::Message(message)) = (ty.message(), value) else {
        return;
    };
    if rules.is_some_and(|rules| rules.skip) {
        return;
    }
    match schema.well_known {
        Some(WellKnown::Any) if nested == Nested::Check => {
            if let Some((schema, message)) = unpack(message) {
                check(schema, &message, path, nested, report);
            }
        }
        Some(_) => {}
        None => check(schema, message, path, nested, report),
    }
}

/// What an `Any` holds; `None` when the descriptors do not know it, or it does not decode.
pub(crate) fn unpack(any: &DynamicMessage) -> Option<(&'static Message, DynamicMessage)> {
    let (type_url, value) = (any.get_field_by_number(1)?, any.get_field_by_number(2)?);
    let schema = schema::find(type_url.as_str()?.rsplit_once('/')?.1)?;
    let mut message = DynamicMessage::new(schema.descriptor.clone());
    message.merge(value.as_bytes()?.clone()).ok()?;
    Some((schema, message))
}

/// A map's key as a path shows it.
pub(crate) fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

#[cfg(test)]
mod tests;
