//! State of the client: its subscription, what it was sent, and what it uses.
//!
//! ```text
//!   wildcard:  Cursor (two collections)  +  exceptions: NACKed names, held removals
//!   by name:   one SubscribedName each   +  exceptions: NACKed names, held removals
//! ```
//!
//! A wildcard client costs a cursor, whatever the number of resources; a client that subscribes by name costs three
//! words per name. Exceptions are few. All questions about the client are answered here: what was [sent and
//! accepted](ClientState::versions), what it [lacks](ClientState::lacks), and which copy [uses](ClientState::user)
//! another resource.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use oxds_types::{ResourceType, Version};

use super::{
    context::TypeContext,
    cursor::{Cursor, Step},
    hold_timer::HoldTimer,
    in_flight::{InFlight, Item, SentContent, SentResponse},
};
use crate::{
    nack::{Isolation, NackedState},
    sample::SAMPLE,
    session::request::RequestedNames,
    snapshot::{Resource, ResourceSet, Revision, TypeSnapshot},
    subscription::{self, Sent, SubscribedName, Subscription, SubscriptionChange},
};

/// Removal that waits until nothing at the client refers to the resource.
#[derive(Debug)]
pub(crate) struct HeldRemoval {
    /// The copy that the client has.
    pub(crate) resource: Arc<Resource>,
    /// Both the resource and its user are subscribed by name: the client unsubscribes once it stopped using the
    /// resource.
    pub(crate) by_name: bool,
    pub(crate) timer: HoldTimer,
}

/// Everything that is known about the client's copies of one type. Resets with the stream.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    subscription: Subscription,
    /// Present while the client has a wildcard subscription.
    cursor: Option<Cursor>,
    /// NACKed resources without accepted successors.
    nacked: BTreeMap<Arc<str>, NackedState>,
    /// Those of them that are suspects, while they are sent again in parts.
    pub(crate) isolation: Isolation,
    /// The client NACKed more than is kept by name, and has not accepted everything since.
    pub(crate) has_unrecorded: bool,
    /// SotW: since the last full state that it accepted, the client NACKed one of which it may use a part.
    pub(crate) may_have_more: bool,
    /// Resources that the client still has, though they are not in the snapshot any more.
    held: BTreeMap<Arc<str>, HeldRemoval>,
}

// Subscription.
impl ClientState {
    pub(crate) fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Applies the part of a request that concerns names.
    pub(crate) fn subscribe(
        &mut self,
        resource_type: &ResourceType,
        names: &RequestedNames,
    ) -> SubscriptionChange {
        let legacy = subscription::has_legacy_wildcard(resource_type);
        match names {
            RequestedNames::Sotw { names, .. } => self.subscription.replace(names, legacy),
            RequestedNames::Delta {
                subscribe,
                unsubscribe,
                ..
            } => self.subscription.update(subscribe, unsubscribe, legacy),
        }
    }

    /// Adds a name that a glob subscription matches; returns whether it is new.
    pub(crate) fn add_name(&mut self, name: &Arc<str>) -> bool {
        self.subscription.insert(name)
    }

    /// Forgets a name that was subscribed through a glob only.
    pub(crate) fn remove_name(&mut self, name: &Arc<str>) {
        self.subscription.forget(name);
    }

    /// Drops the exceptions of a name that the client unsubscribed from.
    pub(crate) fn drop_exceptions(&mut self, name: &str) {
        self.held.remove(name);
        self.nacked.remove(name);
    }

    /// Starts or repeats a wildcard subscription: all resources are sent, whatever the client NACKed.
    pub(crate) fn restart_wildcard(&mut self) {
        let acked = self.cursor.take().and_then(|cursor| cursor.acked);
        self.cursor = Some(Cursor {
            acked,
            ..Cursor::default()
        });
        self.nacked.values_mut().for_each(NackedState::send_again);
        self.isolation = Isolation::default();
        self.has_unrecorded = false;
    }

    /// A NACK of a full state: what the client has not accepted is due again.
    pub(crate) fn rewind(&mut self, is_whole: bool) {
        let cursor = self.cursor.iter_mut().filter(|_| is_whole);
        cursor.for_each(Cursor::rewind);
    }

    /// Ends the wildcard: the names that stay become states of their own. `owed` names were due besides the wildcard.
    /// Returns the last cursor, without `sent` if not all of that was sent, and the names whose removal was held.
    pub(crate) fn leave_wildcard(
        &mut self,
        owed: &BTreeSet<Arc<str>>,
    ) -> Option<(Cursor, BTreeSet<Arc<str>>)> {
        let mut left = self.cursor.take()?;
        let held = std::mem::take(&mut self.held);
        // Which parts of a split response arrived is not known until it is complete.
        left.sent = left.sent.filter(|_| left.unsent.is_none());
        for named in self.subscription.iter_mut() {
            match (held.get(named.name()), &left.sent) {
                // S-52: its removal was not sent yet, so the client still has the copy.
                (Some(held), _) => named.set_sent(Some(&held.resource)),
                // S-39: subscribed besides the wildcard, so it is sent although the cursor covers it.
                _ if owed.contains(named.name()) => named.ask_again(),
                (None, Some(sent)) => named.set_sent(sent.get(named.name())),
                (None, None) => {}
            }
            match (self.nacked.get(named.name()), &left.acked) {
                // A46: after a NACK the client uses its earlier copy.
                (Some(nacked), _) => named.set_acked(nacked.in_use.resource()),
                (None, Some(acked)) => named.set_acked(acked.get(named.name())),
                // It accepted nothing through the wildcard: it has what it accepted by name before.
                (None, None) => {}
            }
        }
        let subscription = &self.subscription;
        self.nacked.retain(|name, _| subscription.has_name(name));
        Some((left, held.into_keys().collect()))
    }

    /// The client subscribed to this name again: neither what was sent nor its NACK counts.
    pub(crate) fn ask_again(&mut self, name: &str) {
        if let Some(named) = self.subscription.get_mut(name) {
            named.ask_again();
        }
    }

    /// The client subscribed to this name, so that NACKed content of it is sent again.
    pub(crate) fn forgive(&mut self, name: &str) {
        if let Some(nacked) = self.nacked.get_mut(name) {
            nacked.send_again();
        }
    }

    pub(crate) fn subscribed_names(&self) -> BTreeSet<Arc<str>> {
        let names = self.subscription.iter().map(SubscribedName::name);
        names.cloned().collect()
    }

    /// Names of everything that was sent, by name or through a wildcard, and that the client may have: also content
    /// in flight that it was not subscribed to when it was sent, and is when it arrives.
    pub(crate) fn sent_names(&self, in_flight: &InFlight) -> BTreeSet<Arc<str>> {
        let named = self.subscription.iter();
        let named = named.filter_map(|named| named.sent().resource());
        let cursor = self.cursor.iter().filter_map(|cursor| cursor.sent.as_ref());
        let whole = cursor.flat_map(|sent| sent.iter());
        let in_flight = in_flight.iter().flat_map(SentResponse::resources);
        let all = named.chain(whole).chain(in_flight);
        all.map(|one| Arc::clone(one.name())).collect()
    }
}

// Questions.
impl ClientState {
    pub(crate) fn is_wildcard(&self) -> bool {
        self.cursor.is_some()
    }

    /// Whether the invariants hold; for debug assertions.
    pub(crate) fn is_consistent(&self, context: &TypeContext, max_nacked: usize) -> bool {
        let mut held = self.held.iter().take(SAMPLE);
        let is_held_by_name = held.all(|(name, held)| {
            let resource = &held.resource;
            resource.name() == name && *resource.resource_type() == context.resource_type
        });
        let mut nacked = self.nacked.iter().take(SAMPLE);
        let is_nacked_by_name = nacked.all(|(name, nacked)| {
            let is_of_name = |one: &Arc<Resource>| one.name() == name;
            self.covers(name) && nacked.in_use.resource().is_none_or(is_of_name)
        });
        // Only delta responses are split, and the rest belongs to the step that was sent.
        let is_split_known = |cursor: &Cursor| {
            cursor.unsent.is_none() || context.is_delta() && cursor.sent.is_some()
        };
        self.subscription.is_consistent()
            && self.subscription.is_wildcard() == self.is_wildcard()
            && self.cursor.as_ref().is_none_or(is_split_known)
            && is_held_by_name
            && is_nacked_by_name
            && self.nacked.len() <= max_nacked
            && self.isolation.is_consistent()
    }

    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    pub(crate) fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        self.cursor.as_mut()
    }

    pub(crate) fn nacked(&self) -> &BTreeMap<Arc<str>, NackedState> {
        &self.nacked
    }

    /// NACKed resources, except suspects that are sent again.
    pub(crate) fn rejected(&self) -> impl Iterator<Item = (&Arc<str>, &NackedState)> {
        let nacked = self.nacked.iter();
        nacked.filter(|(name, _)| !self.isolation.contains(name))
    }

    pub(crate) fn held(&self) -> &BTreeMap<Arc<str>, HeldRemoval> {
        &self.held
    }

    /// Whether the client subscribed to this name, or to all.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.is_wildcard() || self.subscription.has_name(name)
    }

    /// The content that the client accepted last, NACKs and held removals aside.
    pub(crate) fn accepted(&self, name: &str) -> Option<&Arc<Resource>> {
        match &self.cursor {
            Some(cursor) => cursor.acked.as_ref()?.get(name),
            None => self.subscription.get(name)?.acked(),
        }
    }

    /// Versions of a resource that were sent last, and accepted last.
    pub(crate) fn versions(&self, name: &str) -> (Option<Version>, Option<Version>) {
        let (sent, acked) = match &self.cursor {
            Some(cursor) => {
                let held = self.held.get(name).map(|held| &held.resource);
                let sent = || cursor.sent.as_ref()?.get(name);
                (held.or_else(sent), held.or_else(|| self.accepted(name)))
            }
            None => {
                let named = self.subscription.get(name);
                (
                    named.and_then(|named| named.sent().resource()),
                    self.accepted(name),
                )
            }
        };
        let acked = match self.nacked.get(name) {
            // A46: a NACKed resource is not in use; the client keeps the copy that it accepted before.
            Some(nacked) => nacked.in_use.resource(),
            None => acked,
        };
        let version = |resource: &Arc<Resource>| resource.version();
        (sent.map(version), acked.map(version))
    }

    /// Whether the client subscribed to this name and uses no version of it. `answered`: no response is outstanding.
    pub(crate) fn lacks(&self, context: &TypeContext, name: &str, answered: bool) -> bool {
        if let Some(nacked) = self.nacked.get(name) {
            return nacked.in_use.resource().is_none();
        }
        // An answered response that was NACKed for other resources: this one was applied (gRFC A46; Envoy's CDS and
        // LDS).
        let has = match &self.cursor {
            Some(cursor) => {
                let has = |c: &Arc<ResourceSet>| c.get(name).is_some();
                let accepted = cursor.acked.as_ref().is_some_and(has);
                match &cursor.sent {
                    // A resource that an outstanding response removes does not count.
                    Some(sent) => has(sent) && (accepted || answered && cursor.unsent.is_none()),
                    None => accepted,
                }
            }
            None => self
                .subscription
                .get(name)
                .is_none_or(|named| match named.sent() {
                    Sent::Absent => context.hides_absence() && named.acked().is_some(),
                    Sent::Nothing => named.acked().is_some(),
                    Sent::Resource(_) => named.acked().is_some() || answered,
                }),
        };
        !has
    }

    /// Whether the client subscribed to a name of which it accepted no version.
    pub(crate) fn lacks_any(&self) -> bool {
        let mut names = self.subscription.iter();
        names.any(|named| named.acked().is_none())
    }

    /// Whether the client accepted the state at `revision`; by name, changes up to `seen` were looked at.
    pub(crate) fn is_at(&self, revision: Revision, seen: Revision) -> bool {
        let Some(cursor) = &self.cursor else {
            return seen == revision;
        };
        let acked = cursor.acked.as_ref();
        acked.is_some_and(|acked| acked.revision() == revision)
    }

    /// Whether the content that the client accepted equals `current`, whichever way it was sent.
    pub(crate) fn has_accepted(&self, current: &ResourceSet) -> bool {
        if let Some(cursor) = &self.cursor {
            let acked = cursor.acked.as_ref();
            return acked.is_some_and(|acked| acked.version() == current.version());
        }
        let mut names = self.subscription.iter();
        names.all(|named| match current.get(named.name()) {
            Some(resource) => named.acked() == Some(resource),
            None => named.sent().resource().is_none(),
        })
    }

    /// Whether an accepted resource that was subscribed by name refers to this one.
    pub(crate) fn accepted_by_name(&self, resource_type: &ResourceType, name: &str) -> bool {
        let mut accepted = self.subscription.iter().filter_map(SubscribedName::acked);
        !self.is_wildcard() && accepted.any(|resource| resource.refers_to(resource_type, name))
    }

    /// A copy that refers to this resource, and that the client has but will not keep.
    pub(crate) fn user(
        &self,
        context: &TypeContext,
        resource_type: &ResourceType,
        name: &str,
        head: &TypeSnapshot,
    ) -> Option<Arc<Resource>> {
        let refers = |resource: &&Arc<Resource>| resource.refers_to(resource_type, name);
        let held = self.held.values().map(|held| &held.resource);
        let nacked = self.nacked.values().filter_map(|n| n.in_use.resource());
        if let Some(user) = held.chain(nacked).find(refers) {
            return Some(Arc::clone(user));
        }
        if let Some(cursor) = &self.cursor {
            let at = [&cursor.acked, &cursor.sent].into_iter().flatten();
            let revision = head.collection().revision();
            let mut differing = at.filter(|at| at.revision() != revision);
            return differing.find_map(|at| {
                let difference = head.difference(at);
                let mut replaced = difference.changes().iter().filter_map(|c| c.old.as_ref());
                replaced.find(refers).cloned()
            });
        }
        self.subscription.iter().find_map(|named| {
            let current = head.collection().get(named.name());
            // A copy whose absence cannot be expressed neither changes nor goes.
            if current.is_none() && context.hides_absence() {
                return None;
            }
            let copies = [named.acked(), named.sent().resource()];
            let mut going = copies.into_iter().flatten().filter(|c| Some(*c) != current);
            going.find(refers).cloned()
        })
    }

    /// Resources that the client has with this TTL, in order of their names, starting after a name.
    pub(crate) fn with_ttl<'a>(
        &'a self,
        ttl: Duration,
        after: &'a str,
    ) -> Box<dyn Iterator<Item = &'a Arc<Resource>> + 'a> {
        let is_next = move |one: &&Arc<Resource>| one.ttl() == Some(ttl) && **one.name() > *after;
        let Some(sent) = self.cursor.as_ref().and_then(|cursor| cursor.sent.as_ref()) else {
            // An absent resource may expire where its absence cannot be expressed.
            let there = self.subscription.iter();
            let there = there.filter(|named| !matches!(named.sent(), Sent::Absent));
            // The client may use content that it has not accepted, but not what it NACKed.
            let sent = |named: &'a SubscribedName| {
                let sent = named.sent().resource();
                let nacked = self.nacked.get(named.name());
                sent.filter(|_| !nacked.is_some_and(|state| state.is_of(sent)))
            };
            let used = there.filter_map(move |named| named.acked().or(sent(named)));
            return Box::new(used.filter(is_next));
        };
        let is_fine = move |one: &&Arc<Resource>| {
            let nacked = self.nacked.get(one.name());
            !nacked.is_some_and(|state| state.is_of(Some(one)))
        };
        let others = sent.with_ttl(ttl).filter(is_next).filter(is_fine);
        if self.nacked.is_empty() {
            return Box::new(others);
        }
        let nacked = self.nacked.values().filter_map(|n| n.in_use.resource());
        let mut all: Vec<_> = others.chain(nacked.filter(is_next)).collect();
        all.sort_by_key(|resource| resource.name());
        all.dedup_by(|one, before| one.name() == before.name());
        Box::new(all.into_iter())
    }

    /// Entries that memory grows with.
    pub(crate) fn footprint(&self) -> usize {
        self.subscription.len() + self.held.len() + self.nacked.len()
    }
}

// Effects of responses and answers.
impl ClientState {
    /// A response with these items is sent to a client that subscribes by name.
    pub(crate) fn note_items_sent(&mut self, items: &[Item]) {
        let held = &mut self.held;
        self.subscription.visit(
            items,
            |item| item.name(),
            |named, item| {
                held.remove(named.name());
                named.set_sent(item.resource());
            },
        );
    }

    /// The absence of the name at this place of the subscription was noted, without a response.
    pub(crate) fn note_absent(&mut self, at: usize) {
        if let Some(named) = self.subscription.at_mut(at) {
            self.held.remove(named.name());
            self.nacked.remove(named.name());
            named.set_sent(None);
        }
    }

    /// Content of this name was sent, or its absence, if it is subscribed.
    pub(crate) fn set_sent(&mut self, name: &str, sent: Option<&Arc<Resource>>) {
        if let Some(named) = self.subscription.get_mut(name) {
            named.set_sent(sent);
        }
    }

    /// The client reported on reconnect that it has this version of a subscribed name.
    pub(crate) fn set_in_sync(&mut self, at: usize, resource: &Arc<Resource>) {
        if let Some(named) = self.subscription.at_mut(at) {
            named.set_sent(Some(resource));
            named.set_acked(Some(resource));
        }
    }

    /// Starts to hold a removal.
    pub(crate) fn hold(&mut self, held: HeldRemoval) {
        self.held.insert(Arc::clone(held.resource.name()), held);
    }

    /// Ends the hold of a removal, if it is held.
    pub(crate) fn release(&mut self, name: &str) -> Option<HeldRemoval> {
        self.held.remove(name)
    }

    /// Hold timers of removals, to be updated.
    pub(crate) fn held_timers(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut HoldTimer)> {
        let held = self.held.iter_mut();
        held.map(|(name, held)| (name, &mut held.timer))
    }

    /// NACKed content that a full state carries: it is tested again, the client subscribed to it again, or may use an
    /// earlier copy.
    pub(crate) fn sent_again<'a>(
        &'a self,
        current: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.nacked.iter().filter_map(|(name, state)| {
            let one = current.get(name);
            one.filter(|_| state.is_of(one) && state.substitute(one).is_none())
        })
    }

    /// A full state is sent: NACKed names of which it has other content may be in use by the time it is answered.
    pub(crate) fn supersede_nacked(&mut self, current: &ResourceSet) {
        for (name, nacked) in &mut self.nacked {
            nacked.supersede(current.get(name));
        }
    }

    /// Records the acceptance of a response, but for the names in `bad`.
    pub(crate) fn accept(
        &mut self,
        context: &TypeContext,
        content: SentContent,
        bad: &BTreeSet<Arc<str>>,
    ) {
        self.may_have_more = false;
        let good = |item: &&Item| !bad.contains(item.name());
        for item in content.items().iter().filter(good) {
            self.nacked.remove(item.name());
        }
        match content {
            SentContent::Whole {
                to,
                completes,
                step,
                extra,
                is_left,
                ..
            } => {
                let is_everything = completes && matches!(step, Step::Everything);
                self.has_unrecorded &= context.is_delta() && !is_everything;
                self.clear_nacked(context, &to, is_everything, bad);
                // S-17: of a client that left the wildcard and returned, the earlier NACKs are forgotten. It uses of
                // the earlier state what it accepts of the full answer.
                if completes && !(is_left && self.is_wildcard()) {
                    self.accept_whole(to, &step, bad);
                }
                // What a NACK asked for again is beside the step.
                if !self.is_wildcard() {
                    self.accept_items(extra.iter().filter(good));
                }
            }
            SentContent::Names(items) => self.accept_items(items.iter().filter(good)),
        }
    }

    /// The client, which subscribes by name, uses these from now on.
    fn accept_items<'a>(&mut self, items: impl Iterator<Item = &'a Item>) {
        self.subscription.visit(
            items.filter(|item| item.is_news()),
            |item| item.name(),
            |named, item| named.set_acked(item.resource()),
        );
    }

    /// An accepted response to a wildcard ends the NACKs that it concerns. A NACK outlives responses without news
    /// about its name: delta responses, which carry changes only, unless everything was asked for again; and full
    /// states that left the name out.
    fn clear_nacked(
        &mut self,
        context: &TypeContext,
        to: &ResourceSet,
        is_everything: bool,
        bad: &BTreeSet<Arc<str>>,
    ) {
        self.nacked.retain(|name, nacked| {
            let current = to.get(name);
            // S-17, S-46: while the same content is served, it is known as NACKed and is not sent again.
            let outlives = if context.is_delta() {
                !(is_everything && nacked.superseded) && nacked.is_of(current)
            } else {
                nacked.substitute(current).is_some()
            };
            bad.contains(name) || outlives
        });
    }

    fn accept_whole(&mut self, to: Arc<ResourceSet>, step: &Step, bad: &BTreeSet<Arc<str>>) {
        if let Some(cursor) = &mut self.cursor {
            cursor.acked = Some(to);
            return;
        }
        // The client has unsubscribed from the wildcard since: it has the new content of the names that stayed.
        for named in self.subscription.iter_mut() {
            let name = named.name();
            let is_good =
                step.may_update(name) && !bad.contains(name) && !self.nacked.contains_key(name);
            if let Some(sent) = to.get(name).filter(|_| is_good) {
                named.set_acked(Some(sent));
            }
        }
    }

    /// Records a NACKed resource, with the copy in use; returns false if that are too many, or if the client
    /// unsubscribed while the response was in flight.
    pub(crate) fn note_nacked(
        &mut self,
        name: &Arc<str>,
        nacked: NackedState,
        max_nacked: usize,
    ) -> bool {
        if !self.covers(name) {
            return false;
        }
        let is_full = self.nacked.len() >= max_nacked && !self.nacked.contains_key(name);
        self.has_unrecorded |= is_full;
        if !is_full {
            self.nacked.insert(Arc::clone(name), nacked);
        }
        !is_full
    }

    /// Starts the next round of the search. Returns the suspects that are sent again.
    pub(crate) fn next_round(
        &mut self,
        current: &ResourceSet,
        is_due: impl Fn(&str) -> bool,
    ) -> BTreeSet<Arc<str>> {
        if self.isolation.is_empty() {
            return BTreeSet::new();
        }
        let nacked = &self.nacked;
        let is_same = |name: &str, state: &NackedState| state.is_of(current.get(name));
        self.isolation
            .retain(|name| nacked.get(name).is_some_and(|state| is_same(name, state)));
        let round = self.isolation.next_round(is_due);
        round.iter().for_each(|name| self.forgive(name));
        round
    }

    /// The client accepted a response.
    pub(crate) fn isolate_accepted(&mut self) {
        let nacked = &self.nacked;
        self.isolation.accept(|name| nacked.contains_key(name));
    }
}
