//! Fields of messages that both trees have.

use super::text;
use super::types::{self, Break};
use crate::compare::{Comparison, Fate, Member, Pair};
use crate::finding::Language;
use crate::model::{Cardinality, Field, Kind, Message, Scalar, Tree};
use crate::rules::additions;
use crate::rules::fact::{ALL, Fact};
use crate::rules::json::{
    FIELD_JSON_LIST_CHANGED, FIELD_JSON_NAME_CHANGED, FIELD_JSON_TYPE_CHANGED, FIELD_RENAMED,
};
use crate::rules::removal::{DEPRECATED_REMOVED, FIELD_REMOVED, REMOVED_UNRESERVED};
use crate::rules::source::{
    FIELD_ONEOF_WRAPPED, FIELD_OPTION_CHANGED, FIELD_PRESENCE_CHANGED, FIELD_STUB_TYPE_CHANGED,
};
use crate::rules::wire::{
    FIELD_CARDINALITY_CHANGED, FIELD_DEFAULT_CHANGED, FIELD_NUMBER_REUSED, FIELD_ONEOF_CHANGED,
    FIELD_RENUMBERED, FIELD_TYPE_CHANGED,
};

/// All that is wrong with a field, the worst first.
pub(super) fn facts(comparison: &Comparison<'_>, member: &Member<'_, Message, Field>) -> Vec<Fact> {
    let (was, is) = (member.old_owner, member.new_owner);
    match member.pair {
        Pair::Removed(old) => vec![removed(old, is)],
        Pair::Added(new) => added(comparison.new, was, is, new).into_iter().collect(),
        Pair::Both {
            old,
            new,
            fate: Fate::Replaced,
        } => {
            vec![replaced(comparison, old, new)]
        }
        Pair::Both { old, new, fate } => [
            identity(old, new, fate),
            shape(comparison, old, new),
            oneof(comparison, (was, old), (is, new)),
            presence(old, new),
            default(old, new),
        ]
        .into_iter()
        .flatten()
        .chain(options(old, new))
        .collect(),
    }
}

fn removed(old: &Field, owner: &Message) -> Fact {
    let what = format!("{} = {}", old.name, old.number);
    if !old.options.deprecated() {
        return Fact::new(
            &FIELD_REMOVED,
            "removed without having been deprecated",
            what,
            "",
        )
        .breaks(ALL);
    }
    let name_kept = owner.reserved_names.contains(&old.name);
    if owner.reserves(old.number) && name_kept {
        return Fact::new(&DEPRECATED_REMOVED, "deprecated, and removed now", what, "").breaks(ALL);
    }
    let fix = format!("reserved {}; reserved \"{}\";", old.number, old.name);
    Fact::new(&REMOVED_UNRESERVED, "removed, but not reserved", what, "")
        .breaks(ALL)
        .fix(fix)
}

fn added(tree: &Tree, was: &Message, is: &Message, new: &Field) -> Option<Fact> {
    if let Some(taken) = was.field(new.number) {
        let message = format!(
            "uses number {}, which belonged to {}",
            new.number, taken.name
        );
        return Some(Fact::new(
            &FIELD_NUMBER_REUSED,
            message,
            &*taken.name,
            &*new.name,
        ));
    }
    if was.reserves(new.number) {
        let message = format!("uses number {}, which was reserved", new.number);
        let reserved = format!("reserved {}", new.number);
        return Some(Fact::new(
            &FIELD_NUMBER_REUSED,
            message,
            reserved,
            &*new.name,
        ));
    }
    if was.reserved_names.contains(&new.name) {
        let reserved = format!("reserved \"{}\"", new.name);
        let message = "uses a name that was reserved";
        return Some(Fact::new(
            &FIELD_NUMBER_REUSED,
            message,
            reserved,
            &*new.name,
        ));
    }
    additions::required(tree, is, new)
}

fn replaced(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Fact {
    let old_text = format!("{} {}", text::type_of(comparison.old, old), old.name);
    let new_text = format!("{} {}", text::type_of(comparison.new, new), new.name);
    let message = format!("uses number {}, which belonged to {old_text}", new.number);
    Fact::new(&FIELD_NUMBER_REUSED, message, old_text, new_text).breaks(ALL)
}

/// Name, number, name in JSON.
fn identity(old: &Field, new: &Field, fate: Fate) -> Option<Fact> {
    if fate == Fate::Renumbered {
        let message = format!("renumbered from {} to {}", old.number, new.number);
        let (was, is) = (old.number.to_string(), new.number.to_string());
        return Some(Fact::new(&FIELD_RENUMBERED, message, was, is));
    }
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
    (old.json_name != new.json_name).then(|| {
        let message = format!("is {} in JSON, and was {}", new.json_name, old.json_name);
        let fact = Fact::new(
            &FIELD_JSON_NAME_CHANGED,
            message,
            &*old.json_name,
            &*new.json_name,
        );
        fact.fix(format!("json_name = \"{}\"", old.json_name))
    })
}

/// Label and type.
fn shape(comparison: &Comparison<'_>, old: &Field, new: &Field) -> Option<Fact> {
    let (was, is) = (
        text::type_of(comparison.old, old),
        text::type_of(comparison.new, new),
    );
    if coarse(old.cardinality) != coarse(new.cardinality) {
        let label = |field: &Field, kind: &str| match field.cardinality {
            Cardinality::Map => kind.to_owned(),
            other => format!("{} {kind}", text::cardinality(other)),
        };
        let (was, is) = (label(old, &was), label(new, &is));
        let message = format!("is {is}, and was {was}");
        return Some(Fact::new(cardinality_rule(old, new), message, was, is).breaks(ALL));
    }
    let rule = match types::broken(comparison, old, new)? {
        Break::Wire => &FIELD_TYPE_CHANGED,
        Break::Json => &FIELD_JSON_TYPE_CHANGED,
        Break::Stub => &FIELD_STUB_TYPE_CHANGED,
    };
    let message = format!("type changed from {was} to {is}");
    Some(Fact::new(rule, message, was, is).breaks(ALL))
}

/// Labels, presence apart.
fn coarse(cardinality: Cardinality) -> Cardinality {
    match cardinality {
        Cardinality::Explicit => Cardinality::Implicit,
        other => other,
    }
}

/// One string, bytes or message is read from many (the last, or all merged) and the other way round; packed numbers are not, and
/// what changes type besides is not either.
fn cardinality_rule(old: &Field, new: &Field) -> &'static crate::rule::Rule {
    let many = |field: &Field| field.cardinality == Cardinality::Repeated;
    let one = |field: &Field| coarse(field.cardinality) == Cardinality::Implicit;
    let prefixed = |field: &Field| {
        matches!(
            field.kind,
            Kind::Message(_) | Kind::Scalar(Scalar::String | Scalar::Bytes)
        )
    };
    let same_sort = std::mem::discriminant(&old.kind) == std::mem::discriminant(&new.kind);
    let lists = (many(old) && one(new)) || (one(old) && many(new));
    if lists && same_sort && prefixed(old) && prefixed(new) {
        &FIELD_JSON_LIST_CHANGED
    } else {
        &FIELD_CARDINALITY_CHANGED
    }
}

fn oneof(
    comparison: &Comparison<'_>,
    (was, old): (&Message, &Field),
    (is, new): (&Message, &Field),
) -> Option<Fact> {
    let expected = old
        .oneof
        .and_then(|index| comparison.new_oneof(was.id, index));
    if expected == new.oneof && old.oneof.is_some() == new.oneof.is_some() {
        return None;
    }
    let name = |message: &Message, index: Option<usize>| {
        index
            .and_then(|index| message.oneofs.get(index))
            .map(|oneof| oneof.name.to_string())
    };
    let (from, to) = (name(was, old.oneof), name(is, new.oneof));
    let message = match (&from, &to) {
        (None, Some(to)) => format!("moved into oneof {to}"),
        (Some(from), None) => format!("moved out of oneof {from}"),
        (from, to) => format!(
            "moved from oneof {} to {}",
            from.as_deref().unwrap_or_default(),
            to.as_deref().unwrap_or_default()
        ),
    };
    // Alone in its oneof, a field loses nothing to another: only the stubs change.
    let alone = match (old.oneof, new.oneof) {
        (None, Some(index)) => {
            let mut members = is.fields.iter().filter(|field| field.oneof == Some(index));
            members.all(|field| field.number == new.number || was.field(field.number).is_none())
                && !was
                    .oneofs
                    .iter()
                    .any(|oneof| Some(&*oneof.name) == to.as_deref())
        }
        (Some(index), None) => {
            was.fields
                .iter()
                .filter(|field| field.oneof == Some(index))
                .count()
                == 1
        }
        _ => false,
    };
    let rule = if alone {
        &FIELD_ONEOF_WRAPPED
    } else {
        &FIELD_ONEOF_CHANGED
    };
    let fix = to.as_ref().map(|to| {
        format!(
            "leave it, and annotate [(udpa.annotations.field_migrate).oneof_promotion = \"{to}\"]"
        )
    });
    let fact = Fact::new(
        rule,
        message,
        from.unwrap_or_default(),
        to.unwrap_or_default(),
    );
    Some(Fact {
        fix,
        ..fact.breaks(ALL)
    })
}

/// `optional` added or taken away. Members of oneofs have presence from it, which is judged there.
fn presence(old: &Field, new: &Field) -> Option<Fact> {
    if old.oneof.is_some() || new.oneof.is_some() || matches!(new.kind, Kind::Message(_)) {
        return None;
    }
    let (was, is) = (old.cardinality, new.cardinality);
    let message = match (was, is) {
        (Cardinality::Implicit, Cardinality::Explicit) => "became optional",
        (Cardinality::Explicit, Cardinality::Implicit) => "is no longer optional",
        _ => return None,
    };
    let fact = Fact::new(
        &FIELD_PRESENCE_CHANGED,
        message,
        text::cardinality(was),
        text::cardinality(is),
    );
    Some(fact.breaks(ALL))
}

fn default(old: &Field, new: &Field) -> Option<Fact> {
    if old.default == new.default {
        return None;
    }
    let text = |field: &Field| field.default.as_deref().unwrap_or("none").to_owned();
    let (was, is) = (text(old), text(new));
    let message = format!("default changed from {was} to {is}");
    Some(Fact::new(&FIELD_DEFAULT_CHANGED, message, was, is))
}

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
        let (was, is) = (number(old), number(new));
        (was != is).then(|| {
            let message = format!("option {name} changed");
            let (was, is) = (was.to_string(), is.to_string());
            Fact::new(&FIELD_OPTION_CHANGED, message, was, is).breaks(languages)
        })
    })
}
