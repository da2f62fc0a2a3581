//! Comparison of validation rules: tighter, looser, or incomparable.

use super::need::{Aspect, Need};
use super::rules::Rules;
use super::scale;
use super::set::Set;

/// Direction of a change of validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Some accepted values are rejected now; no rejected value is accepted.
    Tighter,
    /// Some rejected values are accepted now; no accepted value is rejected.
    Looser,
    /// Both of the above, or undecidable.
    Incomparable,
}

impl Direction {
    /// Returns whether accepted values may be rejected now.
    #[must_use]
    pub fn breaks(self) -> bool {
        self != Direction::Looser
    }

    fn of(tighter: bool, looser: bool) -> Option<Direction> {
        match (tighter, looser) {
            (true, true) => Some(Direction::Incomparable),
            (true, false) => Some(Direction::Tighter),
            (false, true) => Some(Direction::Looser),
            (false, false) => None,
        }
    }
}

/// One change of the validation of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Aspect that changed.
    pub aspect: Aspect,
    /// Direction of the change.
    pub direction: Direction,
    /// Old rules as written: `gte: 1`, `items: min_len: 1`. Empty if there were none.
    pub old: String,
    /// New rules as written.
    pub new: String,
}

/// Returns the changes from `old` to `new` by meaning: none if both accept the same values.
#[must_use]
pub fn changes(old: &Rules, new: &Rules) -> Vec<Change> {
    let mut collector = ChangeCollector {
        old,
        new,
        changes: Vec::new(),
    };
    collector.all();
    collector.changes
}

struct ChangeCollector<'a> {
    old: &'a Rules,
    new: &'a Rules,
    changes: Vec<Change>,
}

impl ChangeCollector<'_> {
    fn all(&mut self) {
        let (old, new) = (self.old, self.new);
        // PGV `disabled`, `ignored` and `skip` switch rules off: switching them on tightens all
        // (V-32).
        self.add(&[Aspect::Scope], old.off && !new.off, new.off && !old.off);
        self.ordered();
        self.set(&[Aspect::Empty, Aspect::Count], &old.count, &new.count);
        if old.texts.is_some() || new.texts.is_some() {
            self.texts();
        } else {
            self.lengths();
            let (tighter, looser) = (
                !new.not_in.is_subset(&old.not_in),
                !old.not_in.is_subset(&new.not_in),
            );
            self.add(&[Aspect::Values], tighter, looser);
            self.needs(true);
            self.empty();
        }
        self.nested("items", old.items.as_deref(), new.items.as_deref());
        self.nested("keys", old.keys.as_deref(), new.keys.as_deref());
        self.nested("values", old.values.as_deref(), new.values.as_deref());
    }

    fn add(&mut self, aspects: &[Aspect], tighter: bool, looser: bool) {
        let Some(direction) = Direction::of(tighter, looser) else {
            return;
        };
        let written = |rules: &Rules| {
            let parts: Vec<&str> = aspects
                .iter()
                .filter_map(|aspect| rules.spelled.get(aspect).map(String::as_str))
                .collect();
            parts.join(", ")
        };
        // If several aspects are possible, the last one that has a written rule names the change.
        let aspect = aspects.iter().rev().find(|aspect| {
            self.old.spelled.contains_key(aspect) || self.new.spelled.contains_key(aspect)
        });
        self.changes.push(Change {
            aspect: *aspect.unwrap_or(&aspects[0]),
            direction,
            old: written(self.old),
            new: written(self.new),
        });
    }

    /// Compares ordered values. `defined_only` is the set of the declared numbers, so it can be equal
    /// to a list of them.
    fn ordered(&mut self) {
        let (old, new) = (self.old, self.new);
        let is_strict = |rules: &Rules| rules.needs.contains(&Need::DefinedOnly);
        let nothing = Set::default();
        let declared = |rules: &Rules| rules.declared.clone().unwrap_or_default();
        // If both sides have `defined_only`, a new value of the enum does not change validation:
        // other rules report it (V-31).
        let more = if is_strict(old) && is_strict(new) {
            declared(old).union(&declared(new))
        } else {
            nothing
        };
        self.set(
            &[
                Aspect::Empty,
                Aspect::Bound,
                Aspect::DefinedOnly,
                Aspect::Values,
            ],
            &old.allowed(&more),
            &new.allowed(&more),
        );
    }

    fn set(&mut self, aspects: &[Aspect], old: &Option<Set>, new: &Option<Set>) {
        let (tighter, looser) = moved(old.as_ref(), new.as_ref());
        self.add(aspects, tighter, looser);
    }

    /// Compares lists of allowed texts. They already include the effect of all other rules.
    fn texts(&mut self) {
        let (old, new) = (self.old, self.new);
        let all_pass = |listed: &Rules, by: &Rules| match &listed.texts {
            Some(texts) => texts.iter().all(|text| by.accept(text) == Some(true)),
            None => false,
        };
        let aspects = [
            Aspect::Empty,
            Aspect::Format,
            Aspect::Length,
            Aspect::Values,
        ];
        self.add(&aspects, !all_pass(old, new), !all_pass(new, old));
        self.needs(false);
    }

    /// Compares lengths, except that of the empty text, which `empty` compares.
    fn lengths(&mut self) {
        let some = scale::counts().without(&Set::of([0]));
        let without_empty = |set: &Option<Set>| {
            let set = set.as_ref()?.intersection(&some);
            (set != some).then_some(set)
        };
        let (old, new) = (self.old, self.new);
        let chars = moved(
            without_empty(&old.chars).as_ref(),
            without_empty(&new.chars).as_ref(),
        );
        let bytes = moved(
            without_empty(&old.bytes).as_ref(),
            without_empty(&new.bytes).as_ref(),
        );
        // A format that implies a length is reported as a format.
        let written = |rules: &Rules| rules.spelled.contains_key(&Aspect::Length);
        if written(old) || written(new) {
            self.add(&[Aspect::Length], chars.0 || bytes.0, chars.1 || bytes.1);
        }
    }

    /// Compares the needs, with one change per aspect. `formats`: whether to compare needs on
    /// texts.
    fn needs(&mut self, formats: bool) {
        let unmet = |of: &Rules, by: &Rules, aspect| {
            of.needs
                .iter()
                .filter(|need| need.aspect() == aspect)
                // The numbers of a known enum are compared as a set.
                .filter(|need| **need != Need::DefinedOnly || of.declared.is_none())
                .any(|need| !by.needs.iter().any(|other| other.implies(need)))
        };
        for aspect in [
            Aspect::Presence,
            Aspect::Bound,
            Aspect::DefinedOnly,
            Aspect::Format,
            Aspect::Items,
            Aspect::Expression,
        ] {
            if aspect == Aspect::Format && !formats {
                continue;
            }
            let tighter = unmet(self.new, self.old, aspect);
            let looser = unmet(self.old, self.new, aspect);
            self.add(&[aspect], tighter, looser);
        }
    }

    /// Compares whether the empty text is accepted, unless another change reports it.
    fn empty(&mut self) {
        let (before, now) = (self.old.accept_empty(), self.new.accept_empty());
        let reported = |wanted: Direction| {
            self.changes.iter().any(|change| {
                change.direction == wanted || change.direction == Direction::Incomparable
            })
        };
        let tighter = before && !now && !reported(Direction::Tighter);
        let looser = !before && now && !reported(Direction::Looser);
        let aspects = if self.old.ignore_empty || self.new.ignore_empty {
            [Aspect::Length, Aspect::Empty]
        } else {
            [Aspect::Empty, Aspect::Length]
        };
        self.add(&aspects, tighter, looser);
    }

    fn nested(&mut self, part: &str, old: Option<&Rules>, new: Option<&Rules>) {
        if old.is_none() && new.is_none() {
            return;
        }
        let nothing = Rules::default();
        let inner = changes(old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        let place = |text: String| {
            if text.is_empty() {
                text
            } else {
                format!("{part}: {text}")
            }
        };
        self.changes.extend(inner.into_iter().map(|change| Change {
            old: place(change.old),
            new: place(change.new),
            ..change
        }));
    }
}

/// Returns whether values left the set, and whether values were added. `None` is the set of all
/// values.
fn moved(old: Option<&Set>, new: Option<&Set>) -> (bool, bool) {
    match (old, new) {
        (None, None) => (false, false),
        (None, Some(_)) => (true, false),
        (Some(_), None) => (false, true),
        (Some(old), Some(new)) => (!old.is_subset(new), !new.is_subset(old)),
    }
}
