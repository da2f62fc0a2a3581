//! Clusters that were sent so recently that the client's next request for assignments may not reflect them yet.
//!
//! A client requests the assignments of the clusters that it has. Between learning about a cluster and sending that
//! request, it may still subscribe to an assignment that the cluster needs, or unsubscribe from one (and drop its
//! copy) that no cluster needs any more.

use std::{collections::BTreeMap, sync::Arc};

use oxds_types::{Reference, ResourceType};

use super::{cursor::Step, in_flight::Item};
use crate::{snapshot::ResourceChange, time::Instant};

/// Recent changes of clusters, and when they stop being recent.
#[derive(Debug, Default)]
pub(crate) struct RecentClusters {
    /// Clusters that the client accepted.
    accepted: BTreeMap<Arc<str>, Instant>,
    /// The client accepted all clusters, on a new stream: which of them are new to it is not known.
    all_accepted: Option<Instant>,
    /// Assignments that a removed or changed cluster needed; without an end until the client has answered.
    dropped: BTreeMap<Arc<str>, Option<Instant>>,
}

impl RecentClusters {
    /// A step with cluster changes is sent.
    pub(crate) fn note_sent(&mut self, step: &Step) {
        let changes = step.changes().iter();
        self.note_dropped(changes.flat_map(ResourceChange::needs_no_more));
    }

    /// The removal of a cluster that needed these is sent.
    pub(crate) fn note_dropped<'a>(&mut self, needed: impl Iterator<Item = &'a Reference>) {
        let assignments = needed.filter(|needed| needed.resource_type == ResourceType::ENDPOINT);
        self.dropped
            .extend(assignments.map(|needed| (Arc::clone(&needed.name), None)));
    }

    /// The client answered all responses.
    pub(crate) fn note_answered(&mut self, until: Instant) {
        for end in self.dropped.values_mut() {
            end.get_or_insert(until);
        }
    }

    /// The client accepted a step and further items.
    pub(crate) fn note_accepted(&mut self, step: &Step, extra: &[Item], until: Instant) {
        if matches!(step, Step::Everything) {
            self.all_accepted = Some(until);
        }
        let new = step.changes().iter().filter(|change| change.needs_more());
        let new = new.map(|change| &change.name);
        let extra = extra.iter().filter_map(Item::resource);
        let names = new.chain(extra.map(|resource| resource.name()));
        self.accepted
            .extend(names.map(|name| (Arc::clone(name), until)));
    }

    /// Whether the client accepted this cluster recently, or all clusters.
    pub(crate) fn has_accepted(&self, cluster: &str) -> bool {
        self.all_accepted.is_some() || self.accepted.contains_key(cluster)
    }

    /// Whether the client may be about to unsubscribe from this assignment.
    pub(crate) fn may_drop(&self, assignment: &str) -> bool {
        self.all_accepted.is_some() || self.dropped.contains_key(assignment)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && self.all_accepted.is_none()
    }

    /// Names that it keeps.
    pub(crate) fn len(&self) -> usize {
        self.accepted.len() + self.dropped.len()
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.accepted.retain(|_, until| *until > now);
        self.all_accepted = self.all_accepted.filter(|until| *until > now);
        self.dropped
            .retain(|_, until| until.is_none_or(|until| until > now));
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let accepted = self.accepted.values().copied();
        let dropped = self.dropped.values().copied().flatten();
        accepted.chain(self.all_accepted).chain(dropped)
    }
}
