//! The watched resources, by kind and name.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use oxds_types::ResourceType;

use super::entry::Entry;
use crate::ads::config::AuthorityId;

/// Entries are boxed: a tree that is filled in order has every other place empty.
type OfType = BTreeMap<Arc<str>, Box<Entry>>;

#[derive(Debug, Default)]
pub(super) struct Entries {
    resource_types: BTreeMap<ResourceType, OfType>,
}

impl Entries {
    /// The name as it is kept, and its entry.
    pub(super) fn get(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(&Arc<str>, &Entry)> {
        let (name, entry) = self
            .resource_types
            .get(resource_type)?
            .get_key_value(name)?;
        Some((name, entry))
    }

    pub(super) fn get_mut(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<&mut Entry> {
        let entry = self.resource_types.get_mut(resource_type)?.get_mut(name)?;
        Some(entry)
    }

    /// The entry of a name, which begins now if it has an authority.
    pub(super) fn get_or_begin(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        authority: impl FnOnce() -> Option<AuthorityId>,
    ) -> Option<&mut Entry> {
        let of_type = self
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        Some(match of_type.entry(Arc::clone(name)) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(vacant) => vacant.insert(Box::new(Entry::of(authority()?))),
        })
    }

    pub(super) fn remove(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(Arc<str>, Box<Entry>)> {
        self.resource_types
            .get_mut(resource_type)?
            .remove_entry(name)
    }

    /// Those of a kind, in order.
    pub(super) fn of_type(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let of_type = self.resource_types.get(resource_type).into_iter().flatten();
        of_type.map(|(name, entry)| (name, &**entry))
    }

    pub(super) fn of_type_mut(
        &mut self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = &mut Entry> {
        let of_type = self.resource_types.get_mut(resource_type).into_iter();
        of_type
            .flat_map(BTreeMap::values_mut)
            .map(|entry| &mut **entry)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &Entry)> {
        self.resource_types
            .iter()
            .flat_map(|(resource_type, of_type)| {
                let of_type = of_type.iter();
                of_type.map(move |(name, entry)| (resource_type, name, &**entry))
            })
    }

    pub(super) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &mut Entry)> {
        self.resource_types
            .iter_mut()
            .flat_map(|(resource_type, of_type)| {
                let of_type = of_type.iter_mut();
                of_type.map(move |(name, entry)| (resource_type, name, &mut **entry))
            })
    }
}
