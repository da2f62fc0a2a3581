//! What a store hands over: a set of changes that belong together.

use std::{collections::BTreeMap, sync::Arc};

use oxds_types::Kind;

use super::Resource;

/// Changes that every session sees together, or not at all (S-69).
///
/// Removals come before upserts, so a resource that is in both is there afterwards; of two upserts of one name the
/// later counts.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Resources to add or to replace.
    pub upserts: Vec<Arc<Resource>>,
    /// Resources to take away; those that do not exist are passed over.
    pub removals: Vec<(Kind, Arc<str>)>,
}

/// A resource that a change set added, replaced or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Arc<str>,
}

/// The part of a change set that concerns one kind: each name once, `None` for a removal.
pub(super) type OfKind = BTreeMap<Arc<str>, Option<Arc<Resource>>>;

impl ChangeSet {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removals.is_empty()
    }

    pub(super) fn by_kind(self) -> BTreeMap<Kind, OfKind> {
        let mut kinds: BTreeMap<Kind, OfKind> = BTreeMap::new();
        for (kind, name) in self.removals {
            kinds.entry(kind).or_default().insert(name, None);
        }
        for resource in self.upserts {
            let of_kind = kinds.entry(resource.kind().clone()).or_default();
            of_kind.insert(resource.name().clone(), Some(resource));
        }
        kinds
    }
}
