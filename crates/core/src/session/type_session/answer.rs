//! Answers of the client: ACKs and NACKs.
//!
//! ```text
//!                       nonce known, no error_detail ──▶ ACK: the client uses what was sent
//!   request with nonce  nonce known, error_detail    ──▶ NACK: the invalid resources are recorded, the rest is sent again
//!                       nonce answered before        ──▶ subscription change only (S-9)
//!                       nonce unknown                ──▶ subscription change only, reported (S-15, S-47)
//! ```
//!
//! The valid resources of a NACKed response that are in use depend on the client. gRPC uses all (A46). Envoy uses those
//! of CDS and LDS, but nothing of a response with a resource that does not decode or breaks the rules of Envoy's
//! version of the API. Of other types, Envoy uses those before the first invalid one, in no defined order, and removes
//! nothing. A server cannot know which of these holds. So the rest is sent again, once for each NACK; for a client that
//! uses it already, this costs a message. If the NACK names nothing, the rest is sent in parts (`crate::nack`).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use envoy_types::pb::google::rpc::Status;
use oxds_types::Fingerprint;

use super::{
    TypeSession,
    in_flight::{Item, KeptCopies, SentContent, SentResponse},
};
use crate::{
    nack::{Blame, InUse, Nack, NackText, NackedResource, NackedState, News},
    session::{Config, Event, Nonce},
    snapshot::{Resource, TypeSnapshot},
    subscription::SubscribedName,
    time::Instant,
};

impl TypeSession {
    /// Applies the part of a request that answers a response; returns whether it does.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        nonce: &str,
        error: Option<&Status>,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) -> bool {
        if nonce.is_empty() {
            return false;
        }
        // xDS protocol, "ACK and NACK semantics": the nonce alone decides staleness (S-15), `error_detail` alone
        // decides whether it is a NACK (S-17, S-19).
        let nonce = Nonce::parse(nonce);
        let Some(answered) = nonce.and_then(|nonce| self.in_flight.take(nonce)) else {
            // A request repeats the nonce of the last answer to change the subscription (S-9).
            if !nonce.is_some_and(|nonce| self.in_flight.is_answered(nonce)) {
                events.push_back(Event::StaleNonce(self.context.resource_type.clone()));
            }
            return false;
        };
        // Envoy sends requests for assignments before or right after the ACK of clusters, so they are due soon.
        if self.in_flight.is_empty() {
            self.recent.note_answered(now + config.follow_up);
        }
        let covers = answered.covers;
        match error {
            None => self.ack(now, answered, config, events),
            Some(error) => events.push_back(self.nack(now, answered, &error.message, config)),
        }
        // After a NACK, the rest may be due again.
        let is_left = !self.pending.is_quiet() || !self.client.isolation.is_empty();
        if error.is_none() || !is_left {
            self.record.through = self.record.through.max(covers);
        }
        true
    }

    /// The client answered a response with assignments.
    pub(crate) fn note_assignments(&mut self, now: Instant, config: &Config) {
        self.recent.note_assignments(now, now + config.follow_up);
    }

    fn ack(
        &mut self,
        now: Instant,
        answered: SentResponse,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) {
        self.resumed.forget_versions();
        let record = &mut self.record;
        record.acks += 1;
        (record.acked, record.acked_at) = (Some(answered.version), Some(now));
        record.nack = None;
        self.accept(now, answered.content, &BTreeSet::new(), config);
        let resource_type = self.context.resource_type.clone();
        events.push_back(Event::Acked {
            resource_type,
            version: answered.version,
            after: now - answered.sent_at,
        });
        self.client.isolate_accepted();
    }

    fn nack(
        &mut self,
        now: Instant,
        answered: SentResponse,
        message: &str,
        config: &Config,
    ) -> Event {
        let text = NackText::new(message);
        let nack = Nack {
            version: answered.version,
            reason: text.stored().into(),
            at: now,
        };
        let SentResponse { content, kept, .. } = answered;
        let blame = Blame::new(text, self.news(&content, &kept));
        let is_reported = self.note_reported(&content, &blame.bad);
        self.resumed.forget_versions();
        let (isolates, leaves_out) = self.note_blame(&nack, &blame, &kept, config);
        let names = blame.names();
        self.client.isolation.note_blame(&blame, isolates);
        // Absence from a full state removes resources, also those that the client uses of NACKed ones.
        let is_whole = self.is_whole_state();
        let removes = self.client.may_have_more && !blame.bad.is_empty() && !blame.is_repeated;
        if is_reported || blame.suspects.is_empty() && blame.rest.is_empty() && !removes {
            // How much is left of the TTLs is unknown if the client rejected the whole response.
            self.pending.answer |= is_reported && self.heartbeats.len() > 0;
            self.accept(now, content, &names, config);
        } else {
            self.client.may_have_more |= is_whole;
            if leaves_out && (isolates || blame.suspects.is_empty()) {
                self.client.rewind(is_whole);
                // The rounds of isolation carry the rest of a full state.
                if !is_whole || self.client.isolation.is_empty() {
                    self.send_again(blame.rest);
                }
            }
        }
        self.record.nacks += 1;
        self.record.nack = Some(nack.clone());
        Event::Nacked {
            resource_type: self.context.resource_type.clone(),
            version: nack.version,
            reason: nack.reason,
            resources: names.into_iter().collect(),
            suspects: self.client.isolation.len(),
        }
    }

    /// Content of a response that the client had not accepted before; or all, if it had.
    fn news(&self, content: &SentContent, kept: &KeptCopies) -> News {
        let client = &self.client;
        let nacked = |resource: &Arc<Resource>| client.nacked().get(resource.name());
        let (mut resources, mut removals) = (Vec::new(), Vec::new());
        // The client has these, although it accepted a state without them.
        let mut released = kept.released.clone();
        if let SentContent::Whole { to, step, part, .. } = content {
            // A full state has NACKed content only if the client may need it, or asked for it again.
            let again = client.nacked().keys().filter(|name| !step.may_update(name));
            let again = again.filter(|_| !self.context.is_delta());
            let updates = step
                .part(part, to)
                .chain(again.filter_map(|name| to.get(name)));
            let is_left_out = |one: &Arc<Resource>| {
                let state = nacked(one).filter(|_| !self.context.is_delta());
                state.is_some_and(|state| state.substitute(Some(one)).is_some())
            };
            resources.extend(updates.filter(|one| !is_left_out(one)).cloned());
            let is_sent = |name: &&Arc<str>| !client.held().contains_key(*name);
            removals.extend(step.removals().filter(is_sent).cloned());
        }
        for item in content.items() {
            match item {
                Item::Resource(resource) => resources.push(Arc::clone(resource)),
                Item::Absent(name) => removals.push(Arc::clone(name)),
                Item::Removed(name) => released.push(Arc::clone(name)),
                Item::Invalid(..) | Item::Copy(_) => {}
            }
        }
        let is_new =
            |one: &Arc<Resource>| client.accepted(one.name()) != Some(one) || nacked(one).is_some();
        // Delta: the client may use resources of responses that it NACKed.
        let may_have_more = !self.resumed.fresh || self.context.is_delta() && self.record.nacks > 0;
        removals.retain(|name| client.accepted(name).is_some() || may_have_more);
        removals.append(&mut released);
        let is_repeated = removals.is_empty() && !resources.iter().any(is_new);
        let (resources, mut again): (Vec<_>, Vec<_>) = resources
            .into_iter()
            .partition(|one| is_repeated || is_new(one));
        // A full state repeats everything.
        again.retain(|_| !self.is_whole_state());
        News {
            resources,
            again,
            removals,
            held: kept.held.clone(),
            is_repeated,
        }
    }

    /// Records what is NACKed. Returns whether suspects are isolated, and whether the rest can be sent without what is
    /// bad.
    fn note_blame(
        &mut self,
        nack: &Nack,
        blame: &Blame,
        sent: &KeptCopies,
        config: &Config,
    ) -> (bool, bool) {
        // A full state without a resource removes what the client may have of it.
        let (is_whole, replaced) = (self.is_whole_state(), &sent.replaced);
        let is_known = |one: &Arc<Resource>| !is_whole || self.in_use(one, replaced).is_known();
        let leaves_out = |one| is_known(one) && !sent.held.contains(one);
        let leaves_out = blame.bad.iter().all(leaves_out);
        let fits = self.client.nacked().len() + blame.suspects.len() <= config.max_nacked;
        let can_isolate = config.isolate && fits && !blame.is_repeated;
        let isolates = can_isolate && blame.suspects.iter().all(is_known);
        let copies = blame.kept.iter();
        let copies = copies.filter_map(|name| self.client.accepted(name));
        let copies: Vec<_> = copies.cloned().collect();
        if copies.len() < blame.kept.len() {
            // The client has them from an earlier stream.
            self.client.has_unrecorded = true;
        }
        let bad = blame.bad.iter().map(|one| (one, false, true));
        let suspects = blame.suspects.iter().map(|one| (one, false, isolates));
        let removals = copies.iter().map(|one| (one, true, true));
        for (resource, removal, is_withheld) in bad.chain(suspects).chain(removals) {
            let nacked = NackedState {
                what: NackedResource {
                    version: resource.version(),
                    removal,
                    reason: Arc::clone(&nack.reason),
                    at: nack.at,
                },
                is_withheld,
                in_use: self.in_use(resource, replaced),
                superseded: false,
            };
            if self
                .client
                .note_nacked(resource.name(), nacked, config.max_nacked)
            {
                self.resumed.inherited.remove(resource.name());
            }
        }
        (isolates, leaves_out)
    }

    /// Makes names due again.
    fn send_again(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        let is_wildcard = self.client.is_wildcard();
        if self.is_whole_state() {
            self.pending.answer = true;
            if is_wildcard {
                return;
            }
        }
        for name in names {
            if !is_wildcard {
                self.client.ask_again(&name);
            }
            self.pending.add(&name);
        }
    }

    /// Makes the suspects of the next round of isolation due.
    pub(crate) fn send_next_round(&mut self, head: &TypeSnapshot) {
        let pending = &self.pending;
        let is_due = |name: &str| pending.answer || pending.contains(name);
        let round = self.client.next_round(head.collection(), is_due);
        if !round.is_empty() {
            self.send_again(round);
        }
    }

    /// SotW, first response of a stream: returns whether the reported version is that of the response without the
    /// NACKed resources. Then the client NACKed the same on an earlier stream: it uses the others, and has no copy of
    /// the NACKed ones.
    fn note_reported(&mut self, content: &SentContent, nacked: &[Arc<Resource>]) -> bool {
        let reported = self.resumed.whole_version.as_ref();
        let Some(reported) = reported.filter(|_| !nacked.is_empty()) else {
            return false;
        };
        let mut rest = match content {
            SentContent::Whole { to, .. } => to.fingerprint(),
            SentContent::Names(_) => Fingerprint::default(),
        };
        for resource in content.items().iter().filter_map(Item::resource) {
            rest.add(resource.name(), &resource.version());
        }
        for resource in nacked {
            rest.remove(resource.name(), &resource.version());
        }
        let is_rest = rest.version() == **reported;
        if is_rest {
            self.resumed.fresh = true;
            self.resumed.inherited.clear();
        }
        is_rest
    }

    /// Records that the client uses the content now, but for the names in `bad`.
    fn accept(
        &mut self,
        now: Instant,
        content: SentContent,
        bad: &BTreeSet<Arc<str>>,
        config: &Config,
    ) {
        match &content {
            SentContent::Whole { step, extra, .. } if self.context.is_cluster() => {
                self.recent.note_accepted(now, step, extra, config);
            }
            SentContent::Whole { .. } => {}
            SentContent::Names(items) => {
                let good = items.iter().map(Item::name);
                for name in good.filter(|name| !bad.contains(*name)) {
                    self.resumed.inherited.remove(name);
                }
            }
        }
        self.client.accept(&self.context, content, bad);
    }

    /// Copy that the client uses instead of this NACKed content.
    fn in_use(&self, nacked: &Arc<Resource>, replaced: &[Arc<Resource>]) -> InUse {
        let name = nacked.name();
        // NACKed twice in a row: the client uses what it used then.
        if let Some(before) = self.client.nacked().get(name) {
            return before.in_use.clone();
        }
        if let Some(copy) = replaced.iter().find(|copy| copy.name() == name) {
            return InUse::Resource(Arc::clone(copy));
        }
        let named = self.client.subscription().get(name);
        let by_name = named.and_then(SubscribedName::acked);
        // What the client reports on reconnect tells no content, so a copy from an earlier stream is unknown (S-80).
        let Some(cursor) = self.client.cursor() else {
            return match by_name {
                None if self.client.may_have_more => InUse::Unknown,
                None if self.resumed.inherited.contains(name) => InUse::Unknown,
                accepted => accepted.cloned().into(),
            };
        };
        match (&cursor.acked, by_name) {
            (Some(acked), _) => acked.get(name).cloned().into(),
            // Accepted by name before the wildcard.
            (None, Some(accepted)) => InUse::Resource(Arc::clone(accepted)),
            (None, None) if self.resumed.fresh => InUse::Nothing,
            (None, None) => InUse::Unknown,
        }
    }
}
