//! What a request asks for, and what the first one says that the client has.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use super::{Watch, record::Rejected, response::Outstanding, wildcard::All};
use crate::{
    session::request::RequestedNames,
    snapshot::{Protocol, Revision},
    subscription::{self, SubscribedName, WildcardChange},
};

/// What the client said it has.
#[derive(Debug)]
pub(in crate::session) enum Claims {
    /// SotW: the version of the whole.
    Version(String),
    /// Delta: `initial_resource_versions`.
    Resources(HashMap<String, String>),
}

impl Claims {
    /// The client has this in some version, which is not the one that there is.
    pub(super) fn outdate(&mut self, name: &str) {
        if let Self::Resources(claimed) = self
            && let Some(version) = claimed.get_mut(name)
        {
            version.clear();
        }
    }
}

impl Watch {
    /// How many names the client said.
    pub(in crate::session) fn asked_names(&self) -> usize {
        self.subscription.len() - self.collections.members()
    }

    /// What the first request of this kind says the client has from an earlier stream.
    pub(in crate::session) fn claim(&mut self, claims: Claims) {
        if matches!(claims, Claims::Version(_))
            && self.resource_type.all_resources_required_in_sotw()
        {
            self.inherited = self.all_names();
        }
        self.claims = Some(claims);
    }

    /// The first request of this kind says that the client has accepted nothing so far.
    pub(in crate::session) fn claim_nothing(&mut self) {
        self.fresh = true;
    }

    /// The first request is answered with what there is, even if that is nothing.
    pub(in crate::session) fn owe_answer(&mut self) {
        self.answer_owed = true;
    }

    /// There was nothing to answer from when the client asked. It has been waiting, so it is answered even if it turns
    /// out to be up to date (S-26).
    pub(in crate::session) fn keep_waiting(&mut self) {
        if matches!(self.claims, Some(Claims::Version(_))) {
            self.claims = None;
        }
    }

    /// The part of a request that changes the subscription.
    pub(in crate::session) fn ask(
        &mut self,
        names: &RequestedNames,
    ) -> subscription::SubscriptionChange {
        let legacy = subscription::has_legacy_wildcard(&self.resource_type);
        let change = match names {
            RequestedNames::Sotw { names, .. } => self.subscription.replace(names, legacy),
            RequestedNames::Delta {
                subscribe,
                unsubscribe,
                ..
            } => self.subscription.update(subscribe, unsubscribe, legacy),
        };
        self.resubscribe(&change);
        self.resubscribe_collections(&change);
        change
    }

    /// The subscription changed: what is owed now?
    fn resubscribe(&mut self, change: &subscription::SubscriptionChange) {
        self.forget_claims(change);
        match change.wildcard {
            Some(WildcardChange::Gained | WildcardChange::Repeated) => {
                // What it had by name, it has still, and the cursor does not know.
                self.fresh &= self.record.sent.is_none();
                let all = self.all.take();
                self.all_due = false;
                self.due = match self.form.protocol {
                    Protocol::Sotw => BTreeSet::new(),
                    // All that there is says nothing of what has gone since.
                    Protocol::Delta => self.sent_names(all.as_ref()),
                };
                self.all = Some(All {
                    acked: all.and_then(|all| all.acked),
                    ..All::default()
                });
                self.again.clear();
                // It asks for all of it again, whatever it thought of it.
                let rejections = self.record.rejections.values_mut();
                rejections.for_each(Rejected::ask_again);
                self.answer_owed = true;
                self.urgent = true;
            }
            Some(WildcardChange::Lost) => self.leave_wildcard(),
            None => {}
        }
        let asked = || change.added.iter().chain(&change.repeated);
        let asks = asked().next().is_some();
        self.urgent |= asks;
        // Whatever it thought of it, it asks for it (again).
        for name in asked() {
            let rejected = self.record.rejections.get_mut(name);
            rejected.into_iter().for_each(Rejected::ask_again);
        }
        if self.all.is_some() {
            // Named besides the wildcard: sent (again), since the client asks for it. Not any more: sent too, so that
            // the client knows whether it still has it through the wildcard (S-39; delta only, SotW need not).
            self.due.extend(asked().cloned());
            if self.form.protocol == Protocol::Delta {
                self.due.extend(change.dropped.iter().cloned());
                self.urgent |= !change.dropped.is_empty();
            }
            return;
        }
        let lost = change.wildcard == Some(WildcardChange::Lost);
        let unasked = if lost { &change.added[..] } else { &[] };
        for name in change.repeated.iter().chain(unasked) {
            // The client lost it, or had it without asking for it: what was sent does not count (S-9, S-35).
            if let Some(named) = self.subscription.get_mut(name) {
                named.ask_again();
            }
        }
        if asks && change.added.len() == self.subscription.len() {
            self.all_due = true;
        } else if !self.all_due {
            self.due.extend(asked().cloned());
        }
        for name in &change.dropped {
            self.due.remove(name);
            self.again.remove(name);
            self.held.remove(name);
            self.inherited.remove(name);
            self.record.rejections.remove(name);
        }
        self.all_due &= !self.subscription.is_empty();
    }

    fn all_names(&self) -> BTreeSet<Arc<str>> {
        let names = self.subscription.iter().map(SubscribedName::name);
        names.cloned().collect()
    }

    /// What the client was sent, by name or through a wildcard, and may have: also what it did not ask for when it was sent
    /// it, and does by the time that it arrives.
    fn sent_names(&self, all: Option<&All>) -> BTreeSet<Arc<str>> {
        let named = self.subscription.iter();
        let named = named.filter(|named| named.sent().resource().is_some());
        let named = named.map(|named| Arc::clone(named.name()));
        let cursor = all.and_then(|all| all.cursor.as_ref());
        let whole = cursor.into_iter().flat_map(|cursor| cursor.iter());
        let under_way = self.outstanding.iter().flat_map(Outstanding::resources);
        named
            .chain(whole.chain(under_way).map(|one| Arc::clone(one.name())))
            .collect()
    }

    /// What the client said it has, it said of what it asked for then.
    fn forget_claims(&mut self, change: &subscription::SubscriptionChange) {
        if change.wildcard.is_some() {
            self.claims = None;
        }
        if let Some(Claims::Resources(claimed)) = &mut self.claims {
            let names = change
                .added
                .iter()
                .chain(&change.repeated)
                .chain(&change.dropped);
            names.for_each(|name| drop(claimed.remove(&**name)));
        }
    }

    /// From the cursor to a state for each name that stays.
    fn leave_wildcard(&mut self) {
        let Some(all) = self.all.take() else { return };
        // Named besides, and not sent yet: that it came through the wildcard does not count.
        let owed = mem::take(&mut self.due);
        let held = mem::take(&mut self.held);
        self.again.clear();
        self.answer_owed = false;
        if all.acked.is_none() && !self.fresh && self.resource_type.all_resources_required_in_sotw()
        {
            self.inherited = self.all_names();
        }
        // Of a response that is only half sent, nobody knows what has arrived.
        let cursor = all.cursor.filter(|_| all.rest.is_none());
        self.seen = cursor
            .as_ref()
            .map_or(Revision::UNLOADED, |cursor| cursor.revision());
        for named in self.subscription.iter_mut() {
            match (held.get(named.name()), &cursor) {
                // It has not been told that this is gone.
                (Some(held), _) => named.tell(Some(&held.resource)),
                _ if owed.contains(named.name()) => named.ask_again(),
                (None, Some(cursor)) => named.tell(cursor.get(named.name())),
                (None, None) => {}
            }
            match (self.record.rejections.get(named.name()), &all.acked) {
                (Some(rejected), _) => named.accept(rejected.fallback.resource()),
                (None, Some(acked)) => named.accept(acked.get(named.name())),
                // It accepted nothing through the wildcard: it has what it accepted by name before.
                (None, None) => {}
            }
        }
        self.due = owed;
        self.due.extend(held.into_keys());
        self.due.retain(|name| self.subscription.has_name(name));
        self.all_due = cursor.is_none() && !self.subscription.is_empty();
        self.due_collections();
        let subscription = &self.subscription;
        self.record
            .rejections
            .retain(|name, _| subscription.has_name(name));
    }

    /// The version in which the client says it has these does not count (S-54, after a reconnect).
    pub(in crate::session) fn disclaim(&mut self, names: &BTreeSet<Arc<str>>) {
        if let Some(claims) = &mut self.claims {
            names.iter().for_each(|name| claims.outdate(name));
        }
    }
}
