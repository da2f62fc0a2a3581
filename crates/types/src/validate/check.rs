//! Checks a message against the compiled rules of its schema.

use prost_reflect::{DynamicMessage, Value};

use crate::path::{FieldPath, Step, key_text};
use crate::rules::FieldRules;
use crate::rules::broken::BrokenRule;
use crate::schema::{Field, Message, Shape, Type, WellKnown, unpack};

/// Whether the messages in `Any` fields are checked too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nested {
    Check,
    /// The caller has checked them.
    Skip,
}

/// Receives the path to a field, and the rule that its value breaks.
type OnBroken<'a> = dyn FnMut(&FieldPath, BrokenRule) + 'a;

/// Checks the message at `path`, and the messages in it.
pub(crate) fn check(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    nested: Nested,
    report: &mut OnBroken<'_>,
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
                BrokenRule::new(format!("oneof.required = {}", oneof.name), ""),
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
    path: &mut FieldPath,
    nested: Nested,
    report: &mut OnBroken<'_>,
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

/// Checks an item of a list or a value of a map, then the message in it.
fn check_element(
    ty: &'static Type,
    rules: Option<&FieldRules>,
    value: &Value,
    path: &mut FieldPath,
    nested: Nested,
    report: &mut OnBroken<'_>,
) {
    if let Some(rules) = rules {
        rules.check(value, &mut |broken| report(path, broken));
    }
    check_inner(ty, rules, value, path, nested, report);
}

/// Checks the message that a value is; scalars have no inner rules.
fn check_inner(
    ty: &'static Type,
    rules: Option<&FieldRules>,
    value: &Value,
    path: &mut FieldPath,
    nested: Nested,
    report: &mut OnBroken<'_>,
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
