//! The watched resources, by kind and name.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use oxds_types::Kind;

use super::entry::Entry;
use crate::ads::config::AuthorityId;

/// Entries are boxed: a tree that is filled in order has every other place empty.
type OfKind = BTreeMap<Arc<str>, Box<Entry>>;

#[derive(Debug, Default)]
pub(super) struct Entries {
    kinds: BTreeMap<Kind, OfKind>,
}

impl Entries {
    /// The name as it is kept, and its entry.
    pub(super) fn get(&self, kind: &Kind, name: &str) -> Option<(&Arc<str>, &Entry)> {
        let (name, entry) = self.kinds.get(kind)?.get_key_value(name)?;
        Some((name, entry))
    }

    pub(super) fn get_mut(&mut self, kind: &Kind, name: &str) -> Option<&mut Entry> {
        let entry = self.kinds.get_mut(kind)?.get_mut(name)?;
        Some(entry)
    }

    /// The entry of a name, which begins now if it has an authority.
    pub(super) fn get_or_begin(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        authority: impl FnOnce() -> Option<AuthorityId>,
    ) -> Option<&mut Entry> {
        let of_kind = self.kinds.entry(kind.clone()).or_default();
        Some(match of_kind.entry(Arc::clone(name)) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(vacant) => vacant.insert(Box::new(Entry::of(authority()?))),
        })
    }

    pub(super) fn remove(&mut self, kind: &Kind, name: &str) -> Option<(Arc<str>, Box<Entry>)> {
        self.kinds.get_mut(kind)?.remove_entry(name)
    }

    /// Those of a kind, in order.
    pub(super) fn of_kind(&self, kind: &Kind) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let of_kind = self.kinds.get(kind).into_iter().flatten();
        of_kind.map(|(name, entry)| (name, &**entry))
    }

    pub(super) fn of_kind_mut(&mut self, kind: &Kind) -> impl Iterator<Item = &mut Entry> {
        let of_kind = self.kinds.get_mut(kind).into_iter();
        of_kind
            .flat_map(BTreeMap::values_mut)
            .map(|entry| &mut **entry)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Kind, &Arc<str>, &Entry)> {
        self.kinds.iter().flat_map(|(kind, of_kind)| {
            let of_kind = of_kind.iter();
            of_kind.map(move |(name, entry)| (kind, name, &**entry))
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Kind, &Arc<str>, &mut Entry)> {
        self.kinds.iter_mut().flat_map(|(kind, of_kind)| {
            let of_kind = of_kind.iter_mut();
            of_kind.map(move |(name, entry)| (kind, name, &mut **entry))
        })
    }
}
