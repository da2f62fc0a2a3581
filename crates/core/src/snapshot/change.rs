//! Sets of changes that a store applies to a snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::canonical;

use super::resource::{Resource, ResourceKey};

/// Changes that every session sees together, or not at all (S-69).
///
/// Removals come before upserts, so a resource in both exists afterwards. Of two upserts with one name, the later one
/// wins.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Resources to add or to replace.
    pub upserts: Vec<Arc<Resource>>,
    /// Resources to remove; names that do not exist are ignored.
    pub removals: Vec<ResourceKey>,
}

/// Makes a change set that adds or replaces all of the resources.
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
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource.
    pub name: Arc<str>,
}

/// Changes of one type: each name once, `None` for a removal.
pub(super) type ChangesOfType = BTreeMap<Arc<str>, Option<Arc<Resource>>>;

impl ChangeSet {
    /// Adds an upsert.
    #[must_use]
    pub fn put(mut self, resource: impl Into<Arc<Resource>>) -> Self {
        self.upserts.push(resource.into());
        self
    }

    /// Adds a removal.
    #[must_use]
    pub fn remove(mut self, resource_type: ResourceType, name: impl Into<Arc<str>>) -> Self {
        self.removals.push((resource_type, name.into()));
        self
    }

    /// Returns whether the set has neither upserts nor removals.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removals.is_empty()
    }

    pub(super) fn by_type(self) -> BTreeMap<ResourceType, ChangesOfType> {
        let mut resource_types: BTreeMap<ResourceType, ChangesOfType> = BTreeMap::new();
        for (resource_type, mut name) in self.removals {
            // xRFC TP1, "Normalization": resources are kept under canonical names.
            if let Cow::Owned(canonical) = canonical(&name) {
                name = canonical.into();
            }
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
