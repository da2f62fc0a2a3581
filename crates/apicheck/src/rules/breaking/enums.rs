//! Enums that both trees contain, and their values.

use std::collections::HashMap;

use super::reserved::{removed_after_deprecation, reused};
use crate::compare::{Fate, Member, Pair};
use crate::model::{Enum, EnumId, EnumValue, Kind, Name, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};
use crate::validation;

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &ENUM_OPENNESS_CHANGED,
    &ENUM_VALUE_REMOVED,
    &ENUM_VALUE_RENUMBERED,
    &ENUM_VALUE_RENAMED,
    &ENUM_ZERO_CHANGED,
    &ENUM_VALUE_ADDED_DEFINED_ONLY,
];

static ENUM_OPENNESS_CHANGED: Rule = Rule {
    id: "ENUM_OPENNESS_CHANGED",
    behaviours: &["V-27"],
    purpose: "An open enum stays open, and a closed enum stays closed",
    why: "Readers of a closed enum move unknown numbers to the unknown fields. Readers of an open enum keep them in the field.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["ENUM_SAME_TYPE"],
};

/// Reports an enum that became open or closed.
pub(super) fn openness(old: &Enum, new: &Enum) -> Option<Fact> {
    let word = |closed| if closed { "closed" } else { "open" };
    // Closed enums move unknown numbers to the unknown fields, open enums keep them (V-27).
    (old.closed != new.closed).then(|| {
        let (earlier, current) = (word(old.closed), word(new.closed));
        Fact::new(
            &ENUM_OPENNESS_CHANGED,
            format!("changed from {earlier} to {current}"),
            earlier,
            current,
        )
    })
}

static ENUM_VALUE_RENUMBERED: Rule = Rule {
    id: "ENUM_VALUE_RENUMBERED",
    behaviours: &["V-27"],
    purpose: "An enum value keeps its number",
    why: "The number is sent on the wire: old peers read another value. Add a value.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_SAME_NAME",
    ],
};

/// Reports the change of an enum value. `strict` is the result of [`strictly_read`].
pub(super) fn value(
    member: &Member<'_, Enum, EnumValue>,
    strict: &HashMap<EnumId, Name>,
) -> Option<Fact> {
    match member.pair {
        Pair::Removed(old) => Some(value_removed(old, member.new_owner)),
        Pair::Added(new) => {
            value_reused(member.old_owner, new).or_else(|| value_added(member, strict))
        }
        Pair::Both { old, new, fate } => match fate {
            Fate::Kept => None,
            Fate::Renumbered => {
                let message = format!("renumbered from {} to {}", old.number, new.number);
                let (earlier, current) = (old.number.to_string(), new.number.to_string());
                Some(Fact::new(&ENUM_VALUE_RENUMBERED, message, earlier, current))
            }
            Fate::Renamed | Fate::Replaced => Some(value_renamed(old, new)),
        },
    }
}

static ENUM_VALUE_REMOVED: Rule = Rule {
    id: "ENUM_VALUE_REMOVED",
    behaviours: &["V-36"],
    purpose: "An enum value is deprecated before it is removed",
    why: "Old configurations still use it. Deprecate it, wait for the end of the window, then reserve number and name.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};

static ENUM_ZERO_CHANGED: Rule = Rule {
    id: "ENUM_ZERO_CHANGED",
    behaviours: &["V-37", "V-28"],
    purpose: "The zero value of an enum keeps its name and meaning",
    why: "Every unset field has this value. Start an enum with `…_UNSPECIFIED`, so that its meaning never changes.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_SAME_NAME",
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
    ],
};

fn value_removed(old: &EnumValue, owner: &Enum) -> Fact {
    let what = format!("{} = {}", old.name, old.number);
    let alias = owner.values.iter().any(|value| value.number == old.number);
    // Every unset field has the zero value, so its meaning must not change (V-37).
    if old.number == 0 && !alias {
        return Fact::new(&ENUM_ZERO_CHANGED, "the zero value was removed", what, "").breaks(ALL);
    }
    // Stable-API policy: a value must be deprecated before its removal (V-36).
    if !old.options.deprecated() {
        let message = "removed without having been deprecated";
        return Fact::new(&ENUM_VALUE_REMOVED, message, what, "").breaks(ALL);
    }
    let number_kept = alias
        || owner
            .reserved
            .numbers
            .iter()
            .any(|range| range.contains(old.number));
    let name_kept = owner.reserved.names.contains(&old.name);
    removed_after_deprecation(&old.name, old.number, (number_kept, name_kept))
}

fn value_reused(earlier: &Enum, new: &EnumValue) -> Option<Fact> {
    // A reservation marks a removed value, whose number old writers still send (V-27).
    let reserved = if earlier
        .reserved
        .numbers
        .iter()
        .any(|range| range.contains(new.number))
    {
        format!("reserved {}", new.number)
    } else if earlier.reserved.names.contains(&new.name) {
        format!("reserved \"{}\"", new.name)
    } else {
        return None;
    };
    let message = "uses a number or name that was reserved".to_owned();
    Some(reused(message, reserved, &new.name))
}

static ENUM_VALUE_RENAMED: Rule = Rule {
    id: "ENUM_VALUE_RENAMED",
    behaviours: &["V-28", "V-29"],
    purpose: "An enum value keeps its name",
    why: "JSON and YAML files contain it. Annotate `(udpa.annotations.enum_value_migrate).rename`, or add the new name as an alias after the old one.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_SAME_NAME",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};

fn value_renamed(old: &EnumValue, new: &EnumValue) -> Fact {
    let rule = if old.number == 0 {
        &ENUM_ZERO_CHANGED
    } else {
        &ENUM_VALUE_RENAMED
    };
    let message = format!("renamed from {} to {}", old.name, new.name);
    let fix = format!(
        "keep the name, and annotate [(udpa.annotations.enum_value_migrate).rename = \"{}\"]",
        new.name
    );
    Fact::new(rule, message, &*old.name, &*new.name)
        .breaks(ALL)
        .fix(fix)
}

/// Returns, for each enum that readers of the old version check with `defined_only`, one such
/// field.
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

static ENUM_VALUE_ADDED_DEFINED_ONLY: Rule = Rule {
    id: "ENUM_VALUE_ADDED_DEFINED_ONLY",
    behaviours: &["V-31"],
    purpose: "No value is added to an enum that readers check with `defined_only`",
    why: "A reader of the old version with `defined_only` rejects the whole resource. Send the value only to clients that are known to support it.",
    category: Category::Validation,
    profiles: Profiles::WARNING,
    compares: Compares::Pair,
    buf: &[],
};

/// Reports a value that is added to such an enum.
fn value_added(
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
    // PGV `enum.defined_only`: readers of the old version reject the new value (V-31).
    let field = strict.get(&owner.id)?;
    let message = format!("added to an enum that {field} checks with defined_only");
    let what = format!("{} = {}", new.name, new.number);
    Some(Fact::new(&ENUM_VALUE_ADDED_DEFINED_ONLY, message, "", what))
}
