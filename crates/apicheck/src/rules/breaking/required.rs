//! Additions that every message must set.

use crate::compare::{Member, Pair};
use crate::model::{Cardinality, Field, Message, Oneof, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::Fact;
use crate::validation;

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&FIELD_ADDED_REQUIRED];

static FIELD_ADDED_REQUIRED: Rule = Rule {
    id: "FIELD_ADDED_REQUIRED",
    behaviours: &["V-31"],
    purpose: "An added field or oneof is not required",
    why: "Existing configurations do not set it and would become invalid. Make it optional and document the meaning of its absence.",
    category: Category::Validation,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["MESSAGE_SAME_REQUIRED_FIELDS"],
};

/// Reports an added field that must be set.
pub(super) fn field(tree: &Tree, owner: &Message, new: &Field) -> Option<Fact> {
    let demanded = new.cardinality == Cardinality::Required
        || validation::of_field(tree, owner, new).require_a_value();
    demanded.then(|| added(owner, "field"))
}

/// Reports an added oneof that requires one of its members.
pub(super) fn oneof(member: &Member<'_, Message, Oneof>) -> Option<Fact> {
    let Pair::Added(new) = member.pair else {
        return None;
    };
    let owner = member.new_owner;
    let demanded = validation::of_oneof(owner, new).require_a_value();
    demanded.then(|| added(owner, "oneof"))
}

fn added(owner: &Message, sort: &str) -> Fact {
    let message = format!("added to {} as a required {sort}", owner.short_name());
    Fact::new(&FIELD_ADDED_REQUIRED, message, "", "required")
}
