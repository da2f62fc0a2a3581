//! Fields of messages that both trees contain.

use super::reserved::{removed_after_deprecation, reused};
use super::{oneofs, required, shape, text};
use crate::compare::{Comparison, Fate, Member, Pair};
use crate::finding::Language;
use crate::model::{Cardinality, Field, Kind, Message, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &FIELD_RENUMBERED,
    &FIELD_RENAMED,
    &FIELD_JSON_NAME_CHANGED,
    &FIELD_PRESENCE_CHANGED,
    &FIELD_DEFAULT_CHANGED,
    &FIELD_OPTION_CHANGED,
    &FIELD_REMOVED,
];

/// Returns all changes of a field, the most severe first.
pub(super) fn facts(comparison: &Comparison<'_>, member: &Member<'_, Message, Field>) -> Vec<Fact> {
    let (earlier, current) = (member.old_owner, member.new_owner);
    match member.pair {
        Pair::Removed(old) => vec![removed(old, current)],
        Pair::Added(new) => added(comparison.new, earlier, current, new)
            .into_iter()
            .collect(),
        Pair::Both {
            old,
            new,
            fate: Fate::Replaced,
        } => {
            vec![replaced(comparison, old, new)]
        }
        Pair::Both { old, new, fate } => [
            identity(old, new, fate),
            shape::changed(comparison, old, new),
            oneofs::membership(comparison, (earlier, old), (current, new)),
            presence(old, new),
            default(old, new),
        ]
        .into_iter()
        .flatten()
        .chain(options(old, new))
        .collect(),
    }
}

static FIELD_REMOVED: Rule = Rule {
    id: "FIELD_REMOVED",
    behaviours: &["V-36"],
    purpose: "A field is deprecated before it is removed",
    why: "Old configurations still set it. They are rejected or silently change their meaning. Deprecate it, wait for the end of the window, then reserve number and name.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "ONEOF_NO_DELETE",
    ],
};

fn removed(old: &Field, owner: &Message) -> Fact {
    // Stable-API policy: a field must be deprecated before its removal (V-36).
    if !old.options.deprecated() {
        let what = format!("{} = {}", old.name, old.number);
        let message = "removed without having been deprecated";
        return Fact::new(&FIELD_REMOVED, message, what, "").breaks(ALL);
    }
    let kept = (
        owner.reserves(old.number),
        owner.reserved.names.contains(&old.name),
    );
    removed_after_deprecation(&old.name, old.number, kept)
}

fn added(tree: &Tree, earlier: &Message, current: &Message, new: &Field) -> Option<Fact> {
    let (number, name) = (new.number, &new.name);
    // Old writers still use a removed number or name with its old meaning (V-27).
    let (message, old) = if let Some(taken) = earlier.field(number) {
        let message = format!("uses number {number}, which belonged to {}", taken.name);
        (message, taken.name.to_string())
    } else if earlier.reserves(number) {
        let message = format!("uses number {number}, which was reserved");
        (message, format!("reserved {number}"))
    } else if earlier.reserved.names.contains(name) {
        let message = "uses a name that was reserved".to_owned();
        (message, format!("reserved \"{name}\""))
    } else {
        return required::field(tree, current, new);
    };
    Some(reused(message, old, name))
}

fn replaced(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Fact {
    let old_text = format!("{} {}", text::type_of(comparison.old, old), old.name);
    let new_text = format!("{} {}", text::type_of(comparison.new, new), new.name);
    let message = format!("uses number {}, which belonged to {old_text}", new.number);
    reused(message, old_text, &new_text).breaks(ALL)
}

static FIELD_RENUMBERED: Rule = Rule {
    id: "FIELD_RENUMBERED",
    behaviours: &["V-27"],
    purpose: "A field keeps its number",
    why: "The number identifies a field on the wire: old bytes are read as another field, or lost. Add a new field and deprecate the old one.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
    ],
};

static FIELD_RENAMED: Rule = Rule {
    id: "FIELD_RENAMED",
    behaviours: &["V-28", "V-29"],
    purpose: "A field keeps its name",
    why: "JSON and YAML files and generated code contain the name. Annotate `(udpa.annotations.field_migrate).rename`, and the next major makes the change.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};

static FIELD_JSON_NAME_CHANGED: Rule = Rule {
    id: "FIELD_JSON_NAME_CHANGED",
    behaviours: &["V-28"],
    purpose: "A field keeps its name in JSON",
    why: "Files with the old name are rejected, or the field is ignored.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_JSON_NAME"],
};

/// Compares the name, the number and the JSON name.
fn identity(old: &Field, new: &Field, fate: Fate) -> Option<Fact> {
    // Protobuf language guide, "Updating A Message Type": a field never changes its number (V-27).
    if fate == Fate::Renumbered {
        let message = format!("renumbered from {} to {}", old.number, new.number);
        let (earlier, current) = (old.number.to_string(), new.number.to_string());
        return Some(Fact::new(&FIELD_RENUMBERED, message, earlier, current));
    }
    // Stable-API policy: a rename is annotated first, and the next major applies it (V-29).
    if fate == Fate::Renamed {
        let message = format!("renamed from {} to {}", old.name, new.name);
        let fix = format!(
            "keep the name, and annotate [(udpa.annotations.field_migrate).rename = \"{}\"]",
            new.name
        );
        return Some(
            Fact::new(&FIELD_RENAMED, message, &*old.name, &*new.name)
                .breaks(ALL)
                .fix(fix),
        );
    }
    // JSON and YAML files use the JSON name (V-28).
    (old.json_name != new.json_name).then(|| {
        let message = format!(
            "JSON name changed from {} to {}",
            old.json_name, new.json_name
        );
        let fact = Fact::new(
            &FIELD_JSON_NAME_CHANGED,
            message,
            &*old.json_name,
            &*new.json_name,
        );
        fact.fix(format!("json_name = \"{}\"", old.json_name))
    })
}

static FIELD_PRESENCE_CHANGED: Rule = Rule {
    id: "FIELD_PRESENCE_CHANGED",
    behaviours: &["V-30"],
    purpose: "A field keeps or lacks `optional` as before",
    why: "The change adds or removes `has_…`, and turns a value into a pointer in Go.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_CARDINALITY"],
};

/// Reports an added or removed `optional`. Members of a oneof always have presence, and `oneof`
/// reports their changes.
fn presence(old: &Field, new: &Field) -> Option<Fact> {
    if old.oneof.is_some() || new.oneof.is_some() || matches!(new.kind, Kind::Message(_)) {
        return None;
    }
    let (earlier, current) = (old.cardinality, new.cardinality);
    let message = match (earlier, current) {
        (Cardinality::Implicit, Cardinality::Explicit) => "became optional",
        (Cardinality::Explicit, Cardinality::Implicit) => "is no longer optional",
        _ => return None,
    };
    let fact = Fact::new(
        &FIELD_PRESENCE_CHANGED,
        message,
        text::cardinality(earlier),
        text::cardinality(current),
    );
    Some(fact.breaks(ALL))
}

static FIELD_DEFAULT_CHANGED: Rule = Rule {
    id: "FIELD_DEFAULT_CHANGED",
    behaviours: &["V-27"],
    purpose: "A proto2 field keeps its default value",
    why: "Readers with the new code read an unset field as another value.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_DEFAULT"],
};

fn default(old: &Field, new: &Field) -> Option<Fact> {
    if old.default == new.default {
        return None;
    }
    let text = |field: &Field| field.default.as_deref().unwrap_or("none").to_owned();
    let (earlier, current) = (text(old), text(new));
    let message = format!("default changed from {earlier} to {current}");
    Some(Fact::new(&FIELD_DEFAULT_CHANGED, message, earlier, current))
}

static FIELD_OPTION_CHANGED: Rule = Rule {
    id: "FIELD_OPTION_CHANGED",
    behaviours: &["V-30"],
    purpose: "Field options for accessors do not change",
    why: "`ctype` changes the string type of C++, `jstype` the number type of JavaScript.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_CPP_STRING_TYPE", "FIELD_SAME_JSTYPE"],
};

fn options(old: &Field, new: &Field) -> impl Iterator<Item = Fact> {
    const SHAPING: [(&str, &[Language]); 2] = [("ctype", &[Language::Cpp]), ("jstype", &[])];
    SHAPING.into_iter().filter_map(|(name, languages)| {
        // The enums of both options have their default at 0.
        let number = |field: &Field| {
            let value = field
                .options
                .get(name)
                .and_then(prost_reflect::Value::as_enum_number);
            value.unwrap_or_default()
        };
        let (earlier, current) = (number(old), number(new));
        (earlier != current).then(|| {
            let message = format!("option {name} changed");
            let (earlier, current) = (earlier.to_string(), current.to_string());
            Fact::new(&FIELD_OPTION_CHANGED, message, earlier, current).breaks(languages)
        })
    })
}
