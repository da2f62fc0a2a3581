//! What a store hands over: a set of changes that belong together.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::{Resource, Snapshot, replace::Walks};

/// Changes that every session sees together, or not at all (S-69).
///
/// Removals come before upserts, so a resource that is in both is there afterwards; of two upserts of one name the
/// later counts.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Resources to add or to replace.
    pub upserts: Vec<Arc<Resource>>,
    /// Resources to take away; those that do not exist are passed over.
    pub removals: Vec<(ResourceType, Arc<str>)>,
}

/// Adds or replaces all of them.
impl<R: Into<Arc<Resource>>> FromIterator<R> for ChangeSet {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        Self {
            upserts: resources.into_iter().map(Into::into).collect(),
            removals: Vec::new(),
        }
    }
}

/// A resource that a change set added, replaced or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedResource {
    /// Its kind.
    pub resource_type: ResourceType,
    /// Its name.
    pub name: Arc<str>,
}

/// The part of a change set that concerns one kind: each name once, `None` for a removal.
pub(super) type OfType = BTreeMap<Arc<str>, Option<Arc<Resource>>>;

impl ChangeSet {
    /// What is to be done to a snapshot so that it holds exactly these resources; where a kind is given, exactly these
    /// of that kind. What is equal already is not in it.
    ///
    /// O(what it holds). Of each kind both sides are gone through once, side by side, as far as the resources come in
    /// the order of their names. One that is equal to what is held is dropped as it comes, so that the next is made
    /// where it was, in memory that is warm.
    #[must_use]
    pub fn replacing(
        before: &Snapshot,
        resource_type: Option<&ResourceType>,
        resources: impl IntoIterator<Item = impl Into<Arc<Resource>>>,
    ) -> Self {
        let mut walks = Walks::new(before, resource_type);
        resources.into_iter().for_each(|new| walks.pass(new.into()));
        walks.finish()
    }

    /// Adds or replaces this one, too.
    #[must_use]
    pub fn put(mut self, resource: impl Into<Arc<Resource>>) -> Self {
        self.upserts.push(resource.into());
        self
    }

    /// Takes this one away, too.
    #[must_use]
    pub fn remove(mut self, resource_type: ResourceType, name: impl Into<Arc<str>>) -> Self {
        self.removals.push((resource_type, name.into()));
        self
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removals.is_empty()
    }

    pub(super) fn by_type(self) -> BTreeMap<ResourceType, OfType> {
        let mut resource_types: BTreeMap<ResourceType, OfType> = BTreeMap::new();
        for (resource_type, name) in self.removals {
            resource_types
                .entry(resource_type)
                .or_default()
                .insert(name, None);
        }
        for resource in self.upserts {
            let of_type = resource_types
                .entry(resource.resource_type().clone())
                .or_default();
            of_type.insert(resource.name().clone(), Some(resource));
        }
        resource_types
    }
}
