//! Position of a wildcard client, and its distance from the current snapshot.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use oxds_types::Version;

use crate::{
    response::ResponseBuilder,
    snapshot::{Body, Difference, Resource, ResourceChange, ResourceSet, TypeSnapshot},
};

/// Position of a wildcard client. Both collections are equal when it is in sync.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// ResourceSet that the latest response leads to; `None`: all resources have to be sent.
    pub(crate) sent: Option<Arc<ResourceSet>>,
    /// ResourceSet that the client accepted.
    pub(crate) acked: Option<Arc<ResourceSet>>,
    /// SotW: version of the latest response. Differs from that of `sent` while removals are held.
    pub(crate) version: Option<Version>,
    /// Delta: parts of a split response that are still to be sent.
    pub(crate) unsent: Option<SplitResponse>,
}

impl Cursor {
    /// Position of a client that has this collection and accepted it.
    pub(crate) fn in_sync(at: &Arc<ResourceSet>) -> Self {
        Self {
            sent: Some(Arc::clone(at)),
            acked: Some(Arc::clone(at)),
            version: Some(at.version()),
            unsent: None,
        }
    }

    /// Content between the cursor and `head`.
    pub(crate) fn step(&self, head: &TypeSnapshot) -> Step {
        match &self.sent {
            Some(sent) if sent.revision() == head.collection().revision() => Step::InSync,
            Some(sent) => Step::Since(head.difference(sent)),
            None => Step::Everything,
        }
    }

    /// Moves back to what the client accepted, so that the rest is due again.
    pub(crate) fn rewind(&mut self) {
        (self.sent, self.version) = (self.acked.clone(), None);
    }

    /// Moves to `to` without a response: nothing between is news to the client.
    pub(crate) fn advance(&mut self, to: &Arc<ResourceSet>) {
        let at = |place: &Option<Arc<ResourceSet>>| place.as_ref().map(|c| c.revision());
        // The client accepted the state before, and this one differs in nothing that it is sent.
        if at(&self.acked) == at(&self.sent) {
            self.acked = Some(Arc::clone(to));
        }
        self.sent = Some(Arc::clone(to));
    }
}

/// Content that brings a wildcard client from its cursor to the current collection.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Nothing: the cursor is at the current revision.
    InSync,
    /// The changes since the cursor.
    Since(Arc<Difference>),
    /// All resources: the client has no position yet.
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

    /// Whether this name may be among the updates.
    pub(crate) fn may_update(&self, name: &str) -> bool {
        matches!(self, Self::Everything) || self.has(name)
    }

    /// Names that the step removes.
    pub(crate) fn removals(&self) -> impl Iterator<Item = &Arc<str>> {
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

/// Remaining parts of a delta response that exceeds the message limit (S-50).
#[derive(Debug)]
pub(crate) struct SplitResponse {
    parts: VecDeque<Body>,
    /// Resources, and removals, of the step that were sent.
    resources: usize,
    removed: usize,
    step: Step,
}

impl SplitResponse {
    /// Writes the resources and then the removals that fit, and returns the rest.
    pub(crate) fn begin(
        response: &mut ResponseBuilder,
        upserts: &Arc<[Body]>,
        removals: Option<&Arc<[Body]>>,
        step: &Step,
        limit: usize,
    ) -> Option<Self> {
        let removals = removals.into_iter().flat_map(|removals| removals.iter());
        let parts = upserts.iter().chain(removals);
        let mut parts = parts.filter(|part| !part.bytes.is_empty()).peekable();
        let first = parts.next()?;
        response.push_body(first);
        if let Some(second) = parts.next_if(|second| first.fits_with(second, limit)) {
            response.push_body(second);
        }
        let parts: VecDeque<Body> = parts.cloned().collect();
        (!parts.is_empty()).then(|| Self {
            parts,
            resources: response.resources,
            removed: response.removed,
            step: step.clone(),
        })
    }

    /// Writes the next part; returns its step, the indexes of its resources in that step, and the rest. Leaves out
    /// removals of names that exist again: the client keeps its copy until the new content is sent.
    pub(crate) fn push_next(
        mut self,
        response: &mut ResponseBuilder,
        current: &ResourceSet,
    ) -> (Step, Range<usize>, Option<Self>) {
        let part = self.parts.pop_front().unwrap_or_default();
        let (step, sent) = (self.step, self.resources);
        let removals = || step.removals().skip(self.removed).take(part.removed);
        let is_gone = |name: &&Arc<str>| current.get(name).is_none();
        if removals().all(|name| is_gone(&name)) {
            response.push_body(&part);
        } else {
            for name in removals().filter(is_gone) {
                response.try_push_removal(name, usize::MAX);
            }
        }
        let rest = (!self.parts.is_empty()).then(|| Self {
            parts: self.parts,
            resources: sent + part.resources,
            removed: self.removed + part.removed,
            step: step.clone(),
        });
        (step, sent..sent + response.resources, rest)
    }
}
