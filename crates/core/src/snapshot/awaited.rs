//! Content that is not known yet, because a store has not delivered it.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use oxds_types::ResourceType;

/// Content that a store has not delivered yet, while clients are connected. They get nothing of it, not even that a
/// name does not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Awaited {
    /// Everything is known.
    #[default]
    Nothing,
    /// The rest of the snapshot is known: it is from an earlier process that did not keep these types.
    Types(BTreeSet<ResourceType>),
    /// Nothing is loaded, but soon will be: by the store, or from an earlier process. A client that has the same state
    /// already gets nothing, although it had to wait (compare S-26).
    Everything,
}

/// Content that clients wait for. It belongs to no revision: no content changes when the wait ends.
#[derive(Debug, Default)]
pub(super) struct AwaitedContent(RwLock<Awaited>);

impl AwaitedContent {
    /// Replaces it. Returns whether that is a change.
    pub(super) fn replace(&self, awaited: Awaited) -> bool {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = *now != awaited;
        *now = awaited;
        is_new
    }

    pub(super) fn contains(&self, resource_type: &ResourceType) -> bool {
        let awaited = self.0.read().unwrap_or_else(PoisonError::into_inner);
        matches!(&*awaited, Awaited::Types(types) if types.contains(resource_type))
    }

    pub(super) fn is_everything(&self) -> bool {
        let awaited = self.0.read().unwrap_or_else(PoisonError::into_inner);
        *awaited == Awaited::Everything
    }
}
