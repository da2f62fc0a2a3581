//! All resources of one kind at one revision.

use std::{ops::Bound, sync::Arc, time::Duration};

use imbl::{OrdMap, OrdSet};
use oxds_types::{Fingerprint, Version};

use super::{Resource, Revision, ascending::Ascending};

/// All resources of one kind, at the revision that last changed one of them.
///
/// A session that receives all of a kind remembers what it was sent as one `Arc` of this: the map is persistent, so
/// two collections share whatever did not change between them.
#[derive(Debug, Clone, Default)]
pub struct ResourceSet {
    pub(super) revision: Revision,
    pub(super) resources: OrdMap<Arc<str>, Arc<Resource>>,
    pub(super) fingerprint: Fingerprint,
    /// Those that have a TTL, by TTL.
    mortal: OrdMap<Duration, OrdSet<Arc<str>>>,
}

impl ResourceSet {
    /// When one of the resources last changed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The version of the whole: a hash of all names and their versions, whatever the way there (S-29).
    #[must_use]
    pub fn version(&self) -> Version {
        self.fingerprint.version()
    }

    /// As [`version`](Self::version), open for a few resources more.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The resource of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.resources.get(name)
    }

    /// Looks names up that come in order.
    pub(crate) fn ascending(&self) -> Ascending<'_> {
        Ascending::new(&self.resources)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The names from this one on, in order.
    pub(crate) fn names_from(&self, first: &str) -> impl Iterator<Item = &Arc<str>> {
        let from = (Bound::Included(Arc::from(first)), Bound::Unbounded);
        self.resources
            .range::<_, Arc<str>>(from)
            .map(|(name, _)| name)
    }

    /// The TTLs that resources have, each once.
    pub(crate) fn ttls(&self) -> impl Iterator<Item = Duration> {
        self.mortal.keys().copied()
    }

    /// The resources that have this TTL, by name.
    pub(crate) fn with_ttl(&self, ttl: Duration) -> impl Iterator<Item = &Arc<Resource>> {
        let names = self.mortal.get(&ttl).into_iter().flatten();
        names.filter_map(|name| self.get(name))
    }

    /// Whether any resource has a TTL.
    pub(crate) fn is_mortal(&self) -> bool {
        !self.mortal.is_empty()
    }

    /// Inserts resources, which are in the order of their names.
    ///
    /// Every second one first, and then those between: a node of the map that is full is split in halves, and whoever
    /// comes in order leaves all of them half empty. So they are filled up again, which halves the memory.
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
            self.mortal.entry(ttl).or_default().insert(name);
        }
    }

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
        if let Some(names) = self.mortal.get_mut(&ttl) {
            names.remove(old.name());
            if names.is_empty() {
                self.mortal.remove(&ttl);
            }
        }
    }
}
