//! Changes of one type that make-before-break holds back, with what they wait for (S-53).

use std::sync::Arc;

use super::{
    TypeSession,
    gate::{Peers, unsubscribes_itself},
    resumed,
};
use crate::{
    session::status::{HeldBack, HeldChange, WaitsFor},
    snapshot::Resource,
    subscription::SubscribedName,
};

/// Changes of `session` that are held back. The cause of each is found when it is asked for.
pub(crate) fn held_changes<'a>(
    session: &'a TypeSession,
    peers: Peers<'a, TypeSession>,
) -> impl Iterator<Item = HeldBack> + use<'a> {
    let resource_type = &session.context.resource_type;
    let held = session.client.held().iter();
    let held = held.filter(|(_, held)| !held.timer.is_expired());
    let held = held.map(move |(name, held)| {
        let itself = || WaitsFor {
            resource_type: resource_type.clone(),
            name: Some(Arc::clone(name)),
        };
        let by_client = || unsubscribes_itself(held, resource_type, name, &peers).then(itself);
        HeldBack {
            change: HeldChange::Removal,
            name: Some(Arc::clone(name)),
            waits_for: peers.user(resource_type, name).or_else(by_client),
            since: held.timer.since(),
        }
    });
    let removals = session.resumed.removals().into_iter();
    let removals = removals.flat_map(move |(names, timer)| {
        names.iter().map(move |name| HeldBack {
            change: HeldChange::Removal,
            name: Some(Arc::clone(name)),
            waits_for: resumed::user(&session.context, name, &peers),
            since: timer.since(),
        })
    });
    let answer = first_answer(session, &peers).into_iter();
    answer
        .chain(update(session, &peers))
        .chain(held)
        .chain(removals)
}

fn update(session: &TypeSession, peers: &Peers<'_, TypeSession>) -> Option<HeldBack> {
    let timer = session.gate.blocked()?;
    let lacking = |resource: &Arc<Resource>| {
        let needed = peers.lacking(resource)?;
        Some((Arc::clone(resource.name()), needed))
    };
    let (name, waits_for) = first_update(session, peers, lacking).unzip();
    Some(HeldBack {
        change: HeldChange::Update,
        name,
        waits_for,
        since: timer.since(),
    })
}

fn first_answer(session: &TypeSession, peers: &Peers<'_, TypeSession>) -> Option<HeldBack> {
    Some(HeldBack {
        change: HeldChange::Answer,
        name: None,
        waits_for: peers.unanswered_user(),
        since: session.resumed.first_answer()?.since(),
    })
}

/// Looks for one resource among those that are to be sent next.
fn first_update<T>(
    session: &TypeSession,
    peers: &Peers<'_, TypeSession>,
    look: impl Fn(&Arc<Resource>) -> Option<T>,
) -> Option<T> {
    let current = peers.head.collection();
    if let Some(cursor) = session.client.cursor() {
        return cursor.step(peers.head).updates(current).find_map(look);
    }
    let all = session
        .pending
        .is_all()
        .then(|| session.subscription().iter());
    let all = all.into_iter().flatten().map(SubscribedName::name);
    let mut due = all.chain(session.pending.names());
    due.find_map(|name| look(current.get(name)?))
}
