//! Validation that changes (V-32, V-33): rules of `validate.rules` and `buf.validate`, by meaning.

use crate::compare::{Comparison, Fate, Member, Pair};
use crate::finding::{Finding, Location, Severity};
use crate::model::{Cardinality, Field, Message, Place, Source};
use crate::rule::{Category, Compares, Profile, Profiles, Rule};
use crate::validation::{self, Aspect, Change, Direction};

/// The table of this group.
pub(crate) const RULES: &[&Rule] = &[
    &REQUIRED_ADDED,
    &BOUND_TIGHTENED,
    &VALUES_TIGHTENED,
    &DEFINED_ONLY_ADDED,
    &LENGTH_TIGHTENED,
    &COUNT_TIGHTENED,
    &FORMAT_TIGHTENED,
    &ITEMS_TIGHTENED,
    &EMPTY_REFUSED,
    &EXPRESSION_TIGHTENED,
    &SWITCHED_ON,
    &LOOSENED,
];

const WHY: &str = "A configuration that was accepted is refused after the upgrade, though it still \
    parses. Inside a stable major validation may only loosen: put the new demand into the code as a \
    warning, or keep it for the next major.";

const fn tightening(id: &'static str, purpose: &'static str, why: &'static str) -> Rule {
    Rule {
        id,
        behaviours: &["V-32"],
        purpose,
        why,
        category: Category::Validation,
        profiles: Profiles::ERROR,
        compares: Compares::Pair,
        buf: &[],
    }
}

/// A field or a oneof must be set now.
pub const REQUIRED_ADDED: Rule = tightening(
    "VALIDATION_REQUIRED_ADDED",
    "A field or oneof that could be left out can still be left out",
    WHY,
);

/// A limit of a number, a duration or a time moved inward.
pub const BOUND_TIGHTENED: Rule = tightening(
    "VALIDATION_BOUND_TIGHTENED",
    "Limits of numbers, durations and times do not move inward",
    WHY,
);

/// `const`, `in` shrank, `not_in` grew.
pub const VALUES_TIGHTENED: Rule = tightening(
    "VALIDATION_VALUES_TIGHTENED",
    "Values that were allowed by const, in and not_in stay allowed",
    WHY,
);

/// `defined_only` on an enum.
pub const DEFINED_ONLY_ADDED: Rule = tightening(
    "VALIDATION_DEFINED_ONLY_ADDED",
    "An enum that took undeclared numbers still takes them",
    "Older readers refuse the values that are added later, so every addition to the enum becomes \
     a breaking change. Keep the enum open inside a stable major.",
);

/// Shorter longest, longer shortest texts.
pub const LENGTH_TIGHTENED: Rule = tightening(
    "VALIDATION_LENGTH_TIGHTENED",
    "Strings and bytes of a length that was allowed stay allowed",
    WHY,
);

/// Fewer or more items demanded.
pub const COUNT_TIGHTENED: Rule = tightening(
    "VALIDATION_COUNT_TIGHTENED",
    "Lists and maps of a size that was allowed stay allowed",
    WHY,
);

/// Patterns, prefixes, well-known formats.
pub const FORMAT_TIGHTENED: Rule = tightening(
    "VALIDATION_FORMAT_TIGHTENED",
    "Patterns, prefixes, suffixes, contents and well-known formats do not become stricter",
    "Texts that were accepted are refused after the upgrade. Whether one pattern accepts all that \
     another does is not decided here: a changed pattern counts as stricter. When it is not, write \
     an exception with the reason.",
);

/// `unique`, `no_sparse`.
pub const ITEMS_TIGHTENED: Rule = tightening(
    "VALIDATION_ITEMS_TIGHTENED",
    "Lists that could repeat an item, and maps that could leave out a value, still can",
    WHY,
);

/// `ignore_empty` taken away.
pub const EMPTY_REFUSED: Rule = tightening(
    "VALIDATION_EMPTY_REFUSED",
    "An empty value that was left unchecked stays unchecked",
    "proto3 cannot tell an unset value from an empty one: a configuration that never set the field \
     is refused after the upgrade.",
);

/// CEL, and rules unknown to this program.
pub const EXPRESSION_TIGHTENED: Rule = tightening(
    "VALIDATION_EXPRESSION_TIGHTENED",
    "CEL expressions and custom rules are not added or changed",
    "They are compared as text, since what they accept cannot be told in general. When the new \
     one accepts all that the old one did, write an exception with the reason.",
);

/// `disabled`, `ignored`, `skip` taken away.
pub const SWITCHED_ON: Rule = tightening(
    "VALIDATION_SWITCHED_ON",
    "A message or field whose validation was switched off stays unchecked",
    "All rules inside come into force at once, for configurations that never met them.",
);

/// Any rule became weaker.
pub const LOOSENED: Rule = Rule {
    id: "VALIDATION_LOOSENED",
    behaviours: &["V-32", "V-33"],
    purpose: "Validation that accepts more is told, and refused in strict mode",
    why: "Older readers refuse what newer ones accept, so writers must not use the new freedom \
          before all readers have it. That is allowed inside a major unless validation is strict.",
    category: Category::Validation,
    profiles: Profiles::NOTE,
    compares: Compares::Pair,
    buf: &[],
};

/// How changes of validation are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Tightening is an error, loosening a note (V-32).
    #[default]
    ByMeaning,
    /// Any change of what is accepted is an error (V-33). Another spelling of the same is none.
    Strict,
}

/// All changes of validation between two trees.
#[must_use]
pub fn find(comparison: &Comparison<'_>, profile: Profile, mode: Mode) -> Vec<Finding> {
    let (old, new) = (comparison.old, comparison.new);
    let mut report = Report {
        comparison,
        profile,
        mode,
        findings: Vec::new(),
    };
    for (was, is) in comparison.messages.iter().filter_map(Pair::both) {
        let changes =
            validation::changes(&validation::of_message(was), &validation::of_message(is));
        report.add(changes, &is.name, (was, &was.source), (is, &is.source));
    }
    for Member {
        old_owner,
        new_owner,
        pair,
    } in &comparison.fields
    {
        if let Some((was, is)) = pair.both()
            && is_comparable(comparison, pair, was, is)
            && switched(old_owner) == switched(new_owner)
        {
            let old_rules = validation::of_field(old, old_owner, was);
            let new_rules = validation::of_field(new, new_owner, is);
            let element = format!("{}.{}", new_owner.name, is.name);
            let changes = validation::changes(&old_rules, &new_rules);
            report.add(
                changes,
                &element,
                (old_owner, &was.source),
                (new_owner, &is.source),
            );
        }
    }
    for Member {
        old_owner,
        new_owner,
        pair,
    } in &comparison.oneofs
    {
        if let Some((was, is)) = pair.both()
            && switched(old_owner) == switched(new_owner)
        {
            let old_rules = validation::of_oneof(old_owner, was);
            let new_rules = validation::of_oneof(new_owner, is);
            let element = format!("{}.{}", new_owner.name, is.name);
            let changes = validation::changes(&old_rules, &new_rules);
            report.add(
                changes,
                &element,
                (old_owner, &was.source),
                (new_owner, &is.source),
            );
        }
    }
    report.findings
}

/// Whether a message is checked at all; when that changes, it is said once, of the message.
fn switched(message: &Message) -> bool {
    validation::of_message(message).is_off()
}

/// A field of another type has other rules; its type is what is told then.
fn is_comparable(
    comparison: &Comparison<'_>,
    pair: &Pair<&Field>,
    was: &Field,
    is: &Field,
) -> bool {
    let many =
        |field: &Field| matches!(field.cardinality, Cardinality::Repeated | Cardinality::Map);
    let replaced = matches!(
        pair,
        Pair::Both {
            fate: Fate::Replaced,
            ..
        }
    );
    !replaced && many(was) == many(is) && comparison.same_type(was, is)
}

struct Report<'a> {
    comparison: &'a Comparison<'a>,
    profile: Profile,
    mode: Mode,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn add(
        &mut self,
        changes: Vec<Change>,
        element: &str,
        old: (&Message, &Source),
        new: (&Message, &Source),
    ) {
        let place = |(message, source): (&Message, &Source)| Place {
            file: message.file,
            span: source.span,
        };
        for change in changes {
            let rule = rule_of(&change);
            let Some(severity) = rule.severity(self.profile) else {
                continue;
            };
            let severity = match self.mode {
                Mode::Strict => Severity::Error,
                Mode::ByMeaning => severity,
            };
            self.findings.push(Finding {
                rule,
                severity,
                element: element.to_owned(),
                message: sentence(&change),
                old: Some(Location::of(self.comparison.old, place(old))),
                new: Some(Location::of(self.comparison.new, place(new))),
                old_value: change.old,
                new_value: change.new,
                languages: Default::default(),
                fix: None,
                exempt: None,
            });
        }
    }
}

fn rule_of(change: &Change) -> &'static Rule {
    if !change.direction.breaks() {
        return &LOOSENED;
    }
    match change.aspect {
        Aspect::Presence => &REQUIRED_ADDED,
        Aspect::Bound => &BOUND_TIGHTENED,
        Aspect::Values => &VALUES_TIGHTENED,
        Aspect::DefinedOnly => &DEFINED_ONLY_ADDED,
        Aspect::Length => &LENGTH_TIGHTENED,
        Aspect::Count => &COUNT_TIGHTENED,
        Aspect::Format => &FORMAT_TIGHTENED,
        Aspect::Items => &ITEMS_TIGHTENED,
        Aspect::Empty => &EMPTY_REFUSED,
        Aspect::Expression => &EXPRESSION_TIGHTENED,
        Aspect::Scope => &SWITCHED_ON,
    }
}

/// `validation of limits tightened: gt: 0s -> gte: 0.001s`.
fn sentence(change: &Change) -> String {
    let way = match change.direction {
        Direction::Tighter => "tightened",
        Direction::Looser => "loosened",
        Direction::Incomparable => "changed",
    };
    let shown = |text: &str| {
        if text.is_empty() {
            "nothing".to_owned()
        } else {
            text.to_owned()
        }
    };
    format!(
        "validation of {} {way}: {} -> {}",
        change.aspect,
        shown(&change.old),
        shown(&change.new)
    )
}
