//! Make-before-break for one resource type (S-51 … S-55), over a read-only view of the other types of the stream.
//!
//! Additions are sent in the order of the types, so that a resource arrives after its dependencies. Removals are sent
//! in reverse order, so that nothing is removed while a resource at the client refers to it. No table of types is
//! needed: a resource carries its references, types are ordered, and each type knows what the client has of it.
//!
//! ```text
//!             a dependency of an earlier type is subscribed, exists,      it is accepted, or
//!   update ──▶ and is not accepted ──▶ held ─────────────────────────────▶ Config::hold is over ──▶ sent
//!
//!             a copy that the client has, and that is about to            it is replaced, or
//!   removal ─▶ change or go, refers to it ──▶ held ──────────────────────▶ Config::hold is over ──▶ sent
//! ```
//!
//! Both holds end after [`Config::hold`](crate::session::Config::hold) and are then reported (S-53). If a resource
//! has a TTL, updates wait for a quarter of it at most, so that heartbeats arrive in time (S-49). A type without a
//! subscription delays nothing (S-55). A client that subscribes by name decides its own order, as gRPC does.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use oxds_types::{Reference, ResourceType, reference::may_refer};

use super::{
    client::{ClientState, HeldRemoval},
    context::TypeContext,
    cursor::Step,
    hold_timer::HoldTimer,
    in_flight::Item,
};
use crate::{
    snapshot::{Resource, ResourceChange, Snapshot, TypeSnapshot},
    status::WaitsFor,
    time::Instant,
};

/// Read-only view of one type, for the gates of the other types.
pub(crate) trait PeerType {
    fn context(&self) -> &TypeContext;
    fn client(&self) -> &ClientState;
    /// Whether the client accepted everything that is served, and nothing is pending.
    fn is_settled(&self, head: &TypeSnapshot) -> bool;
    /// Whether content is due or outstanding of which the client accepted no version: it may use a copy from an
    /// earlier stream.
    fn is_unanswered(&self, head: &TypeSnapshot) -> bool;
    /// Whether the client subscribed to this name and uses no version of it.
    fn lacks(&self, name: &str) -> bool;
    /// Whether removals from an earlier stream are still to be sent.
    fn has_pending_removals(&self) -> bool;
    /// Whether the client learned about this cluster so recently that it may still subscribe to its assignment, or
    /// will learn about it.
    fn is_news(&self, cluster: &Arc<Resource>) -> bool;
    /// Whether the client unsubscribes from an assignment before it learns that this cluster needs it.
    fn unsubscribes_before(&self, cluster: &Arc<Resource>, assignment: &str) -> bool;

    /// Served resources of another type, in the API version of this one.
    fn served<'a>(&self, resource_type: &ResourceType, snapshot: &'a Snapshot) -> &'a TypeSnapshot {
        snapshot.of_type_in(resource_type, self.context().form.api)
    }

    /// Served resources of this type.
    fn head<'a>(&self, snapshot: &'a Snapshot) -> &'a TypeSnapshot {
        self.served(&self.context().resource_type, snapshot)
    }

    /// A copy that the client has but will not keep, and that refers to this resource.
    fn user(&self, of: &ResourceType, name: &str, snapshot: &Snapshot) -> Option<Arc<Resource>> {
        let head = self.head(snapshot);
        if self.is_settled(head) {
            return None;
        }
        self.client().user(self.context(), of, name, head)
    }

    fn waits_for(&self, name: Option<&Arc<str>>) -> WaitsFor {
        WaitsFor {
            resource_type: self.context().resource_type.clone(),
            name: name.cloned(),
        }
    }
}

/// Current snapshot and the other types of a stream, as one type sees them.
#[derive(Debug)]
pub(crate) struct Peers<'a, T> {
    /// Served resources of the type itself.
    pub(crate) head: &'a TypeSnapshot,
    /// Types that are sent before this one.
    pub(crate) before: &'a [T],
    /// Types that are sent after this one.
    pub(crate) after: &'a [T],
    pub(crate) snapshot: &'a Snapshot,
    /// Whether the client may still subscribe to other types on this stream.
    pub(crate) aggregated: bool,
}

impl<T> Clone for Peers<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Peers<'_, T> {}

impl<'a, T: PeerType> Peers<'a, T> {
    fn all(&self) -> impl Iterator<Item = &'a T> {
        self.before.iter().chain(self.after)
    }

    fn earlier(&self, resource_type: &ResourceType) -> Option<&'a T> {
        let mut before = self.before.iter();
        before.find(|peer| peer.context().resource_type == *resource_type)
    }

    /// The copy at the client that uses this resource and that the client will not keep; or the type of which it may
    /// have one.
    pub(crate) fn user(&self, resource_type: &ResourceType, name: &str) -> Option<WaitsFor> {
        self.all().find_map(|peer| {
            // S-52: which copies an unanswered type has from an earlier stream is unknown, so it may have a user; so are
            // the copies that it is about to remove.
            let may_refer = || may_refer(&peer.context().resource_type, resource_type);
            if peer.is_unanswered(peer.head(self.snapshot))
                || peer.has_pending_removals() && may_refer()
            {
                return Some(peer.waits_for(None));
            }
            let user = peer.user(resource_type, name, self.snapshot)?;
            Some(peer.waits_for(Some(user.name())))
        })
    }

    /// Whether such a copy was subscribed by name.
    fn has_user_by_name(&self, resource_type: &ResourceType, name: &str) -> bool {
        // gRFC A74: such a client drops the user itself, and then the resource.
        let mut by_name = self.all().filter(|peer| !peer.client().is_wildcard());
        by_name.any(|peer| peer.user(resource_type, name, self.snapshot).is_some())
    }

    /// Whether a held removal waits for the client to unsubscribe by itself. gRFC A74: a client that subscribes by
    /// name accepts the new user first, then subscribes to what that needs, and unsubscribes from the rest last.
    pub(crate) fn unsubscribes_itself(&self, of: &ResourceType, held: &HeldRemoval) -> bool {
        let name = held.resource.name();
        held.by_name
            && !self
                .all()
                .any(|peer| peer.client().accepted_by_name(of, name))
    }

    /// A later type, which may refer to clusters, that is subscribed but not answered.
    pub(crate) fn unanswered_user(&self) -> Option<WaitsFor> {
        let mut after = self.after.iter();
        let unanswered = after.find(|peer| peer.is_unanswered(peer.head(self.snapshot)));
        unanswered.map(|peer| peer.waits_for(None))
    }

    /// Whether the client subscribed to a type that may refer to clusters, or cannot on this stream.
    pub(crate) fn users_are_subscribed(&self) -> bool {
        let is_user = |peer: &T| peer.context().resource_type >= ResourceType::LISTENER;
        !self.aggregated || self.after.iter().any(is_user)
    }

    /// Whether all earlier types are settled, so that no dependency can be missing.
    fn are_settled(&self) -> bool {
        let mut before = self.before.iter();
        before.all(|peer| peer.is_settled(peer.head(self.snapshot)))
    }

    /// A dependency of `resource` that the client does not have yet but will.
    pub(crate) fn lacking(&self, resource: &Resource) -> Option<WaitsFor> {
        let needed = |reference: &Reference| WaitsFor {
            resource_type: reference.resource_type.clone(),
            name: Some(Arc::clone(&reference.name)),
        };
        resource.references().iter().find_map(|reference| {
            // S-55: a type or name without a subscription delays nothing. A client that subscribes by name decides
            // its own order.
            let peer = self.earlier(&reference.resource_type)?;
            if !peer.client().covers(&reference.name) {
                return None;
            }
            let head = peer.head(self.snapshot);
            let dependency = head.collection().get(&reference.name)?;
            // xDS protocol, "Eventual consistency considerations": a route arrives after its clusters (S-51).
            if peer.lacks(&reference.name) {
                return Some(needed(reference));
            }
            let mut next = dependency.references().iter();
            next.find(|next| self.lacks_next(peer, dependency, next))
                .map(needed)
        })
    }

    /// The same one level deeper: the assignment of a cluster that a route refers to. Without it the cluster does not
    /// warm.
    fn lacks_next(&self, peer: &T, needed: &Arc<Resource>, next: &Reference) -> bool {
        let served = peer.served(&next.resource_type, self.snapshot);
        if served.collection().get(&next.name).is_none() {
            return false;
        }
        let subscribed = |further: &&T| {
            further.client().covers(&next.name) && !peer.unsubscribes_before(needed, &next.name)
        };
        match self.earlier(&next.resource_type).filter(subscribed) {
            Some(further) => further.lacks(&next.name),
            // Not subscribed. The client subscribes after it learns about the cluster.
            None => next.resource_type == ResourceType::ENDPOINT && peer.is_news(needed),
        }
    }
}

/// Holds of one type. Removals are held in [`ClientState`], as the client still has those resources.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Present while updates wait for their dependencies.
    blocked: Option<HoldTimer>,
}

impl Gate {
    /// Timer of updates that wait for their dependencies, unless it expired.
    pub(crate) fn blocked(&self) -> Option<HoldTimer> {
        self.blocked.filter(|timer| !timer.expired)
    }

    pub(crate) fn deadline(&self, hold: Duration) -> Option<Instant> {
        self.blocked?.deadline(hold)
    }

    /// Updates the timer of waiting updates; returns whether it expired now.
    pub(crate) fn expire(&mut self, now: Instant, hold: Duration) -> bool {
        let mut blocked = self.blocked.iter_mut();
        blocked.any(|timer| timer.expire(now, hold))
    }

    /// Whether one of these updates has to wait for a dependency. Starts or stops the hold timer.
    pub(crate) fn updates_wait<'a, T: PeerType>(
        &mut self,
        now: Instant,
        context: &TypeContext,
        mut updates: impl Iterator<Item = &'a Arc<Resource>>,
        peers: &Peers<'_, T>,
    ) -> bool {
        let waits = !peers.are_settled() && updates.any(|one| self.lacks_dependency(one, peers));
        self.note_waiting(now, context, waits, peers.head);
        waits
    }

    /// Whether this update waits for a dependency, and the hold time is not over.
    pub(crate) fn lacks_dependency<T: PeerType>(
        &self,
        update: &Resource,
        peers: &Peers<'_, T>,
    ) -> bool {
        // S-53: the hold is bounded in time, so that a client that never answers is not starved.
        !self.blocked.is_some_and(|timer| timer.expired) && peers.lacking(update).is_some()
    }

    /// Starts the hold timer when updates begin to wait, and stops it when none of them waits.
    pub(crate) fn note_waiting(
        &mut self,
        now: Instant,
        context: &TypeContext,
        waits: bool,
        head: &TypeSnapshot,
    ) {
        // S-49: the client may have a copy from an earlier stream, and half of its TTL may be over.
        let shortest = head.collection().ttls().next();
        let shortest = shortest.filter(|_| context.form.ttl);
        let at_most = shortest.map_or(Duration::MAX, |ttl| ttl / 4);
        let timer = HoldTimer::start(now).at_most(at_most);
        self.blocked = waits.then(|| self.blocked.unwrap_or(timer));
    }
}

/// Whether the removal of a resource has to wait. Starts its hold if it does.
pub(crate) fn removal_waits<T: PeerType>(
    now: Instant,
    resource: &Arc<Resource>,
    context: &TypeContext,
    client: &mut ClientState,
    peers: &Peers<'_, T>,
) -> bool {
    let (resource_type, name) = (&context.resource_type, resource.name());
    let has_user = || peers.user(resource_type, name).is_some();
    // S-53: a hold that expired is not started again, so that a removal is delayed once.
    if let Some(held) = client.held().get(name) {
        let itself = || peers.unsubscribes_itself(resource_type, held);
        return !held.timer.expired && (has_user() || itself());
    }
    // After a NACK the client does not have the content that was sent, but may have what was there before.
    let has = match client.nacked().get(name) {
        Some(nacked) => nacked.in_use.resource(),
        None => Some(resource),
    };
    let Some(resource) = has.filter(|_| has_user()).cloned() else {
        return false;
    };
    client.hold(HeldRemoval {
        resource,
        by_name: !client.is_wildcard() && peers.has_user_by_name(resource_type, name),
        timer: HoldTimer::start(now),
    });
    true
}

/// Holds the removals of a step that are still in use. Returns copies that were held and come back with the step.
pub(crate) fn hold_removals<T: PeerType>(
    now: Instant,
    step: &Step,
    context: &TypeContext,
    client: &mut ClientState,
    peers: &Peers<'_, T>,
) -> Vec<Arc<Resource>> {
    let mut replaced = Vec::new();
    for change in step.changes() {
        match (&change.old, &change.new) {
            (Some(old), None) if removal_waits(now, old, context, client, peers) => {}
            // A resource that came back: the client replaces the held copy, and uses it if it NACKs the new content.
            (_, new) => {
                let held = client.release(&change.name).filter(|_| new.is_some());
                replaced.extend(held.map(|held| held.resource));
            }
        }
    }
    replaced
}

/// Ends the holds of removals without a user, and those whose time is over. A resource that came back stays held
/// until the step that brings it.
pub(crate) fn release_removals<T: PeerType>(
    context: &TypeContext,
    client: &mut ClientState,
    recent: &mut RecentClusters,
    peers: &Peers<'_, T>,
) -> Vec<Arc<str>> {
    let has_user = |name: &str| peers.user(&context.resource_type, name).is_some();
    let may_go = |(name, held): &(&Arc<str>, &HeldRemoval)| {
        let is_gone = peers.head.collection().get(name).is_none();
        is_gone && (held.timer.expired || !has_user(name))
    };
    let released = client.held().iter().filter(may_go);
    let released: Vec<Arc<str>> = released.map(|(name, _)| Arc::clone(name)).collect();
    for name in &released {
        let held = client.release(name);
        recent.note_dropped(held.iter().flat_map(|held| held.resource.references()));
    }
    released
}

/// Clusters that were sent so recently that the client's next request for assignments may not reflect them yet.
///
/// A client requests the assignments of the clusters that it has. Between learning about a cluster and sending that
/// request, it may still subscribe to an assignment that the cluster needs, or unsubscribe from one (and drop its
/// copy) that no cluster needs any more.
#[derive(Debug, Default)]
pub(crate) struct RecentClusters {
    /// Clusters that the client accepted.
    accepted: BTreeMap<Arc<str>, Instant>,
    /// The client accepted all clusters, on a new stream or before it: which of them are new to it is not known.
    /// Without an end until it has answered.
    all_accepted: Option<Option<Instant>>,
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
    pub(crate) fn note_accepted(&mut self, step: &Step, extra: &[Item], until: Instant) {
        if matches!(step, Step::Everything) {
            self.all_accepted = Some(Some(until));
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
        let is_open = |until: &Option<Instant>| until.is_none_or(|until| until > now);
        self.all_accepted = self.all_accepted.filter(is_open);
        self.dropped.retain(|_, until| is_open(until));
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let accepted = self.accepted.values().copied();
        let others = self.dropped.values().chain(&self.all_accepted);
        accepted.chain(others.copied().flatten())
    }
}
