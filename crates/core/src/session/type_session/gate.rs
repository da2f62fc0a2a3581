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
//!
//! Two dependencies of a route are one level deeper: the assignment and the secrets of its cluster, without which the
//! client does not use the cluster. A secret holds the route even if it does not exist; such holds have a timer of
//! their own, so that its end releases nothing else.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use oxds_types::{Reference, ResourceType, reference::may_refer};

use super::{
    client::{ClientState, HeldRemoval},
    context::TypeContext,
    cursor::Step,
    hold_timer::HoldTimer,
    recent::RecentClusters,
};
use crate::{
    snapshot::{Resource, Snapshot, TypeSnapshot},
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
    /// Whether the client unsubscribes from an assignment or a secret before it learns that this cluster needs it.
    fn unsubscribes_before(&self, cluster: &Arc<Resource>, needed: &Reference) -> bool;
    /// Whether the client accepted assignments of new clusters so recently that it may still subscribe to their
    /// secrets.
    fn may_ask_for_secrets(&self) -> bool;

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
            missing: false,
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
            // S-52: which copies an unanswered type has from an earlier stream is unknown, so it may have a user; so
            // are the copies that it is about to remove.
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
        before.all(|peer| {
            let is_secret = peer.context().resource_type == ResourceType::SECRET;
            peer.is_settled(peer.head(self.snapshot)) && !(is_secret && peer.client().lacks_any())
        })
    }

    /// Dependencies of `update` that the client does not have yet. `before`: the copy that the update replaces.
    pub(crate) fn lacking(&self, update: &Resource, before: &OldCopy<'_>) -> Lacking {
        let mut lacking = Lacking::default();
        for reference in update.references() {
            // S-55: a type or name without a subscription delays nothing. A client that subscribes by name decides
            // its own order.
            let peer = self.earlier(&reference.resource_type);
            let Some(peer) = peer.filter(|peer| peer.client().covers(&reference.name)) else {
                continue;
            };
            let head = peer.head(self.snapshot);
            let Some(dependency) = head.collection().get(&reference.name) else {
                continue;
            };
            // The client uses it already, so that a hold would keep nothing from it.
            let is_used = || match before {
                OldCopy::Accepted(copy) => copy.references().contains(reference),
                OldCopy::None | OldCopy::Unknown => false,
            };
            let is_secret = reference.resource_type == ResourceType::SECRET;
            // xDS protocol, "Eventual consistency considerations": a route arrives after its clusters (S-51).
            if peer.lacks(&reference.name) && !(is_secret && is_used()) {
                lacking.add(reference, true);
                continue;
            }
            for next in dependency.references() {
                if next.resource_type == ResourceType::SECRET {
                    if self.lacks_secret(peer, dependency, next) && !is_used() {
                        let served = peer.served(&next.resource_type, self.snapshot);
                        let exists = served.collection().get(&next.name).is_some();
                        // A first route leads away from nothing: without it, the client would have no route at all.
                        if exists || !matches!(before, OldCopy::None) {
                            lacking.add(next, exists);
                        }
                    }
                } else if self.lacks_next(peer, dependency, next) {
                    lacking.add(next, true);
                }
            }
            if lacking.is_full() {
                break;
            }
        }
        lacking
    }

    /// The same one level deeper: the assignment of a cluster that a route refers to. Without it the cluster does not
    /// warm.
    fn lacks_next(&self, peer: &T, needed: &Arc<Resource>, next: &Reference) -> bool {
        let served = peer.served(&next.resource_type, self.snapshot);
        if served.collection().get(&next.name).is_none() {
            return false;
        }
        match self.subscribed(peer, needed, next) {
            Some(further) => further.lacks(&next.name),
            // Not subscribed. The client subscribes after it learns about the cluster.
            None => next.resource_type == ResourceType::ENDPOINT && peer.is_news(needed),
        }
    }

    /// The same for a secret of that cluster, whether it exists or not. Envoy subscribes to it after it has the
    /// assignment.
    fn lacks_secret(&self, peer: &T, needed: &Arc<Resource>, secret: &Reference) -> bool {
        match self.subscribed(peer, needed, secret) {
            Some(further) => further.lacks(&secret.name),
            None => peer.is_news(needed) || peer.may_ask_for_secrets(),
        }
    }

    /// The earlier type with this resource, if the client subscribed to the resource and does not unsubscribe before
    /// it learns that `needed` refers to it.
    fn subscribed(&self, peer: &T, needed: &Arc<Resource>, next: &Reference) -> Option<&'a T> {
        self.earlier(&next.resource_type).filter(|further| {
            further.client().covers(&next.name) && !peer.unsubscribes_before(needed, next)
        })
    }
}

/// Copy of a resource at the client before an update.
#[derive(Debug)]
pub(crate) enum OldCopy<'a> {
    Accepted(&'a Arc<Resource>),
    None,
    /// Perhaps one from an earlier stream.
    Unknown,
}

/// Copies of a type at the client before an update.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldCopies<'a> {
    pub(crate) client: &'a ClientState,
    /// Whether the client accepted nothing of the type on earlier streams.
    pub(crate) is_fresh: bool,
}

impl<'a> OldCopies<'a> {
    pub(crate) fn of(self, name: &str) -> OldCopy<'a> {
        match self.client.accepted(name) {
            Some(copy) => OldCopy::Accepted(copy),
            None if self.is_fresh => OldCopy::None,
            None => OldCopy::Unknown,
        }
    }
}

/// Dependencies that a client does not have: one that is served, and one that does not exist.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    served: Option<WaitsFor>,
    missing: Option<WaitsFor>,
}

impl Lacking {
    fn add(&mut self, reference: &Reference, is_served: bool) {
        let place = if is_served {
            &mut self.served
        } else {
            &mut self.missing
        };
        place.get_or_insert_with(|| WaitsFor {
            resource_type: reference.resource_type.clone(),
            name: Some(Arc::clone(&reference.name)),
            missing: !is_served,
        });
    }

    fn is_full(&self) -> bool {
        self.served.is_some() && self.missing.is_some()
    }

    /// One of them, which is served if there is such a one.
    pub(crate) fn first(self) -> Option<WaitsFor> {
        self.served.or(self.missing)
    }
}

/// Hold of updates for one reason: they lack dependencies that are served, or secrets that do not exist.
#[derive(Debug, Default)]
struct UpdateHold {
    /// Present while updates wait.
    timer: Option<HoldTimer>,
    /// An update that waits, and the dependency that it waits for.
    cause: Option<(Arc<str>, WaitsFor)>,
    /// Whether an update was found that waits, since the last decision.
    found: bool,
}

impl UpdateHold {
    fn is_expired(&self) -> bool {
        self.timer.is_some_and(|timer| timer.expired)
    }

    /// Records the dependency that an update lacks; returns whether the update has to wait for it.
    fn note(&mut self, update: &Resource, lacks: Option<WaitsFor>) -> bool {
        // S-53: the hold is bounded in time, so that a client that never answers is not starved.
        let Some(lacks) = lacks.filter(|_| !self.is_expired()) else {
            return false;
        };
        if !self.found {
            self.cause = Some((Arc::clone(update.name()), lacks));
        }
        self.found = true;
        true
    }

    /// Starts the timer if updates wait, and stops it otherwise; but if they wait for another reason, an expired timer
    /// stays expired until they are sent.
    fn decide(&mut self, start: HoldTimer, any_waits: bool) {
        let found = std::mem::take(&mut self.found);
        let keeps = found || any_waits && self.is_expired();
        self.timer = keeps.then(|| self.timer.unwrap_or(start));
        if !keeps {
            self.cause = None;
        }
    }

    /// Updates the timer; returns the cause if it expired now.
    fn expire(&mut self, now: Instant, hold: Duration) -> Option<(Arc<str>, WaitsFor)> {
        let expires = self.timer.as_mut()?.expire(now, hold);
        self.cause.take_if(|_| expires)
    }
}

/// Holds of one type. Removals are held in [`ClientState`], as the client still has those resources.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Updates that lack dependencies which the client will get.
    served: UpdateHold,
    /// Updates that lack secrets which do not exist.
    missing: UpdateHold,
}

impl Gate {
    /// Whether each cause belongs to a hold whose timer runs; for debug assertions.
    pub(crate) fn is_consistent(&self) -> bool {
        self.holds()
            .all(|hold| !hold.found && (hold.cause.is_none() || hold.timer.is_some()))
    }

    /// Timer of updates that wait for their dependencies, unless it expired.
    pub(crate) fn blocked(&self) -> Option<HoldTimer> {
        let mut timers = self.holds().filter_map(|hold| hold.timer);
        timers.find(|timer| !timer.expired)
    }

    fn holds(&self) -> impl Iterator<Item = &UpdateHold> {
        [&self.served, &self.missing].into_iter()
    }

    pub(crate) fn deadlines(&self, hold: Duration) -> impl Iterator<Item = Instant> {
        let timers = self.holds().filter_map(|hold| hold.timer);
        timers.filter_map(move |timer| timer.deadline(hold))
    }

    /// Updates the timers of waiting updates; returns the causes of those that expired now.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        hold: Duration,
    ) -> impl Iterator<Item = (Arc<str>, WaitsFor)> {
        let holds = [&mut self.served, &mut self.missing].into_iter();
        holds.filter_map(move |one| one.expire(now, hold))
    }

    /// Whether one of these updates has to wait for a dependency. Starts or stops the hold timer.
    pub(crate) fn updates_wait<'a, T: PeerType>(
        &mut self,
        now: Instant,
        context: &TypeContext,
        copies: OldCopies<'_>,
        updates: impl Iterator<Item = &'a Arc<Resource>>,
        peers: &Peers<'_, T>,
    ) -> bool {
        let mut updates = updates.peekable();
        let may_wait = updates.peek().is_some() && !peers.are_settled();
        for update in updates.filter(|_| may_wait) {
            self.lacks_dependency(update, copies, peers);
            if self.holds().all(|hold| hold.found) {
                break;
            }
        }
        self.decide(now, context, peers.head)
    }

    /// Whether this update waits for a dependency, and the hold time is not over. [`decide`](Self::decide) follows.
    pub(crate) fn lacks_dependency<T: PeerType>(
        &mut self,
        update: &Resource,
        copies: OldCopies<'_>,
        peers: &Peers<'_, T>,
    ) -> bool {
        let Lacking { served, missing } = peers.lacking(update, &copies.of(update.name()));
        let waits = self.served.note(update, served);
        self.missing.note(update, missing) || waits
    }

    /// Starts the hold timers when updates begin to wait, and stops them when none of them waits. Returns whether one
    /// does.
    pub(crate) fn decide(
        &mut self,
        now: Instant,
        context: &TypeContext,
        head: &TypeSnapshot,
    ) -> bool {
        let waits = self.holds().any(|hold| hold.found);
        // S-49: the client may have a copy from an earlier stream, and half of its TTL may be over.
        let shortest = head.collection().ttls().next();
        let shortest = shortest.filter(|_| context.form.ttl);
        let at_most = shortest.map_or(Duration::MAX, |ttl| ttl / 4);
        let timer = HoldTimer::start(now).at_most(at_most);
        self.served.decide(timer, waits);
        self.missing.decide(timer, waits);
        waits
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
    let by_name = || !client.is_wildcard() && peers.has_user_by_name(resource_type, name);
    has_user() && hold_removal(now, resource, by_name(), client)
}

/// Starts the hold of a removal. Returns false if the client does not have the resource.
fn hold_removal(
    now: Instant,
    resource: &Arc<Resource>,
    by_name: bool,
    client: &mut ClientState,
) -> bool {
    // After a NACK the client does not have the content that was sent, but may have what was there before.
    let has = match client.nacked().get(resource.name()) {
        Some(nacked) => nacked.in_use.resource(),
        None => Some(resource),
    };
    let Some(resource) = has.cloned() else {
        return false;
    };
    client.hold(HeldRemoval {
        resource,
        by_name,
        timer: HoldTimer::start(now),
    });
    true
}

/// Names of the type's own resources to which its held ones refer: the clusters of held aggregate clusters.
fn used_by_held(
    resource_type: &ResourceType,
    client: &ClientState,
    is_kept: impl Fn(&str) -> bool,
) -> BTreeSet<Arc<str>> {
    let kept = client.held().iter().filter(|(name, _)| is_kept(name));
    let references = kept.flat_map(|(_, held)| held.resource.references());
    let own = references.filter(|reference| reference.resource_type == *resource_type);
    own.map(|reference| Arc::clone(&reference.name)).collect()
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
    let refers_to_itself = may_refer(&context.resource_type, &context.resource_type);
    let mut removed = Vec::new();
    for change in step.changes() {
        match (&change.old, &change.new) {
            (Some(old), None) if removal_waits(now, old, context, client, peers) => {}
            // A resource that came back: the client replaces the held copy, and uses it if it NACKs the new content.
            (old, new) => {
                let held = client.release(&change.name);
                let is_removed = new.is_none() && held.is_none() && refers_to_itself;
                removed.extend(old.as_ref().filter(|_| is_removed));
                let held = held.filter(|_| new.is_some());
                replaced.extend(held.map(|held| held.resource));
            }
        }
    }
    // S-52: a cluster waits with the aggregate that leads to it, which waits for its route. Aggregates may be nested.
    loop {
        let used = used_by_held(&context.resource_type, client, |_| true);
        let before = removed.len();
        removed.retain(|resource| {
            !used.contains(resource.name()) || !hold_removal(now, resource, false, client)
        });
        if used.is_empty() || removed.len() == before {
            return replaced;
        }
    }
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
    let mut released: Vec<Arc<str>> = released.map(|(name, _)| Arc::clone(name)).collect();
    // S-52: a cluster stays as long as a held aggregate leads to it.
    while may_refer(&context.resource_type, &context.resource_type) && !released.is_empty() {
        let is_kept = |name: &str| released.binary_search_by(|one| (**one).cmp(name)).is_err();
        let used = used_by_held(&context.resource_type, client, is_kept);
        let expired = |name: &str| client.held().get(name).is_some_and(|one| one.timer.expired);
        let before = released.len();
        released.retain(|name| !used.contains(name) || expired(name));
        if released.len() == before {
            break;
        }
    }
    for name in &released {
        let held = client.release(name);
        // Only clusters cause subscriptions that the client has yet to end.
        let cluster = held.iter().filter(|_| context.is_cluster());
        recent.note_dropped(cluster.flat_map(|held| held.resource.references()));
    }
    released
}
