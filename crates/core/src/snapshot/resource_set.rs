//! All resources of one type at one revision.

use std::{ops::Bound, sync::Arc, time::Duration};

use imbl::{OrdMap, OrdSet};
use oxds_types::{Fingerprint, Version};

use super::ascending::Ascending;
use super::resource::Resource;
use super::settings::Revision;

/// All resources of one type, at the revision that last changed one of them.
///
/// A wildcard session remembers what it was sent as one `Arc` of this. The map is persistent: two sets share everything
/// that did not change between them.
#[derive(Debug, Clone, Default)]
pub struct ResourceSet {
    pub(super) revision: Revision,
    pub(super) resources: OrdMap<Arc<str>, Arc<Resource>>,
    pub(super) fingerprint: Fingerprint,
    /// Names of the resources with a TTL, by TTL.
    by_ttl: OrdMap<Duration, OrdSet<Arc<str>>>,
}

impl ResourceSet {
    /// Returns the revision of the last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the version of the set: a hash of all names and versions, which does not depend on the history (S-29).
    #[must_use]
    pub fn version(&self) -> Version {
        self.fingerprint.version()
    }

    /// Returns the hash behind [`version`](Self::version), to which single resources can be added.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the resource of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.resources.get(name)
    }

    /// Returns a lookup for names in ascending order.
    pub(crate) fn ascending(&self) -> Ascending<'_> {
        Ascending::new(&self.resources)
    }

    /// Returns the number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Returns whether the set has no resources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Returns all resources, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Returns the names from `first` on, in order.
    pub(crate) fn names_from(&self, first: &str) -> impl Iterator<Item = &Arc<str>> {
        let from = (Bound::Included(Arc::from(first)), Bound::Unbounded);
        self.resources
            .range::<_, Arc<str>>(from)
            .map(|(name, _)| name)
    }

    /// Returns the TTLs of the resources, each once.
    pub(crate) fn ttls(&self) -> impl Iterator<Item = Duration> {
        self.by_ttl.keys().copied()
    }

    /// Returns the resources with this TTL, by name.
    pub(crate) fn with_ttl(&self, ttl: Duration) -> impl Iterator<Item = &Arc<Resource>> {
        let names = self.by_ttl.get(&ttl).into_iter().flatten();
        names.filter_map(|name| self.get(name))
    }

    /// Returns whether any resource has a TTL.
    pub(crate) fn has_ttl(&self) -> bool {
        !self.by_ttl.is_empty()
    }

    /// Inserts resources that are sorted by name.
    ///
    /// Every second one is inserted first, then those between. The map splits a full node in halves, so inserting in
    /// order would leave all nodes half empty; the second pass fills them, which halves the memory.
    pub(super) fn insert_all(&mut self, resources: &[Arc<Resource>]) {
        let first = resources.iter().step_by(2);
        let between = resources.iter().skip(1).step_by(2);
        first
            .chain(between)
            .for_each(|resource| self.insert(Arc::clone(resource)));
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        let (name, ttl) = (Arc::clone(resource.name()), resource.ttl());
        self.fingerprint.add(&name, &resource.version());
        if let Some(old) = self.resources.insert(Arc::clone(&name), resource) {
            self.forget(&old);
        }
        if let Some(ttl) = ttl {
            self.by_ttl.entry(ttl).or_default().insert(name);
        }
    }

    /// Removes a resource. Returns whether it existed.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let removed = self.resources.remove(name);
        if let Some(old) = &removed {
            self.forget(old);
        }
        removed.is_some()
    }

    fn forget(&mut self, old: &Resource) {
        self.fingerprint.remove(old.name(), &old.version());
        let Some(ttl) = old.ttl() else { return };
        if let Some(names) = self.by_ttl.get_mut(&ttl) {
            names.remove(old.name());
            if names.is_empty() {
                self.by_ttl.remove(&ttl);
            }
        }
    }
}
