//! Distance of a wildcard client from the current snapshot.

use std::{ops::Range, sync::Arc};

use crate::snapshot::{Difference, Resource, ResourceChange, ResourceSet};

/// Content that brings a wildcard client from its cursor to the current collection.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Nothing: the cursor is at the current revision.
    InSync,
    /// The changes since the cursor.
    Since(Arc<Difference>),
    /// All resources: there is no cursor yet.
    Everything,
}

impl Step {
    pub(crate) fn difference(&self) -> Option<&Arc<Difference>> {
        match self {
            Self::Since(difference) => Some(difference),
            Self::InSync | Self::Everything => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::InSync => true,
            Self::Since(difference) => difference.changes().is_empty(),
            Self::Everything => false,
        }
    }

    pub(crate) fn changes(&self) -> &[ResourceChange] {
        self.difference().map_or(&[], |since| since.changes())
    }

    /// Whether a resource has another TTL. The version is a hash of the content, so it does not show that.
    pub(crate) fn changes_a_ttl(&self) -> bool {
        self.changes().iter().any(ResourceChange::is_of_ttl)
    }

    /// Whether the step changes or removes this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.difference().is_some_and(|since| since.has(name))
    }

    /// Names that the step removes.
    pub(crate) fn removals(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        let gone = self.changes().iter().filter(|change| change.new.is_none());
        gone.map(|change| &change.name)
    }

    /// New and changed resources of the step.
    pub(crate) fn updates<'a>(
        &'a self,
        all: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        let everything = matches!(self, Self::Everything).then(|| all.iter());
        let changed = self.changes().iter().filter_map(|c| c.new.as_ref());
        changed.chain(everything.into_iter().flatten())
    }

    /// The updates in one part of a split response.
    pub(crate) fn part<'a>(
        &'a self,
        part: &Range<usize>,
        all: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.updates(all).skip(part.start).take(part.len())
    }
}
