//! Answers of the client: ACKs and NACKs.
//!
//! ```text
//!                       nonce known, no error_detail ──▶ ACK: the client uses what was sent
//!   request with nonce  nonce known, error_detail    ──▶ NACK: the named resources are recorded, the others accepted
//!                       nonce answered before        ──▶ subscription change only (S-9)
//!                       nonce unknown                ──▶ subscription change only, reported (S-15, S-47)
//! ```
//!
//! xDS has no field for the resources that a NACK means. Envoy and gRPC write their names into the message of
//! `error_detail`; without a name, all resources of the response are suspects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use envoy_types::pb::google::rpc::Status;

use super::{
    TypeSession,
    client::{InUse, NackedState},
    cursor::Step,
    in_flight::{Item, SentContent, SentResponse},
};
use crate::{
    session::{Config, Event, Nack, NackedResource, Nonce},
    snapshot::Resource,
    subscription::SubscribedName,
    time::Instant,
};

/// Length limit, in bytes, of the stored message of a NACK.
const MAX_REASON: usize = 4096;

/// Limit on suspects when the message names no resource. Of more, nothing is known.
const MAX_SUSPECTS: usize = 32;

impl TypeSession {
    /// Applies the part of a request that answers a response.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        nonce: &str,
        error: Option<&Status>,
        config: &Config,
    ) -> Option<Event> {
        if nonce.is_empty() {
            return None;
        }
        // xDS protocol, "ACK and NACK semantics": the nonce alone decides staleness (S-15), `error_detail` alone
        // decides whether it is a NACK (S-17, S-19).
        let nonce = Nonce::parse(nonce);
        let Some(answered) = nonce.and_then(|nonce| self.in_flight.take(nonce)) else {
            // A request repeats the nonce of the last answer to change the subscription (S-9).
            let is_repeated = nonce.is_some_and(|nonce| self.in_flight.is_answered(nonce));
            let resource_type = self.context.resource_type.clone();
            return (!is_repeated).then_some(Event::StaleNonce(resource_type));
        };
        // Envoy sends requests for assignments before or right after the ACK of clusters, so they are due soon.
        if self.in_flight.is_empty() {
            self.recent.note_answered(now + config.follow_up);
        }
        Some(match error {
            None => self.ack(now, answered, config),
            Some(error) => self.nack(now, answered, &error.message, config),
        })
    }

    fn ack(&mut self, now: Instant, answered: SentResponse, config: &Config) -> Event {
        self.resumed.forget_versions();
        let record = &mut self.record;
        record.acks += 1;
        (record.acked, record.acked_at) = (Some(answered.version), Some(now));
        record.nack = None;
        self.accept(now, answered.content, &BTreeSet::new(), config);
        Event::Acked {
            resource_type: self.context.resource_type.clone(),
            version: answered.version,
            after: now - answered.sent_at,
        }
    }

    fn nack(
        &mut self,
        now: Instant,
        answered: SentResponse,
        message: &str,
        config: &Config,
    ) -> Event {
        let nack = Nack {
            version: answered.version,
            reason: truncated(message).into(),
            at: now,
        };
        let is_delta = self.context.is_delta();
        let blame = Blame::find(&answered, self.client.nacked(), is_delta, &nack.reason);
        let names = blame.resources.iter().map(|one| Arc::clone(one.name()));
        let names: BTreeSet<_> = names.collect();
        self.resumed.fresh |= self.reported_without(&answered.content, &blame.resources);
        self.resumed.forget_versions();
        self.note_nacked(&nack, &blame, &answered.kept.replaced, config);
        if blame.certain {
            // gRFC A46: a client applies the valid resources of a response that it NACKs. Envoy does so for CDS and
            // LDS.
            self.accept(now, answered.content, &names, config);
        } else {
            // Envoy stops at the first invalid resource of EDS, RDS and others, so which ones were applied is
            // unknown.
            self.client.note_uncertainty();
        }
        let event = Event::Nacked {
            resource_type: self.context.resource_type.clone(),
            version: nack.version,
            reason: Arc::clone(&nack.reason),
            resources: names.into_iter().collect(),
        };
        self.record.nacks += 1;
        self.record.nack = Some(nack);
        event
    }

    /// Records the NACKed resources. `replaced`: copies that the response replaced.
    fn note_nacked(
        &mut self,
        nack: &Nack,
        blame: &Blame,
        replaced: &[Arc<Resource>],
        config: &Config,
    ) {
        for resource in &blame.resources {
            let name = resource.name();
            let nacked = NackedState {
                what: NackedResource {
                    version: resource.version(),
                    reason: Arc::clone(&nack.reason),
                    at: nack.at,
                },
                certain: blame.certain,
                in_use: self.in_use(name, replaced.iter().find(|copy| copy.name() == name)),
                superseded: false,
            };
            if self.client.note_nacked(name, nacked, config.max_nacked) {
                self.resumed.inherited.remove(name);
            }
        }
    }

    /// SotW, first response of a stream: whether the reported version is that of the response without the NACKed
    /// resources. Then the client NACKed the same on an earlier stream, and has no copy of them.
    fn reported_without(&self, content: &SentContent, nacked: &[Arc<Resource>]) -> bool {
        let (Some(reported), SentContent::Whole { to, .. }) =
            (self.resumed.whole_version(), content)
        else {
            return false;
        };
        let mut rest = to.fingerprint();
        for resource in nacked {
            rest.remove(resource.name(), &resource.version());
        }
        rest.version() == *reported
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
                let until = now + config.follow_up;
                self.recent.note_accepted(step, extra, until);
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

    /// Copy that the client uses instead of the content that was sent last.
    fn in_use(&self, name: &str, replaced: Option<&Arc<Resource>>) -> InUse {
        if let Some(copy) = replaced {
            return InUse::Resource(Arc::clone(copy));
        }
        let named = self.client.subscription().get(name);
        let by_name = named.and_then(SubscribedName::acked);
        // What the client reports on reconnect tells no content, so a copy from an earlier stream is unknown (S-80).
        let Some(cursor) = self.client.cursor() else {
            return match by_name {
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

/// Resources that a NACK means.
#[derive(Debug)]
struct Blame {
    resources: Vec<Arc<Resource>>,
    /// Exactly these were NACKed. Otherwise at least one of them, or an unknown resource, was.
    certain: bool,
}

impl Blame {
    /// Resources of a NACKed response that its message names; if it names none, all, unless they are too many.
    fn find(
        answered: &SentResponse,
        nacked: &BTreeMap<Arc<str>, NackedState>,
        is_delta: bool,
        reason: &str,
    ) -> Self {
        let mut suspects = Vec::new();
        let mut named = Vec::new();
        let mut consider = |resource: &Arc<Resource>| {
            if mentions(reason, resource.name()) {
                named.push(Arc::clone(resource));
            } else if suspects.len() <= MAX_SUSPECTS {
                suspects.push(Arc::clone(resource));
            }
        };
        // Content that is gone by now can be NACKed too.
        answered.kept.held.iter().for_each(&mut consider);
        let mut is_whole = true;
        if let SentContent::Whole { to, step, part, .. } = &answered.content {
            step.part(part, to).for_each(&mut consider);
            if !is_delta && matches!(step, Step::Since(_)) {
                // The rest of the full state was sent before; of that, only resources that were NACKed then are
                // suspects.
                is_whole = false;
                let before = nacked.keys().filter_map(|name| to.get(name));
                before
                    .filter(|resource| !step.has(resource.name()))
                    .for_each(&mut consider);
            }
        }
        let items = answered.content.items().iter();
        items.filter_map(Item::resource).for_each(consider);
        let certain = !named.is_empty() || is_whole && suspects.len() == 1;
        if named.is_empty() && suspects.len() <= MAX_SUSPECTS {
            named = suspects;
        }
        Self {
            resources: named,
            certain,
        }
    }
}

/// Whether `text` contains `name` as a word: neither `api-v2` nor `api.v2` mentions `api`, but `api` at the end of a
/// sentence does.
fn mentions(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            !continues_word(before.chars().rev()) && !continues_word(after.chars())
        })
}

/// Whether this text, read away from a name, continues it as a word.
fn continues_word(mut text: impl Iterator<Item = char>) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '|');
    match text.next() {
        Some('.') => text.next().is_some_and(joins),
        Some(next) => joins(next),
        None => false,
    }
}

/// The part of a NACK's message that is stored.
fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_mentioned_only_as_a_word() {
        let text = "Error adding/updating cluster(s) api-v2: field x, shop.cart: no endpoints";
        assert!(mentions(text, "api-v2") && mentions(text, "shop.cart"));
        assert!(!mentions(text, "api") && !mentions(text, "v2") && !mentions(text, ""));
        assert!(!mentions(text, "shop") && !mentions(text, "cart"));
        assert!(mentions("cannot use shop.", "shop"));
    }

    #[test]
    fn reason_is_cut_between_characters() {
        let long = "ä".repeat(MAX_REASON);
        let cut = truncated(&long);
        assert!(cut.len() <= MAX_REASON && cut.chars().all(|c| c == 'ä'));
    }
}
