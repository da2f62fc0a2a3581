//! Facts about clusters of the last moments, which make-before-break needs: subscriptions follow clusters.

use std::{collections::BTreeMap, sync::Arc};

use oxds_types::{Reference, ResourceType};

use super::{cursor::Step, in_flight::Item};
use crate::{
    session::Config,
    snapshot::{Resource, ResourceChange},
    time::Instant,
};

/// Clusters that were sent so recently that the client's next request for assignments may not reflect them yet.
///
/// A client requests the assignments of the clusters that it has. Between learning about a cluster and sending that
/// request, it may still subscribe to an assignment that the cluster needs, or unsubscribe from one (and drop its
/// copy) that no cluster needs any more. The same holds for secrets, to which Envoy subscribes when it has the
/// assignment.
#[derive(Debug, Default)]
pub(crate) struct RecentClusters {
    /// Clusters that the client accepted.
    accepted: BTreeMap<Arc<str>, Instant>,
    /// The client accepted all clusters, on a new stream or before it: which of them are new to it is not known.
    /// Without an end until it has answered.
    all_accepted: Option<Option<Instant>>,
    /// Assignments and secrets that a removed or changed cluster needed; without an end until the client has answered.
    dropped: BTreeMap<Reference, Option<Instant>>,
    secrets: Option<SecretRequests>,
}

/// Time in which the client may subscribe to the secrets of clusters that it accepted.
#[derive(Debug)]
struct SecretRequests {
    /// Present after the client accepted assignments.
    until: Option<Instant>,
    /// Envoy does not wait longer for an assignment.
    at_most: Instant,
}

impl RecentClusters {
    /// A step with cluster changes is sent.
    pub(crate) fn note_sent(&mut self, step: &Step) {
        let changes = step.changes().iter();
        self.note_dropped(changes.flat_map(ResourceChange::needs_no_more));
    }

    /// The removal of a cluster that needed these is sent.
    pub(crate) fn note_dropped<'a>(&mut self, needed: impl Iterator<Item = &'a Reference>) {
        let unsubscribed = [ResourceType::ENDPOINT, ResourceType::SECRET];
        let needed = needed.filter(|needed| unsubscribed.contains(&needed.resource_type));
        self.dropped
            .extend(needed.map(|needed| (needed.clone(), None)));
    }

    /// The client returned with clusters of an earlier stream, and may be about to subscribe to their assignments.
    pub(crate) fn note_returned(&mut self) {
        self.all_accepted = Some(None);
    }

    /// The client answered all responses.
    pub(crate) fn note_answered(&mut self, until: Instant) {
        for end in self.dropped.values_mut().chain(&mut self.all_accepted) {
            end.get_or_insert(until);
        }
    }

    /// The client accepted a step and further items.
    pub(crate) fn note_accepted(
        &mut self,
        now: Instant,
        step: &Step,
        extra: &[Item],
        config: &Config,
    ) {
        let until = now + config.follow_up;
        if matches!(step, Step::Everything) {
            self.all_accepted = Some(Some(until));
        }
        let changed = step.changes().iter().filter_map(|one| one.new.as_ref());
        let mut changed = changed.chain(extra.iter().filter_map(Item::resource));
        let has_secret = |one: &Arc<Resource>| {
            let mut references = one.references().iter();
            references.any(|needed| needed.resource_type == ResourceType::SECRET)
        };
        if matches!(step, Step::Everything) || changed.any(has_secret) {
            let before = self.secrets.take();
            self.secrets = Some(SecretRequests {
                until: before.and_then(|before| before.until),
                at_most: now + config.hold,
            });
        }
        let new = step.changes().iter().filter(|change| change.needs_more());
        let new = new.map(|change| &change.name);
        let extra = extra.iter().filter_map(Item::resource);
        let names = new.chain(extra.map(|resource| resource.name()));
        self.accepted
            .extend(names.map(|name| (Arc::clone(name), until)));
    }

    /// The client accepted assignments, and may subscribe to the secrets of their clusters.
    pub(crate) fn note_assignments(&mut self, now: Instant, until: Instant) {
        self.secrets.take_if(|secrets| secrets.at_most <= now);
        if let Some(secrets) = &mut self.secrets {
            secrets.until = Some(until);
        }
    }

    /// Whether the client accepted assignments of new clusters recently.
    pub(crate) fn may_ask_for_secrets(&self) -> bool {
        let secrets = self.secrets.as_ref();
        secrets.is_some_and(|secrets| secrets.until.is_some())
    }

    /// Whether the client accepted this cluster recently, or all clusters.
    pub(crate) fn has_accepted(&self, cluster: &str) -> bool {
        self.all_accepted.is_some() || self.accepted.contains_key(cluster)
    }

    /// Whether the client may be about to unsubscribe from this assignment or secret.
    pub(crate) fn may_drop(&self, needed: &Reference) -> bool {
        self.all_accepted.is_some() || self.dropped.contains_key(needed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && self.all_accepted.is_none() && !self.may_ask_for_secrets()
    }

    /// Names that it keeps.
    pub(crate) fn len(&self) -> usize {
        self.accepted.len() + self.dropped.len()
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.accepted.retain(|_, until| *until > now);
        let is_open = |until: &Option<Instant>| until.is_none_or(|until| until > now);
        self.all_accepted = self.all_accepted.filter(is_open);
        self.dropped.retain(|_, until| is_open(until));
        if let Some(secrets) = &mut self.secrets {
            secrets.until.take_if(|until| *until <= now);
        }
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let accepted = self.accepted.values().copied();
        let others = self.dropped.values().chain(&self.all_accepted);
        let secrets = self.secrets.iter().filter_map(|secrets| secrets.until);
        accepted.chain(others.copied().flatten()).chain(secrets)
    }
}
