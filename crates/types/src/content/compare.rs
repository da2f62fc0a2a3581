//! The difference of two contents: each changed leaf is named once, by its own path or by that of a value around it
//! which is new or gone as a whole.

use std::collections::{BTreeMap, HashMap};

use super::key::keys;
use super::node::{Content, Entry};
use crate::path::{FieldPath, Step};

/// A field that differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    pub(super) path: FieldPath,
    /// The difference.
    pub change: ValueChange,
}

/// Difference of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueChange {
    /// The field, item or entry is new.
    Added(Content),
    /// The field, item or entry is gone.
    Removed(Content),
    /// The value is another one.
    Changed {
        /// Value before.
        old: Content,
        /// Value after.
        new: Content,
    },
    /// The items of a list have another order than the old ones without the removed, followed by the added ones.
    Order {
        /// Keys before.
        old: Vec<String>,
        /// Keys after.
        new: Vec<String>,
    },
}

impl FieldChange {
    /// Returns the path, such as `virtual_hosts["shop"].routes["prefix: /a"].route.cluster`. An item of a list has its
    /// natural key, or else its index; one that is removed, its old index.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.to_string()
    }
}

/// Returns the fields that differ, none if the contents are equal.
#[must_use]
pub fn compare(old: &Content, new: &Content) -> Vec<FieldChange> {
    let mut comparison = Comparison::default();
    comparison.values(old, new);
    comparison.found
}

#[derive(Default)]
struct Comparison {
    path: FieldPath,
    found: Vec<FieldChange>,
}

impl Comparison {
    fn values(&mut self, old: &Content, new: &Content) {
        match (old, new) {
            (Content::Message(a), Content::Message(b)) if old.type_url() == new.type_url() => {
                self.entries(a, b, |name| Step::Named(name.to_owned()));
            }
            (Content::Map(a), Content::Map(b)) => {
                self.entries(a, b, |key| Step::Key(key.to_owned()));
            }
            (Content::List(a), Content::List(b)) => match keys(a, b) {
                Some((old_keys, new_keys)) => self.by_key((a, &old_keys), (b, &new_keys)),
                None => self.by_position(a, b),
            },
            _ if old == new => {}
            _ => self.note(ValueChange::Changed {
                old: old.clone(),
                new: new.clone(),
            }),
        }
    }

    fn entries(&mut self, old: &[Entry], new: &[Entry], step: impl Fn(&str) -> Step) {
        let after: BTreeMap<&str, &Content> = named(new);
        for entry in old {
            self.path.push(step(&entry.name));
            match after.get(&*entry.name) {
                Some(new) => self.values(&entry.value, new),
                None => self.note(ValueChange::Removed(entry.value.clone())),
            }
            self.path.pop();
        }
        let before = named(old);
        for entry in new {
            if !before.contains_key(&*entry.name) {
                self.path.push(step(&entry.name));
                self.note(ValueChange::Added(entry.value.clone()));
                self.path.pop();
            }
        }
    }

    fn by_key(&mut self, old: (&[Content], &[String]), new: (&[Content], &[String])) {
        let after: HashMap<&str, &Content> = new.1.iter().map(|key| &**key).zip(new.0).collect();
        let before: HashMap<&str, &Content> = old.1.iter().map(|key| &**key).zip(old.0).collect();
        // The order that follows from the other changes.
        let mut order: Vec<&String> = Vec::with_capacity(new.1.len());
        for (item, key) in old.0.iter().zip(old.1) {
            self.path.push(Step::Key(key.clone()));
            match after.get(&**key) {
                Some(new) => {
                    self.values(item, new);
                    order.push(key);
                }
                None => self.note(ValueChange::Removed(item.clone())),
            }
            self.path.pop();
        }
        for (item, key) in new.0.iter().zip(new.1) {
            if !before.contains_key(&**key) {
                self.path.push(Step::Key(key.clone()));
                self.note(ValueChange::Added(item.clone()));
                self.path.pop();
                order.push(key);
            }
        }
        if !order.into_iter().eq(new.1) {
            self.note(ValueChange::Order {
                old: old.1.to_vec(),
                new: new.1.to_vec(),
            });
        }
    }

    /// Pairs the items between those that are equal at both ends.
    fn by_position(&mut self, old: &[Content], new: &[Content]) {
        let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[start..], &new[start..]);
        let (from_end, of_new) = (old.iter().rev(), new.iter().rev());
        let end = from_end.zip(of_new).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
        for at in 0..old.len().max(new.len()) {
            self.path.push(Step::Index(start + at));
            match (old.get(at), new.get(at)) {
                (Some(old), Some(new)) => self.values(old, new),
                (Some(old), None) => self.note(ValueChange::Removed(old.clone())),
                (None, Some(new)) => self.note(ValueChange::Added(new.clone())),
                (None, None) => {}
            }
            self.path.pop();
        }
    }

    fn note(&mut self, change: ValueChange) {
        let path = self.path.clone();
        self.found.push(FieldChange { path, change });
    }
}

fn named(entries: &[Entry]) -> BTreeMap<&str, &Content> {
    let entries = entries.iter();
    entries.map(|entry| (&*entry.name, &entry.value)).collect()
}
