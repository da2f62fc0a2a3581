//! What became of validation: tighter, looser, or neither.

use super::need::{Aspect, Need};
use super::rules::Rules;
use super::scale;
use super::set::Set;

/// Which way validation changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Some values that passed are refused now, and none the other way.
    Tighter,
    /// Some values that were refused pass now, and none the other way.
    Looser,
    /// Both, or it cannot be told.
    Incomparable,
}

impl Direction {
    /// Whether values that passed may be refused now.
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
pub struct Change {
    /// What of it changed.
    pub aspect: Aspect,
    /// The way.
    pub direction: Direction,
    /// The part as it was written: `gte: 1`, `items: min_len: 1`. Empty when there was nothing.
    pub old: String,
    /// The part as it is written.
    pub new: String,
}

/// What changed from `old` to `new`, by meaning: nothing when the two pass the same values.
#[must_use]
pub fn changes(old: &Rules, new: &Rules) -> Vec<Change> {
    let mut comparison = Comparison {
        old,
        new,
        changes: Vec::new(),
    };
    comparison.all();
    comparison.changes
}

struct Comparison<'a> {
    old: &'a Rules,
    new: &'a Rules,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn all(&mut self) {
        let (old, new) = (self.old, self.new);
        self.add(&[Aspect::Scope], old.off && !new.off, new.off && !old.off);
        self.set(
            &[Aspect::Empty, Aspect::Bound, Aspect::Values],
            &old.ordered,
            &new.ordered,
        );
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
        // Of several aspects, the last that is written anywhere names the change.
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

    fn set(&mut self, aspects: &[Aspect], old: &Option<Set>, new: &Option<Set>) {
        let (tighter, looser) = moved(old.as_ref(), new.as_ref());
        self.add(aspects, tighter, looser);
    }

    /// Lists of texts: whatever else is demanded was applied to them.
    fn texts(&mut self) {
        let (old, new) = (self.old, self.new);
        let all_pass = |listed: &Rules, judge: &Rules| match &listed.texts {
            Some(texts) => texts.iter().all(|text| judge.accept(text) == Some(true)),
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

    /// Lengths, but for that of the empty text, which has its own question.
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
        // A format that implies a length is told as a format.
        let written = |rules: &Rules| rules.spelled.contains_key(&Aspect::Length);
        if written(old) || written(new) {
            self.add(&[Aspect::Length], chars.0 || bytes.0, chars.1 || bytes.1);
        }
    }

    /// The needs, one change for each aspect. `formats`: whether those on texts are looked at.
    fn needs(&mut self, formats: bool) {
        let unmet = |needs: &std::collections::BTreeSet<Need>, by: &Rules, aspect| {
            needs
                .iter()
                .filter(|need| need.aspect() == aspect)
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
            let tighter = unmet(&self.new.needs, self.old, aspect);
            let looser = unmet(&self.old.needs, self.new, aspect);
            self.add(&[aspect], tighter, looser);
        }
    }

    /// Whether the empty text passes, unless another change has said so already.
    fn empty(&mut self) {
        let (before, now) = (self.old.accept_empty(), self.new.accept_empty());
        let said = |wanted: Direction| {
            self.changes.iter().any(|change| {
                change.direction == wanted || change.direction == Direction::Incomparable
            })
        };
        let tighter = before && !now && !said(Direction::Tighter);
        let looser = !before && now && !said(Direction::Looser);
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

/// Whether something left the set, and whether something came. None holds every value.
fn moved(old: Option<&Set>, new: Option<&Set>) -> (bool, bool) {
    match (old, new) {
        (None, None) => (false, false),
        (None, Some(_)) => (true, false),
        (Some(_), None) => (false, true),
        (Some(old), Some(new)) => (!old.is_subset(new), !new.is_subset(old)),
    }
}
