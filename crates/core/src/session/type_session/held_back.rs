//! Changes that make-before-break holds back, with the cause of each (S-53).

use std::sync::Arc;

use super::{
    TypeSession,
    client::HeldRemoval,
    gate::{OldCopies, PeerType, Peers},
    hold_timer::HoldTimer,
};
use crate::{
    session::{HeldBack, HeldChange, WaitsFor},
    snapshot::Resource,
    subscription::SubscribedName,
};

impl TypeSession {
    /// The held resource of this type that refers to another one: an aggregate cluster.
    fn held_user(&self, name: &str) -> Option<WaitsFor> {
        let refers = |held: &&HeldRemoval| held.resource.refers_to(self.resource_type(), name);
        let user = self.client.held().values().find(refers)?;
        Some(self.waits_for(Some(user.resource.name())))
    }

    /// Changes that are held back. The cause of each is found when it is asked for.
    pub(crate) fn held_back<'a>(
        &'a self,
        peers: Peers<'a, Self>,
    ) -> impl Iterator<Item = HeldBack> + use<'a> {
        let of = |change, name, waits_for, timer: HoldTimer| HeldBack {
            change,
            name,
            waits_for,
            since: timer.since,
        };
        let held = self.client.held().iter();
        let held = held.filter(|(_, held)| !held.timer.expired);
        let held = held.map(move |(name, held)| {
            let by_client = || peers.unsubscribes_itself(self.resource_type(), held);
            let user = peers.user(self.resource_type(), name);
            let user = user.or_else(|| self.held_user(name));
            let user = user.or_else(|| by_client().then(|| self.waits_for(Some(name))));
            of(
                HeldChange::Removal,
                Some(Arc::clone(name)),
                user,
                held.timer,
            )
        });
        let resumed = self.resumed.removals().into_iter();
        let resumed = resumed.flat_map(move |(names, timer)| {
            names.iter().map(move |name| {
                let user = peers.user(self.resource_type(), name);
                of(HeldChange::Removal, Some(Arc::clone(name)), user, timer)
            })
        });
        let answer = self.resumed.first_answer().map(|timer| {
            let user = peers.unanswered_user();
            of(HeldChange::Answer, None, user, timer)
        });
        let update = self.gate.blocked().map(|timer| {
            let (name, needed) = self.first_lacking(&peers).unzip();
            of(HeldChange::Update, name, needed, timer)
        });
        answer.into_iter().chain(update).chain(held).chain(resumed)
    }

    /// One of the updates that are to be sent next and wait, and the dependency that it waits for.
    fn first_lacking(&self, peers: &Peers<'_, Self>) -> Option<(Arc<str>, WaitsFor)> {
        let current = peers.head.collection();
        let copies = OldCopies {
            client: &self.client,
            is_fresh: self.resumed.fresh,
        };
        let lacking = |update: &Arc<Resource>| {
            let before = copies.of(update.name());
            let needed = peers.lacking(update, &before).first()?;
            Some((Arc::clone(update.name()), needed))
        };
        if let Some(cursor) = self.client.cursor() {
            return cursor.step(peers.head).updates(current).find_map(lacking);
        }
        let all = self.pending.all_names.then(|| self.subscription().iter());
        let all = all.into_iter().flatten().map(SubscribedName::name);
        let mut due = all.chain(&self.pending.names);
        due.find_map(|name| lacking(current.get(name)?))
    }
}
