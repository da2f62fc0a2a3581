//! Validation rules by meaning: `validate.rules` (protoc-gen-validate) and `buf.validate`
//! (protovalidate).
//!
//! ```text
//!   options ──► read ──► Rules (sets, lengths, needs) ──┐
//!                                                       ├─► changes: aspect, direction, old, new
//!   options ──► read ──► Rules                        ──┘
//! ```
//!
//! Spelling does not matter. `gt: 0` and `gte: 1` of an integer are the same set, `min_bytes: 1`
//! and `min_len: 1` both reject exactly the empty text, and a rule has the same meaning in both
//! languages. Rules that cannot be analysed (CEL, custom rules) are compared as text.
//!
//! This module does not evaluate rules against messages; `oxds_types::validate` does.

mod compare;
mod limits;
mod need;
mod read;
mod rules;
mod scale;
mod set;
mod spell;

pub use compare::{Change, Direction, changes};
pub use need::Aspect;
pub use rules::Rules;

use need::Need;
use prost_reflect::Value;
use read::CheckedValue;
use set::Set;

use crate::model::{Cardinality, Field, Kind, Message, Oneof, Options, Tree};

/// Returns the rules of a field of `message`, or no rules if the message is not checked.
#[must_use]
pub fn of_field(tree: &Tree, message: &Message, field: &Field) -> Rules {
    if of_message(message).off {
        return Rules::default();
    }
    let subject = CheckedValue {
        in_oneof: field.oneof.is_some(),
        ..subject(tree, field)
    };
    let pgv = message_option(&field.options, "validate.rules");
    let buf = message_option(&field.options, "buf.validate.field");
    match (pgv, buf) {
        (None, None) => Rules::default(),
        (Some(rules), None) | (None, Some(rules)) => read::field_rules(rules, &subject),
        (Some(pgv), Some(buf)) => {
            read::field_rules(pgv, &subject).and(read::field_rules(buf, &subject))
        }
    }
}

/// Returns the rules of a message as a whole: whether it is checked, and its expressions.
#[must_use]
pub fn of_message(message: &Message) -> Rules {
    let mut rules = message_option(&message.options, "buf.validate.message")
        .map(read::message_rules)
        .unwrap_or_default();
    for name in ["validate.disabled", "validate.ignored"] {
        if message.options.is_true(name) {
            rules.off = true;
            let short = name.trim_start_matches("validate.");
            rules
                .spelled
                .insert(Aspect::Scope, format!("{short}: true"));
        }
    }
    if rules.off {
        rules
            .spelled
            .entry(Aspect::Scope)
            .or_insert_with(|| "disabled: true".to_owned());
    }
    rules
}

/// Returns the rules of a oneof of `message`.
#[must_use]
pub fn of_oneof(message: &Message, oneof: &Oneof) -> Rules {
    let mut rules = Rules::default();
    let buf = message_option(&oneof.options, "buf.validate.oneof");
    let required = oneof.options.is_true("validate.required")
        || buf.is_some_and(|rules| {
            let required = rules.get_field_by_name("required");
            required.and_then(|required| required.as_bool()) == Some(true)
        });
    if required && !of_message(message).off {
        rules.needs.insert(Need::Required);
        rules
            .spelled
            .insert(Aspect::Presence, "required: true".to_owned());
    }
    rules
}

fn message_option<'a>(
    options: &'a Options,
    name: &str,
) -> Option<&'a prost_reflect::DynamicMessage> {
    options.extension(name).and_then(Value::as_message)
}

fn subject(tree: &Tree, field: &Field) -> CheckedValue {
    let single = single_subject(tree, field.kind, field.cardinality == Cardinality::Implicit);
    // List items have no presence, like an unset number.
    let item = |kind| single_subject(tree, kind, matches!(kind, Kind::Scalar(_) | Kind::Enum(_)));
    let parts = match (tree.map_entry(field), field.cardinality) {
        (Some((key, value)), _) => vec![item(key.kind), item(value.kind)],
        (None, Cardinality::Repeated) => vec![item(field.kind)],
        _ => return single,
    };
    CheckedValue {
        many: true,
        parts,
        ..CheckedValue::default()
    }
}

fn single_subject(tree: &Tree, kind: Kind, implicit: bool) -> CheckedValue {
    let (rules, declared) = match kind {
        Kind::Scalar(scalar) => (scalar.keyword(), None),
        Kind::Enum(id) => {
            let numbers = tree[id].values.iter().map(|value| value.number.into());
            ("enum", Some(Set::of(numbers)))
        }
        Kind::Message(_) | Kind::Group(_) => ("", None),
    };
    CheckedValue {
        implicit,
        rules,
        declared,
        ..CheckedValue::default()
    }
}
