//! Oneofs that both trees contain, and their members.

use crate::compare::{Comparison, Fate, Member, Pair};
use crate::model::{Field, Message, Oneof};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&FIELD_ONEOF_CHANGED, &FIELD_ONEOF_WRAPPED, &ONEOF_RENAMED];

static ONEOF_RENAMED: Rule = Rule {
    id: "ONEOF_RENAMED",
    behaviours: &["V-30"],
    purpose: "A oneof keeps its name",
    why: "Neither bytes nor JSON contain it, but the case accessors and Go's interface do.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
};

/// Reports a renamed oneof. Removed and added oneofs are reported at their fields.
pub(super) fn renamed(member: &Member<'_, Message, Oneof>) -> Vec<Fact> {
    match member.pair {
        Pair::Both {
            old,
            new,
            fate: Fate::Renamed,
        } => {
            let message = format!("renamed from {} to {}", old.name, new.name);
            vec![Fact::new(&ONEOF_RENAMED, message, &*old.name, &*new.name).breaks(ALL)]
        }
        _ => Vec::new(),
    }
}

static FIELD_ONEOF_CHANGED: Rule = Rule {
    id: "FIELD_ONEOF_CHANGED",
    behaviours: &["V-27"],
    purpose: "A field does not move into, out of or between oneofs",
    why: "Readers keep only the last member of a oneof, so one of two set values is lost. Generated code changes, too. Annotate `(udpa.annotations.field_migrate).oneof_promotion`, and the next major makes the change.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
};

static FIELD_ONEOF_WRAPPED: Rule = Rule {
    id: "FIELD_ONEOF_WRAPPED",
    behaviours: &["V-28", "V-29", "V-30"],
    purpose: "A field does not move into or out of a oneof of its own",
    why: "Bytes and JSON are compatible, but Go gets an interface instead of a field, and the other languages get a case. Annotate `(udpa.annotations.field_migrate).oneof_promotion`.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
};

/// Reports a field that moved into, out of or between oneofs.
pub(super) fn membership(
    comparison: &Comparison<'_>,
    (earlier, old): (&Message, &Field),
    (current, new): (&Message, &Field),
) -> Option<Fact> {
    // Compare by paired oneofs: a renamed oneof has its own finding (V-27).
    let expected = old
        .oneof
        .and_then(|index| comparison.new_oneof(earlier.id, index));
    if expected == new.oneof && old.oneof.is_some() == new.oneof.is_some() {
        return None;
    }
    let name = |message: &Message, index: Option<usize>| {
        index
            .and_then(|index| message.oneofs.get(index))
            .map(|oneof| oneof.name.to_string())
    };
    let (from, to) = (name(earlier, old.oneof), name(current, new.oneof));
    let message = match (&from, &to) {
        (None, Some(to)) => format!("moved into oneof {to}"),
        (Some(from), None) => format!("moved out of oneof {from}"),
        (from, to) => format!(
            "moved from oneof {} to {}",
            from.as_deref().unwrap_or_default(),
            to.as_deref().unwrap_or_default()
        ),
    };
    // Alone in its oneof, a field cannot clear another one: only the generated code changes.
    let alone = match (old.oneof, new.oneof) {
        (None, Some(index)) => {
            let mut members = current
                .fields
                .iter()
                .filter(|field| field.oneof == Some(index));
            members.all(|field| field.number == new.number || earlier.field(field.number).is_none())
                && !earlier
                    .oneofs
                    .iter()
                    .any(|oneof| Some(&*oneof.name) == to.as_deref())
        }
        (Some(index), None) => {
            earlier
                .fields
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
