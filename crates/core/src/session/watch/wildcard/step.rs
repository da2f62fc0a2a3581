//! From where a client that asked for everything is, to where it should be.

use std::{ops::Range, sync::Arc};

use crate::snapshot::{Difference, Resource, ResourceChange, ResourceSet};

/// How a client that asked for everything gets from where it is to where it should be.
#[derive(Debug, Clone)]
pub(in crate::session) enum Step {
    /// It is there.
    None,
    /// It has to be told this.
    Since(Arc<Difference>),
    /// It has to be told everything.
    Everything,
}

impl Step {
    pub(super) fn difference(&self) -> Option<&Arc<Difference>> {
        match self {
            Self::Since(difference) => Some(difference),
            Self::None | Self::Everything => None,
        }
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Since(difference) => difference.changes().is_empty(),
            Self::Everything => false,
        }
    }

    /// Whether a resource has another TTL, which no version tells.
    pub(super) fn changes_a_ttl(&self) -> bool {
        let mut changes = self.difference().into_iter().flat_map(|d| d.changes());
        changes.any(ResourceChange::is_of_ttl)
    }

    /// Whether this name is part of the step.
    pub(in crate::session::watch) fn has(&self, name: &str) -> bool {
        self.difference()
            .is_some_and(|difference| difference.has(name))
    }

    /// The resources that a step brings.
    pub(in crate::session::watch) fn updates<'a>(
        &'a self,
        all: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        let (changes, everything) = match self {
            Self::None => (&[][..], None),
            Self::Since(step) => (step.changes(), None),
            Self::Everything => (&[][..], Some(all.iter())),
        };
        let changed = changes.iter().filter_map(|change| change.new.as_ref());
        changed.chain(everything.into_iter().flatten())
    }

    /// Those of them that are in one part.
    pub(in crate::session::watch) fn part<'a>(
        &'a self,
        part: &Range<usize>,
        all: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.updates(all).skip(part.start).take(part.len())
    }
}
