//! Validation rules that the API carries in its options (`validate.rules`, from protoc-gen-validate).
//!
//! Rules are compiled once per message type (`rules`). A check visits the fields that are set, and the few that must
//! not be unset (`check`). It includes the message in an `Any`, if the descriptors know its type.

use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage};

use crate::depth::{self, MAX_DEPTH, TooDeep};
use crate::path::FieldPath;
use crate::schema;

mod check;

pub(crate) use check::{Nested, check};

/// A value that breaks a rule of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Path to the field; empty for the message itself.
    pub path: String,
    /// The rule as in the API: `uint32.lte = 65535`.
    pub rule: String,
    /// The value, cut to 60 characters; empty if the field is not set.
    pub value: String,
}

/// Checks a message of [`descriptor::pool`](crate::descriptor::pool), and the messages in it. Returns all violations;
/// none for a message type that the descriptors do not have. A message that nests more than 100 levels deep has one
/// violation.
#[must_use]
pub fn validate(message: &DynamicMessage) -> Vec<Violation> {
    let mut violations = Vec::new();
    let Some(schema) = schema::find(message.descriptor().full_name()) else {
        return violations;
    };
    if let Err(deep) = depth::measure(schema, &message.encode_to_vec(), MAX_DEPTH) {
        let mut path = FieldPath::default();
        deep.extend(&mut path);
        violations.push(Violation {
            path: path.to_string(),
            rule: TooDeep::limit(),
            value: String::new(),
        });
        return violations;
    }
    check(
        schema,
        message,
        &mut FieldPath::default(),
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

#[cfg(test)]
mod tests;
