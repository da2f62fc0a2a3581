//! One resource type on one stream.
//!
//! ```text
//!            request: names, "*"                poll                          request: nonce of the response
//!   ┌──────┐ ─────────────────▶ ┌─────┐ ─────────────────▶ ┌─────────────┐ ─────────────────▶ ┌──────┐
//!   │ idle │                    │ due │                    │ outstanding │   ACK or NACK      │ idle │
//!   └──────┘ ─────────────────▶ └─────┘ ◀───────────────── └─────────────┘                    └──────┘
//!            change of the                request: new names
//!            snapshot                     (sent at once, S-16, S-44)
//! ```
//!
//! While a response is outstanding, snapshot changes wait: they coalesce into the difference between what was sent
//! and what is served by then. So a slow client costs one cursor, and nothing is queued for it.
//!
//! Each part owns its state: [`Pending`] (what must be sent), [`ClientState`] (what the client has), [`Resumed`]
//! (what an earlier stream left), [`Gate`] (make-before-break), [`InFlight`] (responses without an answer).
//! [`TypeSession`] connects them: this file for requests and time, `respond` for responses (a plan, which
//! `encode` writes), `answer` for ACKs and NACKs.

mod answer;
mod client;
mod context;
mod cursor;
mod denied;
mod encode;
mod gate;
mod globs;
mod heartbeat;
mod held_back;
mod hold_timer;
mod hosts;
mod in_flight;
mod pending;
mod plan;
mod recent;
mod respond;
mod resumed;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use oxds_types::{Reference, ResourceType};

use self::{
    client::ClientState,
    cursor::Step,
    denied::DeniedNames,
    gate::Gate,
    globs::GlobSubscriptions,
    heartbeat::Heartbeats,
    hosts::HostRequests,
    in_flight::{AnswerRecord, InFlight, SentContent},
    pending::Pending,
    recent::RecentClusters,
    resumed::Resumed,
};
pub(super) use self::{
    context::TypeContext,
    gate::{PeerType, Peers},
    in_flight::SentResponse,
    respond::Draft,
};
use super::{
    Config, Event, Isolating, NackedResource, Nonce, OverdueChange, ResourceErrorDetail,
    ResourceStatus, TypeStatus, request::RequestedNames,
};
use crate::{
    snapshot::{Resource, Revision, TypeSnapshot},
    subscription::{Sent, SubscribedName, Subscription, SubscriptionChange, WildcardChange},
    time::Instant,
};

/// One resource type on one stream. Resets with the stream.
#[derive(Debug)]
pub(super) struct TypeSession {
    context: TypeContext,
    /// Subscription, and what the client has.
    client: ClientState,
    globs: GlobSubscriptions,
    hosts: HostRequests,
    denied: DeniedNames,
    pending: Pending,
    in_flight: InFlight,
    gate: Gate,
    resumed: Resumed,
    recent: RecentClusters,
    heartbeats: Heartbeats,
    record: AnswerRecord,
}

impl TypeSession {
    pub(super) fn new(context: TypeContext) -> Self {
        Self {
            context,
            client: ClientState::default(),
            globs: GlobSubscriptions::default(),
            hosts: HostRequests::default(),
            denied: DeniedNames::default(),
            pending: Pending::default(),
            in_flight: InFlight::default(),
            gate: Gate::default(),
            resumed: Resumed::default(),
            recent: RecentClusters::default(),
            heartbeats: Heartbeats::default(),
            record: AnswerRecord::default(),
        }
    }
}

// Requests.
impl TypeSession {
    /// Applies the part of a request that concerns names. `denied`: names that authorization removed from it.
    pub(super) fn subscribe(
        &mut self,
        names: &RequestedNames,
        denied: Vec<(Arc<str>, ResourceErrorDetail)>,
    ) -> SubscriptionChange {
        self.denied.note(denied, names);
        let change = self.client.subscribe(&self.context.resource_type, names);
        self.resubscribe(&change);
        if self.context.is_delta() {
            let (client, pending) = (&mut self.client, &mut self.pending);
            self.globs
                .resubscribe(&change, client, pending, &self.in_flight);
            self.hosts.resubscribe(&change, client, pending);
        }
        change
    }

    /// Makes due what a changed subscription asks for.
    fn resubscribe(&mut self, change: &SubscriptionChange) {
        self.resumed.note_change(change);
        match change.wildcard {
            Some(WildcardChange::Gained | WildcardChange::Repeated) => self.restart_wildcard(),
            Some(WildcardChange::Lost) => self.leave_wildcard(),
            None => {}
        }
        let asked = || change.added.iter().chain(&change.repeated);
        self.pending.urgent |= asked().next().is_some();
        // xDS protocol, "Resource updates": a subscription asks for the resource, whatever the client did with it
        // before.
        asked().for_each(|name| self.client.forgive(name));
        if self.client.is_wildcard() {
            self.resubscribe_besides_wildcard(change);
        } else {
            self.resubscribe_by_name(change);
        }
    }

    fn restart_wildcard(&mut self) {
        // What the client had by name the cursor does not know.
        self.resumed.fresh &= self.record.sent.is_none();
        let sent = if self.context.is_delta() {
            // A full answer does not list what has gone since it was sent.
            self.client.sent_names(&self.in_flight)
        } else {
            BTreeSet::new()
        };
        self.client.restart_wildcard();
        self.pending.restart_wildcard(sent);
    }

    fn leave_wildcard(&mut self) {
        let owed = self.pending.end_wildcard();
        self.in_flight.leave_wildcard();
        let Some((left, held)) = self.client.leave_wildcard(&owed) else {
            return;
        };
        let is_full_state = self.context.resource_type.all_resources_required_in_sotw();
        if left.acked.is_none() && !self.resumed.fresh && is_full_state {
            self.resumed.inherited = self.client.subscribed_names();
        }
        let seen = left.sent.map(|sent| sent.revision());
        self.pending.seen = seen.unwrap_or_default();
        let subscription = self.client.subscription();
        let due = owed.into_iter().chain(held);
        self.pending
            .names
            .extend(due.filter(|name| subscription.has_name(name)));
        self.pending.all_names = seen.is_none() && !subscription.is_empty();
        self.globs.add_all_to(&mut self.pending);
    }

    /// Names besides the wildcard are sent although the cursor covers them. The state of an unsubscribed name is sent
    /// too, so that a delta client learns whether it still has it through the wildcard (S-39).
    fn resubscribe_besides_wildcard(&mut self, change: &SubscriptionChange) {
        let asked = change.added.iter().chain(&change.repeated);
        self.pending.names.extend(asked.cloned());
        // xDS protocol, "Unsubscribing From Resources": the server answers with the resource if the wildcard covers
        // it.
        if self.context.is_delta() {
            self.pending.names.extend(change.dropped.iter().cloned());
            self.pending.urgent |= !change.dropped.is_empty();
        }
    }

    fn resubscribe_by_name(&mut self, change: &SubscriptionChange) {
        // xDS protocol, "Subscribing to Resources": a client that subscribes again lost the resource, so it is sent
        // again (S-9, S-35). The same holds for names that it had through a wildcard, without a subscription of their
        // own.
        let lost = change.wildcard == Some(WildcardChange::Lost);
        let new: &[Arc<str>] = if lost { &change.added } else { &[] };
        for name in change.repeated.iter().chain(new) {
            self.client.ask_again(name);
        }
        let subscribed = self.client.subscription().len();
        let asked = change.added.iter().chain(&change.repeated);
        let asks = !(change.added.is_empty() && change.repeated.is_empty());
        // A first request names many resources: a flag instead of a set of all their names.
        if asks && change.added.len() == subscribed {
            self.pending.all_names = true;
        } else if !self.pending.all_names {
            self.pending.names.extend(asked.cloned());
        }
        for name in &change.dropped {
            self.pending.unsubscribe(name);
            self.client.drop_exceptions(name);
            self.resumed.inherited.remove(name);
        }
        if subscribed == 0 {
            self.pending.all_names = false;
        }
    }

    /// Applies the versions that the first request of a type reports. `answer`: it is answered even if there is
    /// nothing to send.
    pub(super) fn begin(&mut self, names: RequestedNames, answer: bool) {
        self.resumed.begin(names);
        let is_whole = self.resumed.whole_version.is_some();
        if is_whole && self.context.is_full_state() {
            self.resumed.inherited = self.client.subscribed_names();
        }
        self.pending.answer |= answer;
    }

    /// Nothing was loaded when the client subscribed. It has been waiting, so it is answered even if it turns out to
    /// be up to date (S-26).
    pub(super) fn note_unloaded(&mut self) {
        self.resumed.whole_version = None;
    }

    /// The cluster of this assignment changed: the client needs the assignment again, changed or not (S-54).
    pub(super) fn repeat_assignment(&mut self, name: &Arc<str>) {
        self.resumed.distrust(name);
        // A SotW response to a wildcard is the full state, which repeats nothing.
        let is_by_name = !self.client.is_wildcard() || self.context.is_delta();
        if is_by_name && self.client.covers(name) {
            self.pending.assignments.insert(Arc::clone(name));
        }
    }

    /// The clusters of these assignments changed while the client was away: the versions that it reported for them do
    /// not count (S-54).
    pub(super) fn distrust(&mut self, names: &BTreeSet<Arc<str>>) {
        names.iter().for_each(|name| self.resumed.distrust(name));
    }

    /// A response was sent. The TTLs of resources count from the response that carries them (S-49).
    pub(super) fn note_sent(&mut self, response: SentResponse) {
        let (now, content) = (response.sent_at, &response.content);
        self.record.sent = Some(response.version);
        if let SentContent::Whole { to, step, .. } = content {
            self.start_heartbeats(now, to.ttls());
            if self.context.is_cluster() {
                self.recent.note_sent(step);
            }
        }
        let items = content.items().iter();
        self.start_heartbeats(now, items.filter_map(|item| item.resource()?.ttl()));
        self.in_flight.push(response);
    }

    fn start_heartbeats(&mut self, now: Instant, ttls: impl Iterator<Item = Duration>) {
        if self.context.form.ttl {
            ttls.for_each(|ttl| self.heartbeats.start(now, ttl));
        }
    }
}

// Time.
impl TypeSession {
    /// Ends holds whose time is over: their changes are sent with the next response, and reported (S-53).
    pub(super) fn expire(&mut self, now: Instant, config: &Config, events: &mut VecDeque<Event>) {
        let mut report = |held| {
            events.push_back(Event::HeldTooLong {
                resource_type: self.context.resource_type.clone(),
                held,
            });
        };
        let removal = |name: &Arc<str>| OverdueChange::Removal(Arc::clone(name));
        for (name, timer) in self.client.held_timers() {
            if timer.expire(now, config.hold) {
                report(removal(name));
            }
        }
        for (name, waits_for) in self.gate.expire(now, config.hold) {
            report(OverdueChange::Update { name, waits_for });
        }
        let (first_answer, removals) = self.resumed.expire(now, config);
        if first_answer {
            report(OverdueChange::Answer);
        }
        removals.for_each(|name| report(removal(name)));
        self.recent.expire(now);
        self.heartbeats.expire(now);
    }

    /// When [`expire`](Self::expire) has to be called next.
    pub(super) fn deadline(&self, config: &Config) -> Option<Instant> {
        let held = self.client.held().values();
        let held = held.filter_map(|held| held.timer.deadline(config.hold));
        let holds = held.chain(self.gate.deadlines(config.hold));
        let holds = holds.chain(self.resumed.deadlines(config));
        let others = self.recent.deadlines().chain(self.heartbeats.deadlines());
        holds.chain(others).min()
    }
}

// State for status pages and for the stream.
impl TypeSession {
    pub(super) fn resource_type(&self) -> &ResourceType {
        &self.context.resource_type
    }

    pub(super) fn subscription(&self) -> &Subscription {
        self.client.subscription()
    }

    /// Whether the invariants of the parts, and those between them, hold; for debug assertions.
    pub(super) fn is_consistent(&self, config: &Config, latest: Nonce) -> bool {
        let (context, client, record) = (&self.context, &self.client, &self.record);
        let members = self.globs.member_count() + self.hosts.member_count();
        client.is_consistent(context, config.max_nacked)
            && self.in_flight.is_consistent(latest, client.is_wildcard())
            && self.globs.is_consistent(client)
            && self.hosts.is_consistent(client)
            && members <= client.subscription().len()
            && self.gate.is_consistent()
            && self.resumed.is_consistent(context)
            && (context.form.ttl || self.heartbeats.len() == 0)
            && (context.is_cluster() || self.recent.is_empty())
            && (record.sent.is_some() || record.acked.is_none() && self.in_flight.is_empty())
            && (record.acks == 0 || record.acked_at.is_some())
            && (record.nack.is_none() || record.nacks > 0)
    }

    /// Number of names that the client listed.
    pub(super) fn requested_names(&self) -> usize {
        let members = self.globs.member_count() + self.hosts.member_count();
        self.client.subscription().len() - members
    }

    /// Whether a change of any name may concern the client.
    pub(super) fn wants_all(&self) -> bool {
        let subscription = self.client.subscription();
        // Any virtual host may be the one that a requested name selects.
        let selects = self.context.has_aliases() && !subscription.is_empty();
        subscription.is_wildcard() || !self.globs.is_empty() || selects
    }

    pub(super) fn was_sent_any(&self) -> bool {
        self.record.sent.is_some()
    }

    /// Whether a removal, or the first answer, waits for later types.
    pub(super) fn is_holding(&self) -> bool {
        !self.client.held().is_empty()
            || self.resumed.is_first_answer_held()
            || self.resumed.has_removals()
    }

    /// Whether the client has accepted everything that is served.
    pub(super) fn has_accepted_all(&self, head: &TypeSnapshot) -> bool {
        let mut held = self.client.held().values();
        // A state that differs only in content that this client is not sent counts as accepted.
        let is_idle = self.in_flight.is_empty()
            && self.client.nacked().is_empty()
            && held.all(|held| held.timer.expired)
            && !self.resumed.has_removals();
        if self.client.has_unrecorded {
            // By name, what was accepted is known for each.
            return is_idle
                && !self.client.is_wildcard()
                && self.client.has_accepted(head.collection());
        }
        self.is_settled(head) || is_idle && self.client.has_accepted(head.collection())
    }

    /// Whether the client has answered everything that it is sent of `head`: with an ACK, or with a NACK.
    pub(super) fn has_answered_all(&self, head: &TypeSnapshot) -> bool {
        let (current, mut held) = (head.collection(), self.client.held().values());
        let accepted = || {
            self.client.is_at(current.revision(), self.pending.seen)
                || self.client.has_accepted(current)
        };
        self.pending.is_quiet()
            && self.in_flight.is_empty()
            && held.all(|held| held.timer.expired)
            && (self.has_nacked() || accepted())
    }

    /// Returns the latest revision whose content the client has answered as a whole; `None` before the first.
    pub(super) fn answered_through(&self) -> Option<Revision> {
        self.record.through
    }

    pub(super) fn status(&self) -> TypeStatus {
        let (subscription, record) = (self.client.subscription(), &self.record);
        let isolation = &self.client.isolation;
        TypeStatus {
            resource_type: self.context.resource_type.clone(),
            api: self.context.form.api,
            wildcard: subscription.is_wildcard(),
            names: subscription.len(),
            sent: record.sent,
            acked: record.acked,
            acked_at: record.acked_at,
            waiting_since: self.in_flight.waiting_since(),
            held: self.held_count(),
            nack: record.nack.clone(),
            isolating: (!isolation.is_empty()).then(|| Isolating {
                suspects: isolation.len(),
                rounds: isolation.rounds(),
            }),
            acks: record.acks,
            nacks: record.nacks,
        }
    }

    fn held_count(&self) -> usize {
        let held = self.client.held().values();
        let running = held.filter(|held| !held.timer.expired).count();
        let removals = self.resumed.removals().map_or(0, |(names, _)| names.len());
        let answers = [self.gate.blocked(), self.resumed.first_answer()];
        running + removals + answers.into_iter().flatten().count()
    }

    /// State of one resource; `None` without a subscription.
    pub(super) fn resource_status(&self, name: &str) -> Option<ResourceStatus> {
        let covers = self.client.covers(name);
        let (sent, acked) = covers.then(|| self.client.versions(name))?;
        let is_suspect = self.client.isolation.contains(name);
        let nacked = self.client.nacked().get(name).filter(|_| !is_suspect);
        Some(ResourceStatus {
            sent,
            acked,
            nacked: nacked.map(|nacked| nacked.what.clone()),
        })
    }

    pub(super) fn nacked_resources(&self) -> impl Iterator<Item = (&Arc<str>, &NackedResource)> {
        let nacked = self.client.rejected();
        nacked.map(|(name, nacked)| (name, &nacked.what))
    }

    pub(super) fn suspects(&self) -> impl Iterator<Item = &Arc<str>> {
        self.client.isolation.suspects()
    }

    /// Whether the client NACKed the latest response, or something since when it accepted nothing else.
    pub(super) fn has_nacked(&self) -> bool {
        let client = &self.client;
        self.record.nack.is_some() || client.has_unrecorded || client.rejected().next().is_some()
    }

    /// SotW: whether a response lists everything that the client subscribed to, since absence means removal. So it is
    /// for every wildcard: Envoy takes a response to a wildcard for the full state (SRDS).
    fn is_whole_state(&self) -> bool {
        let context = &self.context;
        context.is_full_state() || !context.is_delta() && self.client.is_wildcard()
    }

    /// Entries that memory grows with (P-8).
    pub(super) fn footprint(&self) -> usize {
        self.client.footprint()
            + self.pending.len()
            + self.resumed.footprint()
            + self.recent.len()
            + self.heartbeats.len()
            + self.denied.len()
            + self.in_flight.footprint()
    }
}

impl PeerType for TypeSession {
    fn context(&self) -> &TypeContext {
        &self.context
    }

    fn client(&self) -> &ClientState {
        &self.client
    }

    fn is_settled(&self, head: &TypeSnapshot) -> bool {
        let revision = head.collection().revision();
        self.pending.is_quiet()
            && self.in_flight.is_empty()
            && self.client.held().is_empty()
            && !self.resumed.has_removals()
            && self.recent.is_empty()
            && self.client.nacked().is_empty()
            && self.client.is_at(revision, self.pending.seen)
    }

    fn is_unanswered(&self, head: &TypeSnapshot) -> bool {
        let outstanding = !self.in_flight.is_empty();
        // A wildcard client that accepted a response uses what that lists. Before, it may use anything from an
        // earlier stream.
        if let Some(cursor) = self.client.cursor() {
            return cursor.acked.is_none() && (cursor.sent.is_none() || outstanding);
        }
        let is_unanswered = |named: &SubscribedName| {
            let is_due = match named.sent() {
                Sent::Resource(_) => outstanding,
                // It was gone, which could not be expressed, and came back.
                Sent::Absent if self.context.hides_absence() => {
                    head.collection().get(named.name()).is_some()
                }
                Sent::Nothing | Sent::Absent => false,
            };
            named.acked().is_none() && (is_due || self.pending.contains(named.name()))
        };
        let is_quiet = !self.pending.has_names() && !outstanding && self.is_settled(head);
        !is_quiet && self.client.subscription().iter().any(is_unanswered)
    }

    fn lacks(&self, name: &str) -> bool {
        // While the first answer waits, the client has the resource from an earlier stream.
        !self.resumed.is_first_answer_held()
            && self
                .client
                .lacks(&self.context, name, self.in_flight.is_empty())
    }

    fn has_pending_removals(&self) -> bool {
        self.resumed.has_removals()
    }

    fn is_news(&self, cluster: &Arc<Resource>) -> bool {
        self.will_learn_of(cluster) || self.recent.has_accepted(cluster.name())
    }

    fn unsubscribes_before(&self, cluster: &Arc<Resource>, needed: &Reference) -> bool {
        // A response with everything, in flight on a new stream, may remove the other cluster that needs it.
        let is_everything = |response: &SentResponse| match &response.content {
            SentContent::Whole { step, .. } => matches!(step, Step::Everything),
            SentContent::Names(_) => false,
        };
        let may_drop = self.recent.may_drop(needed) || self.in_flight.iter().any(is_everything);
        may_drop && self.will_learn_of(cluster)
    }

    fn may_ask_for_secrets(&self) -> bool {
        self.recent.may_ask_for_secrets()
    }
}

impl TypeSession {
    /// Whether the client has not accepted this version of a cluster, but will.
    fn will_learn_of(&self, cluster: &Arc<Resource>) -> bool {
        let name = cluster.name();
        self.client.accepted(name) != Some(cluster) && !self.client.nacked().contains_key(name)
    }
}
