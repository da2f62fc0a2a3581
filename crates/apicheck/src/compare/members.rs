//! Pairs of members of two messages, enums or services.

use std::collections::HashMap;
use std::hash::Hash;

use super::pair::{Fate, Pair};
use crate::model::{EnumValue, Field, Method};

/// Member with a name, and a number on the wire.
pub(super) trait Numbered {
    fn name(&self) -> &str;
    fn number(&self) -> i32;
}

impl Numbered for Field {
    fn name(&self) -> &str {
        &self.name
    }
    fn number(&self) -> i32 {
        self.number
    }
}

impl Numbered for EnumValue {
    fn name(&self) -> &str {
        &self.name
    }
    fn number(&self) -> i32 {
        self.number
    }
}

/// Pairs members by name and number, then by name (renumbered), then by number. A pair by number is
/// renamed, or replaced if `same_type` returns false.
///
/// The name has priority: if two members swap their numbers, the data of one is read as the other.
/// The finding must report that as a renumbering.
pub(super) fn numbered<'a, T: Numbered>(
    old: &'a [T],
    new: &'a [T],
    same_type: impl Fn(&T, &T) -> bool,
) -> Vec<Pair<&'a T>> {
    let mut pairing = Pairing::new(old, new);
    pairing.by(|one| (one.name(), one.number()), |_, _| Fate::Kept);
    pairing.by(Numbered::name, |_, _| Fate::Renumbered);
    pairing.by(Numbered::number, |old, new| {
        if same_type(old, new) {
            Fate::Renamed
        } else {
            Fate::Replaced
        }
    });
    pairing.finish()
}

/// Pairs methods by name, then by a signature that is unique on both sides (renamed).
pub(super) fn methods<'a>(
    old: &'a [Method],
    new: &'a [Method],
    signature: impl Fn(&Method, Side) -> Option<(u32, u32, bool, bool)>,
) -> Vec<Pair<&'a Method>> {
    let mut pairing = Pairing::new(old, new);
    pairing.by(|one| one.name.clone(), |_, _| Fate::Kept);
    let (left_old, left_new) = pairing.left();
    let old_signatures = unique(left_old, |index| signature(&old[index], Side::Old));
    let new_signatures = unique(left_new, |index| signature(&new[index], Side::New));
    for (signature, index) in old_signatures {
        if let Some(&other) = new_signatures.get(&signature) {
            pairing.set_unpaired(index, other, Fate::Renamed);
        }
    }
    pairing.finish()
}

/// Returns the indexes with a unique key.
fn unique<K: Hash + Eq>(
    indexes: Vec<usize>,
    key: impl Fn(usize) -> Option<K>,
) -> HashMap<K, usize> {
    let mut seen: HashMap<K, Vec<usize>> = HashMap::new();
    for index in indexes {
        if let Some(key) = key(index) {
            seen.entry(key).or_default().push(index);
        }
    }
    let unpaired = seen.into_iter().filter(|(_, same)| same.len() == 1);
    unpaired.map(|(key, same)| (key, same[0])).collect()
}

/// One of the two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Old,
    New,
}

/// Pairing of members in several steps. Each step considers only unpaired members.
pub(super) struct Pairing<'a, T> {
    old: &'a [T],
    new: &'a [T],
    /// New index and fate for each old member.
    found: Vec<Option<(usize, Fate)>>,
    taken: Vec<bool>,
}

impl<'a, T> Pairing<'a, T> {
    pub(super) fn new(old: &'a [T], new: &'a [T]) -> Self {
        Pairing {
            old,
            new,
            found: vec![None; old.len()],
            taken: vec![false; new.len()],
        }
    }

    /// Pairs members with equal keys.
    pub(super) fn by<K: Hash + Eq>(
        &mut self,
        key: impl Fn(&'a T) -> K,
        fate: impl Fn(&T, &T) -> Fate,
    ) {
        // Most members keep their position and need no table.
        for index in 0..self.old.len().min(self.new.len()) {
            let free = self.found[index].is_none() && !self.taken[index];
            if free && key(&self.old[index]) == key(&self.new[index]) {
                self.join(index, index, fate(&self.old[index], &self.new[index]));
            }
        }
        if self.found.iter().all(Option::is_some) {
            return;
        }
        let mut table: HashMap<K, usize> = HashMap::new();
        for (index, member) in self.new.iter().enumerate() {
            if !self.taken[index] {
                table.entry(key(member)).or_insert(index);
            }
        }
        for index in 0..self.old.len() {
            if self.found[index].is_some() {
                continue;
            }
            if let Some(other) = table.remove(&key(&self.old[index])) {
                self.join(index, other, fate(&self.old[index], &self.new[other]));
            }
        }
    }

    fn join(&mut self, old: usize, new: usize, fate: Fate) {
        self.found[old] = Some((new, fate));
        self.taken[new] = true;
    }

    /// Returns the indexes of the unpaired members.
    pub(super) fn left(&self) -> (Vec<usize>, Vec<usize>) {
        (
            (0..self.old.len())
                .filter(|index| self.found[*index].is_none())
                .collect(),
            (0..self.new.len())
                .filter(|index| !self.taken[*index])
                .collect(),
        )
    }

    /// Pairs members with equal keys, if old and new keys are computed differently.
    pub(super) fn by_each<K: Hash + Eq>(
        &mut self,
        old_key: impl Fn(&'a T) -> K,
        new_key: impl Fn(&'a T) -> K,
        fate: Fate,
    ) {
        let new = self.new.iter().enumerate();
        let mut table: HashMap<K, usize> = new
            .filter(|(index, _)| !self.taken[*index])
            .map(|(index, member)| (new_key(member), index))
            .collect();
        for index in 0..self.old.len() {
            if self.found[index].is_none()
                && let Some(other) = table.remove(&old_key(&self.old[index]))
            {
                self.join(index, other, fate);
            }
        }
    }

    /// Pairs two members by index, if both are unpaired.
    pub(super) fn set_unpaired(&mut self, old: usize, new: usize, fate: Fate) {
        let free = self.found.get(old).is_some_and(Option::is_none)
            && self.taken.get(new).is_some_and(|taken| !taken);
        if free {
            self.join(old, new, fate);
        }
    }

    /// Returns all pairs: old members in their order, then additions.
    pub(super) fn finish(self) -> Vec<Pair<&'a T>> {
        let earlier = self
            .old
            .iter()
            .zip(&self.found)
            .map(|(old, found)| match *found {
                Some((new, fate)) => Pair::Both {
                    old,
                    new: &self.new[new],
                    fate,
                },
                None => Pair::Removed(old),
            });
        let current = self.new.iter().zip(&self.taken);
        let current = current
            .filter(|(_, taken)| !**taken)
            .map(|(new, _)| Pair::Added(new));
        earlier.chain(current).collect()
    }
}
