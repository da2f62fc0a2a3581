//! A client that comes back, and has something from an earlier stream that is gone meanwhile (S-52).
//!
//! What refers to that, at the client, nobody knows before it has been told of the later kinds. Over SotW, where absence is
//! removal, the whole first answer waits; over delta the client says by name what it has, and only what is gone waits.

use std::{collections::BTreeSet, sync::Arc};

use oxds_types::ResourceType;

use super::Watch;
use crate::{
    session::{
        Config,
        held::WaitsFor,
        ordering::{Patience, Peers},
    },
    snapshot::ResourceSet,
    time::Instant,
};

/// What waits for what the client asks of later kinds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Withheld {
    /// How long they may take to be asked for.
    to_ask: Patience,
    /// How long they may take to be answered.
    to_answer: Patience,
}

/// Delta: what the client has and is not told yet that it is gone.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) names: BTreeSet<Arc<str>>,
    pub(super) withheld: Withheld,
}

impl Withheld {
    fn since(now: Instant) -> Self {
        Self {
            to_ask: Patience::since(now),
            to_answer: Patience::since(now),
        }
    }

    fn waits(&self, peers: &Peers<'_>) -> bool {
        let to_answer = !peers.users_are_answered() && !self.to_answer.is_over();
        self.waits_to_be_asked(peers) || to_answer
    }

    fn waits_to_be_asked(&self, peers: &Peers<'_>) -> bool {
        !peers.users_are_asked_for() && !self.to_ask.is_over()
    }

    /// Whether it has waited too long since just now.
    pub(super) fn ends(&mut self, now: Instant, config: &Config) -> bool {
        self.to_ask.ends(now, config.follow_up);
        self.to_answer.ends(now, config.hold)
    }

    pub(super) fn deadlines(self, config: &Config) -> impl Iterator<Item = Instant> {
        let to_ask = self.to_ask.deadline(config.follow_up);
        to_ask
            .into_iter()
            .chain(self.to_answer.deadline(config.hold))
    }

    fn held_since(&self) -> Option<Patience> {
        (!self.to_answer.is_over()).then_some(self.to_answer)
    }
}

impl Watch {
    /// SotW: whether the first answer has to wait, as it would take a cluster away.
    pub(super) fn withholds_answer(
        &mut self,
        now: Instant,
        missing: bool,
        peers: &Peers<'_>,
    ) -> bool {
        let is_first = missing
            && self.resource_type == ResourceType::CLUSTER
            && self.record.sent.is_none()
            && !self.fresh;
        let withheld = self.withheld.unwrap_or(Withheld::since(now));
        let waits = is_first && withheld.waits(peers);
        self.withheld = waits.then_some(withheld);
        waits
    }

    /// Since when the first answer is withheld.
    pub(in crate::session) fn withheld_since(&self) -> Option<Patience> {
        self.withheld.as_ref().and_then(Withheld::held_since)
    }

    /// Delta: the client said that it has these, and they are gone; it is to be told, at once or later.
    pub(super) fn part_with(
        &mut self,
        now: Instant,
        gone: BTreeSet<Arc<str>>,
        there_is: &ResourceSet,
        peers: &Peers<'_>,
    ) {
        if gone.is_empty() {
            return;
        }
        self.departed = Some(Box::new(Departed {
            names: gone,
            withheld: Withheld::since(now),
        }));
        self.let_departed_go(there_is, peers);
    }

    /// What is gone may be told once nothing that the client has can need it.
    pub(super) fn let_departed_go(&mut self, there_is: &ResourceSet, peers: &Peers<'_>) {
        let Some(mut departed) = self.departed.take() else {
            return;
        };
        let withheld = departed.withheld;
        let needed =
            |name: &Arc<str>| !withheld.to_answer.is_over() && self.may_need(name, peers).is_some();
        let is_early =
            self.resource_type == ResourceType::CLUSTER && withheld.waits_to_be_asked(peers);
        let (stay, go) = std::mem::take(&mut departed.names)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|name| is_early || needed(name));
        // What came back meanwhile, the client was told of.
        self.due
            .extend(go.into_iter().filter(|name| there_is.get(name).is_none()));
        departed.names = stay;
        self.departed = Some(departed).filter(|departed| !departed.names.is_empty());
    }

    /// Whether the client is not told yet that this is gone.
    pub(super) fn parts_with(&self, name: &str) -> bool {
        let departed = self.departed.as_ref();
        departed.is_some_and(|departed| departed.names.contains(name))
    }

    /// What may need it at the client. Which clusters need an assignment of which nobody knows the version, nobody knows
    /// either.
    pub(in crate::session) fn may_need(&self, name: &str, peers: &Peers<'_>) -> Option<WaitsFor> {
        let user = peers.user(&self.resource_type, name);
        user.or_else(|| {
            (self.resource_type == ResourceType::ENDPOINT)
                .then(|| peers.parting_clusters())
                .flatten()
        })
    }

    /// Whether there is something that the client is not told yet to be gone.
    pub(in crate::session) fn parts_with_something(&self) -> bool {
        self.departed.is_some()
    }

    /// What that is, and since when, unless it has waited for too long.
    pub(in crate::session) fn departed_held(&self) -> Option<(&BTreeSet<Arc<str>>, Patience)> {
        let departed = self.departed.as_ref()?;
        Some((&departed.names, departed.withheld.held_since()?))
    }
}
