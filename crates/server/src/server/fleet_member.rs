//! Changes on trial, for a store whose replicas decide together (G-38).

use std::sync::Arc;

use oxds_core::rollback::{Acceptance, OnTrial, RollbackKey, RolledBack};
use oxds_core::time::Instant;
use oxds_etcd::rollback::{Decision, LocalChanges, NackingNodes, Opinion, Trial, TrialPart};
use oxds_etcd::shedding::Shed;
use oxds_etcd::{Place, Segment, Stored};
use oxds_types::Version;
use tokio::sync::Notify;

use crate::context::Context;
use crate::store::FleetMember;

/// The changes on trial of a server.
pub(super) struct Member(pub(super) Arc<Context>);

impl LocalChanges for Member {
    fn nacked(&self) -> Vec<Trial> {
        let nacked = self.0.rollback.nacked_trials().into_iter();
        nacked.filter_map(trial).collect()
    }

    fn opinion(&self, place: &Place, version: Version) -> Opinion {
        let key = RollbackKey {
            resource_type: place.resource_type.clone(),
            name: Arc::clone(&place.name),
            group: place.group.as_ref().map(Segment::shared),
        };
        let rollback = &self.0.rollback;
        if let Some(trial) = rollback.on_trial(&key).and_then(trial) {
            let mut parts = trial.parts.iter();
            let stored = parts.find(|part| part.place == *place);
            let stored = stored.and_then(|part| part.stored.as_ref());
            if stored.is_some_and(|stored| Stored::version_of(stored) == version) {
                return Opinion::Trial(trial);
            }
        }
        match rollback.accepted(&self.0.clients, &key) {
            Some((served, _)) if Stored::version_of(&served) != version => Opinion::NotServed,
            None => Opinion::NotServed,
            Some((_, Acceptance::Unseen)) => Opinion::NoClients,
            // It was accepted, or no former version is known.
            Some((_, Acceptance::All | Acceptance::Lacking)) => Opinion::Lacking,
        }
    }
}

impl FleetMember for Member {
    fn threshold(&self) -> Option<usize> {
        self.0.rollback.shared_threshold()
    }

    fn streams(&self) -> u64 {
        u64::try_from(self.0.clients.streams.len()).unwrap_or(u64::MAX)
    }

    fn shed(&self, shed: Shed) {
        let context = &self.0;
        let now = context.server.clock.now();
        let moved = context
            .clients
            .streams
            .shed(now, shed.streams, shed.older_than);
        for _ in 0..moved {
            context.server.metrics.moved("balance");
        }
    }

    fn nacked_notify(&self) -> &Notify {
        self.0.rollback.nacked_notify()
    }

    fn set_rollbacks(&self, decisions: &[(Segment, Decision)]) {
        let now = self.0.server.clock.now();
        let decisions = decisions.iter();
        let rolled_back = decisions.flat_map(|(_, decision)| rolled_back(now, decision));
        self.0.rollback.set_of_fleet(rolled_back.collect());
    }
}

/// Returns the resources that a decision of all replicas rolls back, from now on.
fn rolled_back(now: Instant, decision: &Decision) -> impl Iterator<Item = RolledBack> {
    let first = decision.parts.iter().find(|part| part.version.is_some());
    let first = first.map(|part| (part.place.resource_type.clone(), part.place.name.clone()));
    decision.parts.iter().map(move |part| {
        let place = &part.place;
        let itself = || (place.resource_type.clone(), place.name.clone());
        RolledBack {
            key: RollbackKey {
                resource_type: place.resource_type.clone(),
                name: place.name.clone(),
                group: place.group.as_ref().map(Segment::shared),
            },
            stored: None,
            version: part.version,
            last_good: part.good.clone(),
            nacked: first.clone().unwrap_or_else(itself),
            nacked_by: Vec::new(),
            nodes: decision.nodes,
            reason: decision.reason.as_str().into(),
            at: now,
        }
    })
}

/// Returns a change by its places; `None` if a group has a name that no key has.
fn trial(on_trial: OnTrial) -> Option<Trial> {
    let parts = on_trial.parts.into_iter().map(|part| {
        let group = part.key.group.as_deref().map(Segment::group).transpose();
        Some(TrialPart {
            place: Place {
                group: group.ok()?,
                resource_type: part.key.resource_type,
                name: part.key.name,
            },
            stored: part.stored,
            good: part.last_good,
        })
    });
    Some(Trial {
        parts: parts.collect::<Option<_>>()?,
        nodes: NackingNodes::of(on_trial.nodes.iter().map(|id| &**id)),
        reason: on_trial.reason.unwrap_or_else(|| "".into()),
    })
}
