//! Additions: they are allowed, except where they refuse what was valid (V-31).

use std::collections::HashMap;

use super::fact::Fact;
use crate::compare::{Member, Pair};
use crate::model::{Cardinality, Enum, EnumId, EnumValue, Field, Kind, Message, Name, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::validation;

pub(super) static FIELD_ADDED_REQUIRED: Rule = Rule {
    id: "FIELD_ADDED_REQUIRED",
    behaviours: &["V-31"],
    purpose: "A field that is added to a message may be left out",
    why: "What was written before does not have it, and would be refused. Make it optional and say what its absence means.",
    category: Category::Validation,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["MESSAGE_SAME_REQUIRED_FIELDS"],
};
pub(super) static ENUM_VALUE_ADDED_DEFINED_ONLY: Rule = Rule {
    id: "ENUM_VALUE_ADDED_DEFINED_ONLY",
    behaviours: &["V-31"],
    purpose: "Readers that refuse unknown values of an enum are thought of when it grows",
    why: "A reader of the old version with `defined_only` refuses the whole resource. Send the value only to clients that are known to understand it.",
    category: Category::Validation,
    profiles: Profiles::WARNING,
    compares: Compares::Pair,
    buf: &[],
};
pub(super) const RULES: &[&Rule] = &[&FIELD_ADDED_REQUIRED, &ENUM_VALUE_ADDED_DEFINED_ONLY];

/// A field that is added, and must be set.
pub(super) fn required(tree: &Tree, owner: &Message, new: &Field) -> Option<Fact> {
    let demanded = new.cardinality == Cardinality::Required
        || validation::of_field(tree, owner, new).require_a_value();
    let message = format!("added to {}, and must be set", owner.short_name());
    demanded.then(|| Fact::new(&FIELD_ADDED_REQUIRED, message, "", "required"))
}

/// For each enum of which old readers refuse unknown numbers, one field that does.
pub(super) fn strictly_read(old: &Tree) -> HashMap<EnumId, Name> {
    let mut strict = HashMap::new();
    for message in &old.messages {
        for field in &message.fields {
            let kind = old
                .map_entry(field)
                .map_or(field.kind, |(_, value)| value.kind);
            let Kind::Enum(id) = kind else { continue };
            if !strict.contains_key(&id)
                && validation::of_field(old, message, field).only_defined_values()
            {
                strict.insert(id, format!("{}.{}", message.name, field.name).into());
            }
        }
    }
    strict
}

/// A value that is added to an enum that old readers take strictly.
pub(super) fn value(
    member: &Member<'_, Enum, EnumValue>,
    strict: &HashMap<EnumId, Name>,
) -> Option<Fact> {
    let Pair::Added(new) = member.pair else {
        return None;
    };
    let owner = member.old_owner;
    if owner.values.iter().any(|value| value.number == new.number) {
        return None;
    }
    let field = strict.get(&owner.id)?;
    let message = format!("added to an enum of which {field} takes defined values only");
    let what = format!("{} = {}", new.name, new.number);
    Some(Fact::new(&ENUM_VALUE_ADDED_DEFINED_ONLY, message, "", what))
}
