//! The client's answers: what it accepted, what it rejected.

use std::{collections::BTreeSet, sync::Arc};

use envoy_types::pb::google::rpc::Status;
use oxds_types::{ResourceType, Version};

use super::{
    Watch,
    record::{Fallback, Rejected},
    response::{Content, Outstanding, Told},
    subscribe::Claims,
    wildcard::Step,
};
use crate::{
    session::{Config, Event, Nack, NackedResource, Nonce},
    snapshot::{Protocol, Resource},
    subscription::SubscribedName,
    time::Instant,
};

/// What of a NACK's message is kept.
const MAX_REASON: usize = 4096;

/// If the message of a NACK names nobody, this many are still put under suspicion; of more, nothing is known.
const MAX_SUSPECTS: usize = 32;

impl Watch {
    /// The part of a request that answers a response: staleness is decided by the nonce alone, rejection by
    /// `error_detail` alone (S-15, S-17, S-19, S-47).
    pub(in crate::session) fn settle(
        &mut self,
        now: Instant,
        nonce: &str,
        error: Option<&Status>,
        config: &Config,
    ) -> Option<Event> {
        if nonce.is_empty() {
            return None;
        }
        let nonce = Nonce::parse(nonce);
        let at = nonce.and_then(|nonce| self.outstanding.iter().position(|o| o.nonce == nonce));
        let Some(at) = at else {
            // A request may repeat the nonce that it answered before, to change the subscription (S-9).
            return (nonce != Some(self.answered))
                .then(|| Event::StaleNonce(self.resource_type.clone()));
        };
        // The stream is ordered: what came before and was not answered will not be.
        let answered = self.outstanding.drain(..=at).next_back()?;
        self.answered = answered.nonce;
        if self.outstanding.is_empty() {
            self.recent.answered(now + config.follow_up);
        }
        Some(match error {
            None => self.accept(now, answered, config),
            Some(error) => self.reject(now, answered, &error.message, config),
        })
    }

    fn accept(&mut self, now: Instant, answered: Outstanding, config: &Config) -> Event {
        self.claims = None;
        self.record.acks += 1;
        self.record.acked = Some(answered.version);
        self.record.acked_at = Some(now);
        self.record.nack = None;
        self.note_accepted(now, answered.content, &BTreeSet::new(), config);
        let after = now - answered.sent_at;
        Event::Acked {
            resource_type: self.resource_type.clone(),
            version: answered.version,
            after,
        }
    }

    fn reject(
        &mut self,
        now: Instant,
        answered: Outstanding,
        message: &str,
        config: &Config,
    ) -> Event {
        let version = answered.version;
        let reason: Arc<str> = truncated(message).into();
        let (blamed, certain) = self.blame(&answered, &reason);
        let names: BTreeSet<_> = blamed
            .iter()
            .map(|resource| Arc::clone(resource.name()))
            .collect();
        self.fresh |= self.came_without(&answered.content, &blamed);
        self.claims = None;
        for resource in blamed {
            let reason = Arc::clone(&reason);
            let what = NackedResource {
                version: resource.version(),
                reason,
                at: now,
            };
            let mut replaced = answered.kept.replaced.iter();
            let replaced = replaced.find(|copy| copy.name() == resource.name());
            self.remember_rejection(resource.name(), what, certain, replaced, config);
        }
        if certain {
            // Clients apply the good resources of a response that they reject for the sake of bad ones (gRFC A46;
            // Envoy's CDS and LDS).
            self.note_accepted(now, answered.content, &names, config);
        } else {
            self.note_uncertainty();
        }
        self.record.nacks += 1;
        self.record.nack = Some(Nack {
            version,
            reason: Arc::clone(&reason),
            at: now,
        });
        let resources = names.into_iter().collect();
        Event::Nacked {
            resource_type: self.resource_type.clone(),
            version,
            reason,
            resources,
        }
    }

    /// SotW, the first response of a stream: whether the client came with just what is in it but for what it refused,
    /// as one does that refused the same on an earlier stream. The version of the whole that it claimed tells.
    fn came_without(&self, content: &Content, refused: &[Arc<Resource>]) -> bool {
        let (Some(Claims::Version(claimed)), Content::All { to, .. }) = (&self.claims, content)
        else {
            return false;
        };
        let mut rest = to.fingerprint();
        for resource in refused {
            rest.remove(resource.name(), &resource.version());
        }
        rest.version() == **claimed
    }

    /// The client has this now, but for `refused`.
    fn note_accepted(
        &mut self,
        now: Instant,
        content: Content,
        refused: &BTreeSet<Arc<str>>,
        config: &Config,
    ) {
        let rejections = &mut self.record.rejections;
        match content {
            Content::All {
                to,
                completes,
                step,
                extra,
                ..
            } => {
                // A rejection outlives what says nothing about it: delta, which tells only what changed unless it is asked
                // for everything again, and a full state that left it out.
                let tells_all = completes && matches!(step, Step::Everything);
                rejections.retain(|name, rejected| {
                    let there_is = to.get(name);
                    refused.contains(name)
                        || match self.form.protocol {
                            Protocol::Delta if tells_all && rejected.superseded => false,
                            Protocol::Delta => rejected.is_of(there_is),
                            Protocol::Sotw => rejected.instead_of(there_is).is_some(),
                        }
                });
                if self.resource_type == ResourceType::CLUSTER {
                    self.recent.note(&step, &extra, now + config.follow_up);
                }
                let told = extra.iter().map(Told::name);
                let told = told.filter(|name| !refused.contains(*name));
                told.for_each(|name| drop(rejections.remove(name)));
                match &mut self.all {
                    _ if !completes => {}
                    Some(all) => all.acked = Some(to),
                    // It asks by name since: it has what it was told then of the names that stayed.
                    None => {
                        for named in self.subscription.iter_mut() {
                            let (name, told) = (named.name(), to.get(named.name()));
                            let is_fine = !refused.contains(name) && !rejections.contains_key(name);
                            if told.is_some() && is_fine {
                                named.accept(told);
                            }
                        }
                    }
                }
            }
            Content::Named(told) => {
                let accepted = told.iter().filter(|told| !refused.contains(told.name()));
                for name in accepted.clone().map(Told::name) {
                    rejections.remove(name);
                    self.inherited.remove(name);
                }
                self.subscription.visit(
                    accepted,
                    |told| told.name(),
                    |named, told| named.accept(told.resource()),
                );
            }
        }
    }

    /// The client rejected a response, and nobody knows what of it.
    fn note_uncertainty(&mut self) {
        for rejected in self.record.rejections.values_mut().filter(|r| r.superseded) {
            rejected.fallback = Fallback::Unknown;
            rejected.superseded = false;
        }
    }

    fn remember_rejection(
        &mut self,
        name: &Arc<str>,
        what: NackedResource,
        certain: bool,
        replaced: Option<&Arc<Resource>>,
        config: &Config,
    ) {
        let rejections = &self.record.rejections;
        // The client may have lost interest while the response was on its way.
        if !self.covers(name) {
            return;
        }
        if rejections.len() >= config.max_nacked && !rejections.contains_key(name) {
            return;
        }
        let fallback = match rejections.get(name) {
            // Rejected twice in a row: what the client goes on with is what it went on with then.
            Some(before) => before.fallback.clone(),
            None => self.fallback(name, replaced),
        };
        let rejected = Rejected {
            what,
            certain,
            fallback,
            superseded: false,
        };
        self.inherited.remove(name);
        self.record.rejections.insert(Arc::clone(name), rejected);
    }

    /// What the client has of a name besides what was sent last.
    fn fallback(&self, name: &str, replaced: Option<&Arc<Resource>>) -> Fallback {
        if let Some(copy) = replaced {
            return Fallback::Resource(Arc::clone(copy));
        }
        let by_name = self.subscription.get(name).and_then(SubscribedName::acked);
        match &self.all {
            Some(all) => match (&all.acked, by_name) {
                (Some(acked), _) => acked.get(name).cloned().into(),
                // Before it asked for everything.
                (None, Some(accepted)) => Fallback::Resource(Arc::clone(accepted)),
                (None, None) if self.fresh => Fallback::Nothing,
                (None, None) => Fallback::Unknown,
            },
            None => match by_name {
                None if self.inherited.contains(name) => Fallback::Unknown,
                accepted => accepted.cloned().into(),
            },
        }
    }

    /// The resources of a rejected response that the client means: those that its message names, as Envoy's and gRPC's
    /// messages do; if it names none of them, all, unless they are too many for that to say anything. And whether that
    /// is certain.
    fn blame(&self, answered: &Outstanding, reason: &str) -> (Vec<Arc<Resource>>, bool) {
        let mut suspects = Vec::new();
        let mut blamed = Vec::new();
        let mut consider = |resource: &Arc<Resource>| {
            if mentions(reason, resource.name()) {
                blamed.push(Arc::clone(resource));
            } else if suspects.len() <= MAX_SUSPECTS {
                suspects.push(Arc::clone(resource));
            }
        };
        // Refused, and gone by now: it is meant if it is named, and a suspect if nobody is.
        answered.kept.held.iter().for_each(&mut consider);
        let mut is_whole = true;
        let told = match &answered.content {
            Content::All {
                to,
                step,
                part,
                extra,
                ..
            } => {
                step.part(part, to).for_each(&mut consider);
                if self.form.protocol == Protocol::Sotw && matches!(step, Step::Since(_)) {
                    // The rest of the full state was there before; only what was refused then may be refused again.
                    is_whole = false;
                    let before = self
                        .record
                        .rejections
                        .keys()
                        .filter_map(|name| to.get(name));
                    before
                        .filter(|resource| !step.has(resource.name()))
                        .for_each(&mut consider);
                }
                &extra[..]
            }
            Content::Named(told) => told,
        };
        told.iter().filter_map(Told::resource).for_each(consider);
        match (blamed.is_empty(), suspects.len()) {
            (false, _) => (blamed, true),
            (true, ..=MAX_SUSPECTS) => {
                let certain = is_whole && suspects.len() == 1;
                (suspects, certain)
            }
            (true, _) => (Vec::new(), false),
        }
    }

    /// The version of a resource that was sent last, and the one that was accepted last.
    pub(in crate::session) fn versions(&self, name: &str) -> (Option<Version>, Option<Version>) {
        let version = |resource: &Arc<Resource>| resource.version();
        let (sent, acked) = match &self.all {
            Some(all) => {
                let held = self.held.get(name).map(|held| &held.resource);
                let of = |c: &Option<Arc<_>>| c.as_ref().and_then(|c| in_collection(c, name));
                (
                    held.map(version).or(of(&all.cursor)),
                    held.map(version).or(of(&all.acked)),
                )
            }
            None => {
                let named = self.subscription.get(name);
                (
                    named.and_then(|named| named.sent().resource()).map(version),
                    named.and_then(SubscribedName::acked).map(version),
                )
            }
        };
        match self.record.rejections.get(name) {
            Some(rejected) => (sent, rejected.fallback.resource().map(version)),
            None => (sent, acked),
        }
    }
}

fn in_collection(collection: &crate::snapshot::ResourceSet, name: &str) -> Option<Version> {
    collection.get(name).map(|resource| resource.version())
}

/// Whether `text` has `name` as a word of its own: neither `api-v2` nor `api.v2` mentions `api`, but the end of a
/// sentence does.
fn mentions(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            !goes_on(before.chars().rev()) && !goes_on(after.chars())
        })
}

/// Whether a word does not end where this text begins.
fn goes_on(mut text: impl Iterator<Item = char>) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '|');
    match text.next() {
        Some('.') => text.next().is_some_and(joins),
        Some(next) => joins(next),
        None => false,
    }
}

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
    fn a_name_is_mentioned_as_a_word() {
        let text = "Error adding/updating cluster(s) api-v2: field x, shop.cart: no endpoints";
        assert!(mentions(text, "api-v2") && mentions(text, "shop.cart"));
        assert!(!mentions(text, "api") && !mentions(text, "v2") && !mentions(text, ""));
        assert!(!mentions(text, "shop") && !mentions(text, "cart"));
        assert!(mentions("cannot use shop.", "shop"));
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "ä".repeat(MAX_REASON);
        let cut = truncated(&long);
        assert!(cut.len() <= MAX_REASON && cut.chars().all(|c| c == 'ä'));
    }
}
