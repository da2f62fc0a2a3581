//! The client's answers: what it accepted, what it rejected.

use std::sync::Arc;

use envoy_types::pb::google::rpc::Status;
use oxds_types::{Kind, Version};

use super::{Content, Fallback, Outstanding, Rejected, Watch};
use crate::{
    session::{Config, Event, Nack, Nonce, Rejection},
    snapshot::Resource,
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
            return (nonce != Some(self.answered)).then(|| Event::StaleNonce(self.kind.clone()));
        };
        // The stream is ordered: what came before and was not answered will not be.
        let answered = self.outstanding.drain(..=at).next_back()?;
        self.answered = answered.nonce;
        Some(match error {
            None => self.accept(now, answered, config),
            Some(error) => self.reject(now, &answered, &error.message, config),
        })
    }

    fn accept(&mut self, now: Instant, answered: Outstanding, config: &Config) -> Event {
        self.record.acks += 1;
        self.record.acked = Some(answered.version);
        self.record.nack = None;
        let rejections = &mut self.record.rejections;
        match answered.content {
            Content::All {
                to,
                completes,
                step,
                extra,
            } => {
                // A rejection outlives what says nothing about it: another resource changed, and this one did not.
                rejections.retain(|name, rejected| {
                    to.get(name)
                        .is_some_and(|there_is| there_is.version() == rejected.what.version)
                });
                if self.kind == Kind::CLUSTER {
                    self.recent.note(&step, &extra, now + config.follow_up);
                }
                extra
                    .iter()
                    .for_each(|(name, _)| drop(rejections.remove(name)));
                if let (true, Some(all)) = (completes, &mut self.all) {
                    all.acked = Some(to);
                }
            }
            Content::Named(told) => {
                for (name, resource) in told {
                    rejections.remove(&name);
                    if let Some(state) = self.subscription.get_mut(&name) {
                        state.acked = resource;
                    }
                }
            }
        }
        let after = now - answered.sent_at;
        Event::Acked {
            kind: self.kind.clone(),
            version: answered.version,
            after,
        }
    }

    fn reject(
        &mut self,
        now: Instant,
        answered: &Outstanding,
        message: &str,
        config: &Config,
    ) -> Event {
        let version = answered.version;
        let reason: Arc<str> = truncated(message).into();
        let (blamed, certain) = blame(answered, &reason);
        let resources = blamed
            .iter()
            .map(|resource| Arc::clone(resource.name()))
            .collect();
        for resource in blamed {
            let reason = Arc::clone(&reason);
            let what = Rejection {
                version: resource.version(),
                reason,
                at: now,
            };
            self.remember_rejection(resource.name(), what, certain, config);
        }
        // Of what else was sent in place of something rejected, nobody knows whether it was accepted.
        for rejected in self.record.rejections.values_mut().filter(|r| r.superseded) {
            rejected.fallback = Fallback::Unknown;
            rejected.superseded = false;
        }
        self.record.nacks += 1;
        self.record.nack = Some(Nack {
            version,
            reason: Arc::clone(&reason),
            at: now,
        });
        Event::Nacked {
            kind: self.kind.clone(),
            version,
            reason,
            resources,
        }
    }

    fn remember_rejection(
        &mut self,
        name: &Arc<str>,
        what: Rejection,
        certain: bool,
        config: &Config,
    ) {
        let rejections = &self.record.rejections;
        if rejections.len() >= config.max_rejections && !rejections.contains_key(name) {
            return;
        }
        let unknown = if self.fresh {
            Fallback::Nothing
        } else {
            Fallback::Unknown
        };
        let fallback = match (&self.all, rejections.get(name)) {
            // Rejected twice in a row: what the client goes on with is what it went on with then.
            (_, Some(before)) => before.fallback.clone(),
            (Some(all), None) => all.acked.as_ref().map_or(unknown, |acked| {
                acked
                    .get(name)
                    .cloned()
                    .map_or(Fallback::Nothing, Fallback::Resource)
            }),
            (None, None) => {
                let accepted = self
                    .subscription
                    .get(name)
                    .and_then(|state| state.acked.clone());
                accepted.map_or(unknown, Fallback::Resource)
            }
        };
        let rejected = Rejected {
            what,
            certain,
            fallback,
            superseded: false,
        };
        self.record.rejections.insert(Arc::clone(name), rejected);
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
                let state = self.subscription.get(name);
                let sent = state.and_then(|state| state.sent.resource()).map(version);
                (
                    sent,
                    state.and_then(|state| state.acked.as_ref()).map(version),
                )
            }
        };
        match self.record.rejections.get(name) {
            Some(rejected) => (sent, rejected.fallback.resource().map(version)),
            None => (sent, acked),
        }
    }
}

fn in_collection(collection: &crate::snapshot::Collection, name: &str) -> Option<Version> {
    collection.get(name).map(|resource| resource.version())
}

/// The resources of a rejected response that the client means: those that its message names, as Envoy's and gRPC's
/// messages do; if it names none of them, all, unless they are too many for that to say anything. And whether that is
/// certain.
fn blame(answered: &Outstanding, reason: &str) -> (Vec<Arc<Resource>>, bool) {
    let named = |resource: &Arc<Resource>| mentions(reason, resource.name());
    let mut suspects = Vec::new();
    let mut blamed = Vec::new();
    let mut consider = |resource: &Arc<Resource>| {
        if named(resource) {
            blamed.push(Arc::clone(resource));
        } else if suspects.len() <= MAX_SUSPECTS {
            suspects.push(Arc::clone(resource));
        }
    };
    let told = match &answered.content {
        Content::All {
            to, step, extra, ..
        } => {
            step.updates(to).for_each(&mut consider);
            extra
        }
        Content::Named(told) => told,
    };
    told.iter()
        .filter_map(|(_, resource)| resource.as_ref())
        .for_each(consider);
    match (blamed.is_empty(), suspects.len()) {
        (false, _) => (blamed, true),
        (true, ..=MAX_SUSPECTS) => {
            let certain = suspects.len() == 1;
            (suspects, certain)
        }
        (true, _) => (Vec::new(), false),
    }
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
