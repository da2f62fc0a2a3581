//! Meaning of validation rules in a normal form: equal meanings have equal forms.

use std::collections::{BTreeMap, BTreeSet};

use super::need::{Aspect, Need};
use super::scale;
use super::set::Set;

/// Validation rules of an element, independent of their spelling.
///
/// Absent parts allow everything, so `Rules::default()` accepts every value.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Whether nothing (message, field) or nothing inside (`message.skip`) is checked.
    pub(super) off: bool,
    /// Allowed ordered values: numbers, bools, enums, durations, timestamps.
    pub(super) ordered: Option<Set>,
    /// Declared numbers of the enum. Part of the meaning where the need `DefinedOnly` is set.
    pub(super) declared: Option<Set>,
    /// Allowed texts (strings, bytes, type URLs of `Any`); `None` allows all.
    pub(super) texts: Option<BTreeSet<Vec<u8>>>,
    /// Texts that are rejected.
    pub(super) not_in: BTreeSet<Vec<u8>>,
    /// Allowed lengths of a string in characters.
    pub(super) chars: Option<Set>,
    /// Allowed lengths of a string or of bytes, in bytes.
    pub(super) bytes: Option<Set>,
    /// Allowed numbers of items or pairs.
    pub(super) count: Option<Set>,
    /// Whether the empty text is accepted despite all other rules.
    pub(super) ignore_empty: bool,
    /// Requirements that are checked independently.
    pub(super) needs: BTreeSet<Need>,
    /// Whether an unset value is checked like the zero value.
    pub(super) unset_is_zero: bool,
    /// Rules for the items of a list.
    pub(super) items: Option<Box<Rules>>,
    /// Rules for the keys of a map.
    pub(super) keys: Option<Box<Rules>>,
    /// Rules for the values of a map.
    pub(super) values: Option<Box<Rules>>,
    /// Rules as written, for messages. Not part of the meaning.
    pub(super) spelled: BTreeMap<Aspect, String>,
}

impl Rules {
    /// Returns whether validation of a message, or of the contents of a field, is switched off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// Returns whether a message without the field is invalid.
    #[must_use]
    pub fn require_a_value(&self) -> bool {
        let refuses = |set: &Option<Set>| set.as_ref().is_some_and(|set| !set.contains(0));
        !self.off
            && (self.needs.contains(&Need::Required)
                || self.unset_is_zero
                    && (refuses(&self.ordered)
                        || refuses(&self.count)
                        || self.accept(b"") == Some(false)))
    }

    /// Returns whether a value that is added to the enum is rejected because it is undeclared here.
    #[must_use]
    pub fn only_defined_values(&self) -> bool {
        let listed = |declared: &Set| {
            let ordered = self.ordered.as_ref();
            ordered.is_some_and(|ordered| ordered.is_subset(declared))
        };
        let here = !self.off
            && self.needs.contains(&Need::DefinedOnly)
            && !self.declared.as_ref().is_some_and(listed);
        here || [&self.items, &self.keys, &self.values]
            .into_iter()
            .flatten()
            .any(|rules| rules.only_defined_values())
    }

    /// Returns the allowed ordered values; `None` allows all. With `defined_only`, these are at most
    /// the declared numbers and `more`.
    pub(super) fn allowed(&self, more: &Set) -> Option<Set> {
        let declared = self.declared.as_ref();
        match declared.filter(|_| self.needs.contains(&Need::DefinedOnly)) {
            Some(declared) => {
                let declared = declared.union(more);
                Some(match &self.ordered {
                    Some(ordered) => ordered.intersection(&declared),
                    None => declared,
                })
            }
            None => self.ordered.clone(),
        }
    }

    /// Returns whether the empty text is accepted. True for values that are not texts.
    pub(super) fn accept_empty(&self) -> bool {
        self.ignore_empty || self.accept(b"") == Some(true)
    }

    /// Returns whether a text is accepted, or `None` if that is undecidable here.
    pub(super) fn accept(&self, text: &[u8]) -> Option<bool> {
        if text.is_empty() && self.ignore_empty {
            return Some(true);
        }
        if self
            .texts
            .as_ref()
            .is_some_and(|texts| !texts.contains(text))
        {
            return Some(false);
        }
        let length = |set: &Option<Set>, length: usize| {
            set.as_ref().is_none_or(|set| set.contains(length as i128))
        };
        let chars = || std::str::from_utf8(text).map_or(text.len(), |text| text.chars().count());
        if self.not_in.contains(text)
            || !length(&self.bytes, text.len())
            || !length(&self.chars, chars())
        {
            return Some(false);
        }
        let mut all = Some(true);
        for need in &self.needs {
            match need.accepts(text) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
        all
    }

    /// Combines two sets of rules: a tree that migrates between validators carries both.
    pub(super) fn and(mut self, other: Rules) -> Rules {
        // A rule that is off for one validator is still checked by the other.
        if other.off || self.off {
            return match (
                self.off && self.is_nothing_else(),
                other.off && other.is_nothing_else(),
            ) {
                (true, _) => other,
                (false, true) => self,
                (false, false) => {
                    let off = self.off && other.off;
                    self.off = false;
                    let mut both = self.and(Rules {
                        off: false,
                        ..other
                    });
                    both.off = off;
                    both
                }
            };
        }
        let meet = |a: Option<Set>, b: Option<Set>| match (a, b) {
            (Some(a), Some(b)) => Some(a.intersection(&b)),
            (a, b) => a.or(b),
        };
        let nested = |a: Option<Box<Rules>>, b: Option<Box<Rules>>| match (a, b) {
            (Some(a), Some(b)) => Some(Box::new(a.and(*b))),
            (a, b) => a.or(b),
        };
        self.ordered = meet(self.ordered, other.ordered);
        self.declared = self.declared.or(other.declared);
        self.chars = meet(self.chars, other.chars);
        self.bytes = meet(self.bytes, other.bytes);
        self.count = meet(self.count, other.count);
        self.texts = match (self.texts, other.texts) {
            (Some(a), Some(b)) => Some(a.intersection(&b).cloned().collect()),
            (a, b) => a.or(b),
        };
        self.not_in.extend(other.not_in);
        self.ignore_empty &= other.ignore_empty;
        self.unset_is_zero |= other.unset_is_zero;
        self.needs.extend(other.needs);
        self.items = nested(self.items, other.items);
        self.keys = nested(self.keys, other.keys);
        self.values = nested(self.values, other.values);
        for (aspect, text) in other.spelled {
            let mine = self.spelled.entry(aspect).or_default();
            if mine.is_empty() {
                *mine = text;
            } else if *mine != text {
                *mine = format!("{mine} and {text}");
            }
        }
        self
    }

    fn is_nothing_else(&self) -> bool {
        self.ordered.is_none()
            && self.texts.is_none()
            && self.not_in.is_empty()
            && self.chars.is_none()
            && self.bytes.is_none()
            && self.count.is_none()
            && self.needs.is_empty()
            && [&self.items, &self.keys, &self.values]
                .iter()
                .all(|nested| nested.is_none())
    }

    /// Converts the rules to their normal form. `whole` contains all values of the type.
    pub(super) fn normalize(&mut self, whole: Option<&Set>) {
        if self.ordered.as_ref() == whole {
            self.ordered = None;
        }
        self.normalize_lengths();
        if let Some(texts) = self.texts.take() {
            // A list of allowed texts replaces all other rules after the rejected texts are
            // removed.
            let mut left = texts.clone();
            left.retain(|text| {
                Rules {
                    texts: None,
                    ..self.clone()
                }
                .accept(text)
                    != Some(false)
            });
            if self.ignore_empty {
                left.insert(Vec::new());
                self.ignore_empty = false;
            }
            self.needs
                .retain(|need| left.iter().any(|text| need.accepts(text).is_none()));
            (self.chars, self.bytes) = (None, None);
            self.not_in.clear();
            self.texts = Some(left);
        }
        if self.ignore_empty {
            self.ignore_empty = false;
            self.ignore_empty = self.accept(b"") != Some(true);
        }
    }

    /// A UTF-8 character has one to four bytes, so limits in one unit imply limits in the other.
    fn normalize_lengths(&mut self) {
        let needed = self.needs.iter().map(Need::least_bytes).max().unwrap_or(0);
        let ends = |set: &Option<Set>| set.as_ref().map(|set| set.ends().unwrap_or((1, 0)));
        let all = scale::counts();
        let most = i128::from(u64::MAX);
        let (low, high) = ends(&self.bytes).unwrap_or((0, most));
        let (few, many) = ends(&self.chars).unwrap_or((0, most));
        if few > many || low > high {
            return;
        }
        let low = low.max(needed as i128).max(few);
        let few = few.max(low.div_euclid(4) + i128::from(low % 4 != 0));
        let many = many.min(high);
        let high = high.min(many.saturating_mul(4));
        let narrow = |first, last| {
            let set = all.intersection(&Set::between(first, last));
            (set != all).then_some(set)
        };
        self.bytes = narrow(low, high);
        self.chars = narrow(few, many);
    }
}
