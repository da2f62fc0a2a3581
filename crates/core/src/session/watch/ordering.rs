//! What make-before-break asks of one kind: what its client has, and what has to wait.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use oxds_types::ResourceType;

use super::{Watch, wildcard::Step};
use crate::{
    session::{
        Config, Event, OverdueChange,
        ordering::{Patience, Peers},
    },
    snapshot::{Difference, Resource, ResourceSet, TypeSnapshot},
    subscription::{Sent, SubscribedName},
    time::Instant,
};

/// A removal that waits until nothing at the client refers to the resource.
#[derive(Debug)]
pub(super) struct HeldRemoval {
    pub(super) resource: Arc<Resource>,
    /// What needs it was asked for by name, and so was it: the client lets go of it when it is done.
    by_name: bool,
    patience: Patience,
}

// What other kinds ask.
impl Watch {
    /// Whether the client has accepted all that there is for it, and nothing is under way.
    pub(in crate::session) fn is_settled(&self, head: &TypeSnapshot) -> bool {
        let revision = head.collection().revision();
        let quiet = !self.is_due()
            && self.again.is_empty()
            && self.outstanding.is_empty()
            && self.held.is_empty()
            && self.departed.is_none()
            && self.recent.is_empty()
            && self.record.rejections.is_empty();
        quiet
            && match &self.all {
                Some(all) => all
                    .acked
                    .as_ref()
                    .is_some_and(|acked| acked.revision() == revision),
                None => self.seen == revision,
            }
    }

    /// Whether the client has accepted all that there is for it.
    pub(in crate::session) fn has_accepted_all(&self, head: &TypeSnapshot) -> bool {
        if self.is_settled(head) {
            return true;
        }
        let idle = self.outstanding.is_empty()
            && self.record.rejections.is_empty()
            && self.removals_held().next().is_none()
            && self.departed.is_none();
        let there_is = head.collection();
        idle && match &self.all {
            // A state that differs in what this client is not told, or was told before.
            Some(all) => all
                .acked
                .as_ref()
                .is_some_and(|acked| acked.version() == there_is.version()),
            None => self
                .subscription
                .iter()
                .all(|named| match there_is.get(named.name()) {
                    Some(resource) => named.acked() == Some(resource),
                    None => named.sent().resource().is_none(),
                }),
        }
    }

    /// Whether the client asked for this name, be it through the wildcard.
    pub(in crate::session) fn covers(&self, name: &str) -> bool {
        self.all.is_some() || self.subscription.has_name(name)
    }

    /// Whether the client asked for this name and has not accepted any version of it.
    pub(in crate::session) fn lacks(&self, name: &str) -> bool {
        if self.withheld.is_some() {
            // It has been there before.
            return false;
        }
        if let Some(rejected) = self.record.rejections.get(name) {
            return rejected.fallback.resource().is_none();
        }
        // Answered, and not to blame: a response was rejected for the sake of another resource in it.
        let answered = self.outstanding.is_empty();
        let has = match &self.all {
            Some(all) => {
                let has = |c: &Arc<ResourceSet>| c.get(name).is_some();
                let accepted = all.acked.as_ref().is_some_and(has);
                match &all.cursor {
                    // What a response that is under way removes, the client does not have.
                    Some(cursor) => has(cursor) && (accepted || answered && all.rest.is_none()),
                    None => accepted,
                }
            }
            None => self
                .subscription
                .get(name)
                .is_none_or(|named| match named.sent() {
                    Sent::Absent => self.is_mute_on_absence() && named.acked().is_some(),
                    Sent::Nothing => named.acked().is_some(),
                    Sent::Resource(_) => named.acked().is_some() || answered,
                }),
        };
        !has
    }

    /// Whether the client asks by name.
    pub(in crate::session) fn is_by_name(&self) -> bool {
        self.all.is_none()
    }

    /// Whether something is due or under way that the client has not accepted in any version: what it has of this, it
    /// has from an earlier stream, and nobody knows what that is.
    pub(in crate::session) fn is_unanswered(&self, head: &TypeSnapshot) -> bool {
        let under_way = !self.outstanding.is_empty();
        let Some(all) = &self.all else {
            let quiet = !self.is_due() && !under_way && self.is_settled(head);
            let is_unanswered = |named: &SubscribedName| {
                let is_due = match named.sent() {
                    Sent::Resource(_) => under_way,
                    // It was gone, and that could not be said.
                    Sent::Absent if self.is_mute_on_absence() => {
                        head.collection().get(named.name()).is_some()
                    }
                    Sent::Nothing | Sent::Absent => false,
                };
                named.acked().is_none() && (is_due || self.has_due(named.name()))
            };
            return !quiet && self.subscription.iter().any(is_unanswered);
        };
        all.acked.is_none() && (all.cursor.is_none() || under_way)
    }

    /// Whether something that was asked for by name, and accepted, refers to this resource.
    pub(in crate::session) fn accepted_by_name(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> bool {
        let accepted = self.subscription.iter().filter_map(SubscribedName::acked);
        self.all.is_none()
            && accepted
                .into_iter()
                .any(|resource| resource.refers_to(resource_type, name))
    }

    /// A copy that the client has, and that is about to change or to go, and that refers to this resource.
    pub(in crate::session) fn user(
        &self,
        resource_type: &ResourceType,
        name: &str,
        head: &TypeSnapshot,
    ) -> Option<Arc<Resource>> {
        if self.is_settled(head) {
            return None;
        }
        let refers = |resource: &&Arc<Resource>| resource.refers_to(resource_type, name);
        let held = self.held.values().map(|held| &held.resource);
        let rejections = self.record.rejections.values();
        let kept = rejections.filter_map(|rejected| rejected.fallback.resource());
        if let Some(user) = held.chain(kept).find(refers) {
            return Some(Arc::clone(user));
        }
        match &self.all {
            Some(all) => {
                let mut had = [&all.acked, &all.cursor].into_iter().flatten();
                had.find_map(|had| {
                    if had.revision() == head.collection().revision() {
                        return None;
                    }
                    let difference = head.difference(had);
                    let mut replaced = difference.changes().iter().filter_map(|c| c.old.as_ref());
                    replaced.find(refers).cloned()
                })
            }
            None => self.subscription.iter().find_map(|named| {
                let there_is = head.collection().get(named.name());
                if there_is.is_none() && self.is_mute_on_absence() {
                    // The copy neither changes nor goes.
                    return None;
                }
                let copies = [named.acked(), named.sent().resource()];
                let mut going = copies.into_iter().flatten();
                going
                    .find(|copy| Some(*copy) != there_is && refers(copy))
                    .cloned()
            }),
        }
    }
}

// What is held back, to be read. What has been held for too long waits for nothing but the client's next answer.
impl Watch {
    /// How much is held back.
    pub(in crate::session) fn held_count(&self) -> usize {
        let others = [self.blocked_since(), self.withheld_since()];
        let departed = self.departed_held().map_or(0, |(names, _)| names.len());
        self.removals_held().count() + departed + others.into_iter().flatten().count()
    }

    /// What the client still has though it is gone, and for how long that may last.
    pub(in crate::session) fn removals_held(
        &self,
    ) -> impl Iterator<Item = (&Arc<Resource>, Patience)> {
        let held = self
            .held
            .values()
            .map(|held| (&held.resource, held.patience));
        held.filter(|(_, patience)| !patience.is_over())
    }

    /// Whether it waits for the client to let go of it by itself.
    pub(in crate::session) fn lets_go_itself(&self, name: &str, peers: &Peers<'_>) -> bool {
        let held = self.held.get(name);
        held.is_some_and(|held| held.by_name) && !peers.keep_by_name(&self.resource_type, name)
    }

    /// Since when updates have waited for what they depend on.
    pub(in crate::session) fn blocked_since(&self) -> Option<Patience> {
        self.blocked.filter(|patience| !patience.is_over())
    }

    /// Looks for one among the resources that the client is to be told of next.
    pub(in crate::session) fn first_update<T>(
        &self,
        peers: &Peers<'_>,
        look: impl Fn(&Arc<Resource>) -> Option<T>,
    ) -> Option<T> {
        let head = self.head(peers.snapshot);
        let there_is = head.collection();
        match &self.all {
            Some(all) => {
                let step = match &all.cursor {
                    Some(cursor) => Step::Since(head.difference(cursor)),
                    None => Step::Everything,
                };
                step.updates(there_is).find_map(look)
            }
            None => {
                let all = self.all_due.then(|| self.subscription.iter());
                let all = all.into_iter().flatten().map(SubscribedName::name);
                let mut due = all.chain(&self.due);
                due.find_map(|name| look(there_is.get(name)?))
            }
        }
    }
}

// What this kind has to do.
impl Watch {
    /// Whether these updates have to wait; remembers since when.
    pub(super) fn must_wait<'a>(
        &mut self,
        now: Instant,
        mut updates: impl Iterator<Item = &'a Arc<Resource>>,
        head: &TypeSnapshot,
        peers: &Peers<'_>,
    ) -> bool {
        let waits =
            !peers.are_settled() && updates.any(|update| self.lacks_dependency(update, peers));
        self.note_waiting(now, waits, head);
        waits
    }

    /// Whether this update has to wait, and has not waited too long.
    pub(super) fn lacks_dependency(&self, resource: &Resource, peers: &Peers<'_>) -> bool {
        !self.blocked.is_some_and(Patience::is_over) && peers.lack(resource)
    }

    /// The patience of what waits starts when it begins to wait, and ends when all of it went. The client may have what
    /// waits from an earlier stream, with half of its TTL gone.
    pub(super) fn note_waiting(&mut self, now: Instant, waits: bool, head: &TypeSnapshot) {
        let shortest = head.collection().ttls().next().filter(|_| self.form.ttl);
        let patience = Patience::since(now).at_most(shortest.map_or(Duration::MAX, |ttl| ttl / 4));
        self.blocked = waits.then(|| self.blocked.unwrap_or(patience));
    }

    /// Whether the removal of a resource that the client has must wait; remembers since when.
    pub(super) fn is_needed(
        &mut self,
        now: Instant,
        resource: &Arc<Resource>,
        peers: &Peers<'_>,
    ) -> bool {
        let name = resource.name();
        if let Some(held) = self.held.get(name) {
            // A client that asks by name accepts what refers elsewhere, then asks for what that needs, and only then
            // lets go of this: it says when (gRFC A74).
            let waits =
                || peers.need(&self.resource_type, name) || self.lets_go_itself(name, peers);
            return !held.patience.is_over() && waits();
        }
        // What the client refused, it does not have; it may have what was there before.
        let has = match self.record.rejections.get(name) {
            Some(rejected) => rejected.fallback.resource(),
            None => Some(resource),
        };
        let Some(resource) = has
            .filter(|_| peers.need(&self.resource_type, name))
            .cloned()
        else {
            return false;
        };
        let by_name = self.all.is_none() && peers.need_by_name(&self.resource_type, name);
        let held = HeldRemoval {
            resource,
            by_name,
            patience: Patience::since(now),
        };
        self.held.insert(Arc::clone(name), held);
        true
    }

    /// Holds the removals of a step that something at the client still needs. Returns what was held and comes back.
    pub(super) fn hold_removals(
        &mut self,
        now: Instant,
        step: &Difference,
        peers: &Peers<'_>,
    ) -> Vec<Arc<Resource>> {
        let mut replaced = Vec::new();
        for change in step.changes() {
            match (&change.old, &change.new) {
                (Some(old), None) if self.is_needed(now, old, peers) => {}
                (_, None) => drop(self.held.remove(&change.name)),
                (_, Some(_)) => {
                    let held = self.held.remove(&change.name);
                    replaced.extend(held.map(|held| held.resource));
                }
            }
        }
        replaced
    }

    /// Ends the holding of what nothing needs any more, or what was held for too long. What came back in the
    /// meantime stays: the step that brings it back ends it.
    pub(super) fn release(&mut self, there_is: &ResourceSet, peers: &Peers<'_>) -> Vec<Arc<str>> {
        let may_go = |name: &Arc<str>, held: &HeldRemoval| {
            there_is.get(name).is_none()
                && (held.patience.is_over() || !peers.need(&self.resource_type, name))
        };
        let released = self.held.iter().filter(|(name, held)| may_go(name, held));
        let released: Vec<Arc<str>> = released.map(|(name, _)| Arc::clone(name)).collect();
        for name in &released {
            let held = self.held.remove(name);
            let copy = held.iter().flat_map(|held| held.resource.references());
            self.recent.let_go(copy);
        }
        released
    }

    /// Time passes: what has been held for too long goes with the next response.
    pub(in crate::session) fn expire(
        &mut self,
        now: Instant,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) {
        let mut report = |held| {
            events.push_back(Event::HeldTooLong {
                resource_type: self.resource_type.clone(),
                held,
            });
        };
        for (name, held) in &mut self.held {
            if held.patience.ends(now, config.hold) {
                report(OverdueChange::Removal(Arc::clone(name)));
            }
        }
        if self
            .blocked
            .as_mut()
            .is_some_and(|patience| patience.ends(now, config.hold))
        {
            report(OverdueChange::Update);
        }
        if let Some(withheld) = &mut self.withheld
            && withheld.ends(now, config)
        {
            report(OverdueChange::Update);
        }
        if let Some(departed) = &mut self.departed
            && departed.withheld.ends(now, config)
        {
            let names = departed.names.iter().map(Arc::clone);
            names.for_each(|name| report(OverdueChange::Removal(name)));
        }
        self.recent.expire(now);
        self.heartbeats.expire(now);
    }

    /// Whether a removal waits for what later kinds need.
    pub(in crate::session) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.withheld.is_some() || self.departed.is_some()
    }

    /// When [`expire`](Self::expire) has something to do next.
    pub(in crate::session) fn deadline(&self, config: &Config) -> Option<Instant> {
        let held = self.held.values().map(|held| held.patience);
        let holding = held.chain(self.blocked);
        let deadlines = holding.filter_map(|patience| patience.deadline(config.hold));
        let departed = self.departed.iter().map(|departed| departed.withheld);
        let withheld = self.withheld.into_iter().chain(departed);
        let withheld = withheld.flat_map(|withheld| withheld.deadlines(config));
        let others = self.recent.deadlines().chain(self.heartbeats.deadlines());
        deadlines.chain(withheld).chain(others).min()
    }
}
