//! Changes of validation (V-32, V-33): rules of `validate.rules` and `buf.validate`, compared by
//! meaning.

use crate::compare::{Comparison, Fate, Member, Pair};
use crate::finding::{Finding, Location, Severity};
use crate::model::{Cardinality, Field, FileSpan, Message, Source};
use crate::rule::{Category, Compares, Profile, Profiles, Rule};
use crate::validation::{self, Aspect, Change, Direction};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
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

const WHY: &str = "A configuration that was accepted is rejected after the upgrade, although it still \
    parses. Inside a stable major, validation may only become looser: log a warning for the new \
    restriction, or move it to the next major.";

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

/// A field or a oneof became required.
pub const REQUIRED_ADDED: Rule = tightening(
    "VALIDATION_REQUIRED_ADDED",
    "An optional field or oneof does not become required",
    WHY,
);

/// A limit of a number, a duration or a timestamp moved inward.
pub const BOUND_TIGHTENED: Rule = tightening(
    "VALIDATION_BOUND_TIGHTENED",
    "Limits of numbers, durations and timestamps do not become narrower",
    WHY,
);

/// `const` was added, `in` lost a value, or `not_in` gained one.
pub const VALUES_TIGHTENED: Rule = tightening(
    "VALIDATION_VALUES_TIGHTENED",
    "Values that const, in and not_in allowed stay allowed",
    WHY,
);

/// `defined_only` was added to an enum field.
pub const DEFINED_ONLY_ADDED: Rule = tightening(
    "VALIDATION_DEFINED_ONLY_ADDED",
    "A field that accepted undeclared enum numbers still accepts them",
    "Older readers reject values that are added later, so every addition to the enum becomes \
     a breaking change. Keep the enum open inside a stable major.",
);

/// A string or bytes field has a shorter maximum or a longer minimum.
pub const LENGTH_TIGHTENED: Rule = tightening(
    "VALIDATION_LENGTH_TIGHTENED",
    "Allowed lengths of strings and bytes stay allowed",
    WHY,
);

/// A list or map accepts fewer sizes.
pub const COUNT_TIGHTENED: Rule = tightening(
    "VALIDATION_COUNT_TIGHTENED",
    "Allowed sizes of lists and maps stay allowed",
    WHY,
);

/// A pattern, prefix, suffix or well-known format became stricter.
pub const FORMAT_TIGHTENED: Rule = tightening(
    "VALIDATION_FORMAT_TIGHTENED",
    "Patterns, prefixes, suffixes, contents and well-known formats do not become stricter",
    "Texts that were accepted are rejected after the upgrade. Two patterns cannot be compared in \
     general, so a changed pattern counts as stricter. If it is not stricter, write \
     an exception with the reason.",
);

/// `unique` or `no_sparse` was added.
pub const ITEMS_TIGHTENED: Rule = tightening(
    "VALIDATION_ITEMS_TIGHTENED",
    "Lists may still repeat items, and maps may still omit values",
    WHY,
);

/// The rule `ignore_empty` was removed.
pub const EMPTY_REFUSED: Rule = tightening(
    "VALIDATION_EMPTY_REFUSED",
    "An empty value that was not checked stays unchecked",
    "proto3 cannot distinguish an unset value from an empty one. A configuration without the field \
     is rejected after the upgrade.",
);

/// A CEL expression or an unknown rule was added or changed.
pub const EXPRESSION_TIGHTENED: Rule = tightening(
    "VALIDATION_EXPRESSION_TIGHTENED",
    "CEL expressions and custom rules are not added or changed",
    "They are compared as text, because their meaning is not known in general. If the new \
     expression accepts every value that the old one accepted, write an exception with the reason.",
);

/// `disabled`, `ignored` or `skip` was removed.
pub const SWITCHED_ON: Rule = tightening(
    "VALIDATION_SWITCHED_ON",
    "A message or field without validation stays unchecked",
    "All rules inside apply at once, to configurations that were never checked.",
);

/// A rule accepts more values.
pub const LOOSENED: Rule = Rule {
    id: "VALIDATION_LOOSENED",
    behaviours: &["V-32", "V-33"],
    purpose: "Looser validation is noted; it is an error in strict mode",
    why: "Older readers reject values that newer ones accept, so writers must not use them \
          before all readers are updated. The change is allowed inside a major unless validation is strict.",
    category: Category::Validation,
    profiles: Profiles::NOTE,
    compares: Compares::Pair,
    buf: &[],
};

/// Handling of looser validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Tighter validation is an error, looser validation is a note (V-32).
    #[default]
    ByMeaning,
    /// Every change of the accepted values is an error (V-33). Another spelling of the same rule is
    /// not a change.
    Strict,
}

/// Returns all changes of validation between two trees.
#[must_use]
pub fn find(comparison: &Comparison<'_>, profile: Profile, mode: Mode) -> Vec<Finding> {
    let (old, new) = (comparison.old, comparison.new);
    let mut report = ValidationFindings {
        comparison,
        profile,
        mode,
        findings: Vec::new(),
    };
    for (earlier, current) in comparison.messages.iter().filter_map(Pair::both) {
        let changes = validation::changes(
            &validation::of_message(earlier),
            &validation::of_message(current),
        );
        report.add(
            changes,
            (&earlier.name, &current.name),
            (earlier, &earlier.source),
            (current, &current.source),
        );
    }
    for Member {
        old_owner,
        new_owner,
        pair,
    } in &comparison.fields
    {
        if let Some((earlier, current)) = pair.both()
            && is_comparable(comparison, pair, earlier, current)
            && switched(old_owner) == switched(new_owner)
        {
            let old_rules = validation::of_field(old, old_owner, earlier);
            let new_rules = validation::of_field(new, new_owner, current);
            let names = (
                &*format!("{}.{}", old_owner.name, earlier.name),
                &*format!("{}.{}", new_owner.name, current.name),
            );
            let changes = validation::changes(&old_rules, &new_rules);
            report.add(
                changes,
                names,
                (old_owner, &earlier.source),
                (new_owner, &current.source),
            );
        }
    }
    for Member {
        old_owner,
        new_owner,
        pair,
    } in &comparison.oneofs
    {
        if let Some((earlier, current)) = pair.both()
            && switched(old_owner) == switched(new_owner)
        {
            let old_rules = validation::of_oneof(old_owner, earlier);
            let new_rules = validation::of_oneof(new_owner, current);
            let names = (
                &*format!("{}.{}", old_owner.name, earlier.name),
                &*format!("{}.{}", new_owner.name, current.name),
            );
            let changes = validation::changes(&old_rules, &new_rules);
            report.add(
                changes,
                names,
                (old_owner, &earlier.source),
                (new_owner, &current.source),
            );
        }
    }
    report.findings
}

/// Returns whether validation of a message is switched off. A change of that is reported once, at
/// the message.
fn switched(message: &Message) -> bool {
    validation::of_message(message).is_off()
}

/// Returns whether two fields have comparable rules. A changed type has its own finding.
fn is_comparable(
    comparison: &Comparison<'_>,
    pair: &Pair<&Field>,
    earlier: &Field,
    current: &Field,
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
    !replaced && many(earlier) == many(current) && comparison.same_type(earlier, current)
}

/// Collector of findings about changed validation.
struct ValidationFindings<'a> {
    comparison: &'a Comparison<'a>,
    profile: Profile,
    mode: Mode,
    findings: Vec<Finding>,
}

impl ValidationFindings<'_> {
    fn add(
        &mut self,
        changes: Vec<Change>,
        (old_element, element): (&str, &str),
        old: (&Message, &Source),
        new: (&Message, &Source),
    ) {
        let place = |(message, source): (&Message, &Source)| FileSpan {
            file: message.file,
            span: source.span,
        };
        for change in changes {
            let rule = rule_of(&change);
            let Some(severity) = rule.severity(self.profile) else {
                continue;
            };
            // Stable-API policy: tightening breaks; in strict mode, every change does (V-32, V-33).
            let severity = match self.mode {
                Mode::Strict => Severity::Error,
                Mode::ByMeaning => severity,
            };
            self.findings.push(Finding {
                rule,
                severity,
                element: element.to_owned(),
                old_element: (old_element != element).then(|| old_element.to_owned()),
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

/// Formats the message: `validation of limits tightened: gt: 0s -> gte: 0.001s`.
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
