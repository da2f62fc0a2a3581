//! What make-before-break holds back from a client now, and why: the gate of S-53, to be read.

use std::sync::Arc;

use oxds_types::ResourceType;

use super::{Scope, Session, ordering::Peers, watch::Watch};
use crate::{
    snapshot::{Resource, Snapshot},
    time::Instant,
};

/// Something that the client is not told yet, and that it is told at the latest when
/// [`Config::hold`](super::Config::hold) is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// What would happen at the client.
    pub change: HeldChange,
    /// Of which resource; of several updates that wait together, one. `None`: of all.
    pub name: Option<Arc<str>>,
    /// What has to happen first. `None`: nothing any more, it goes with the next response.
    pub waits_for: Option<WaitsFor>,
    /// Since when.
    pub since: Instant,
}

/// What is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldChange {
    /// New or changed resources.
    Update,
    /// The removal of a resource.
    Removal,
    /// The first answer to a client that has come back, as it would take something away.
    Answer,
}

/// What an update needs, or who needs what is to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitsFor {
    /// The kind.
    pub resource_type: ResourceType,
    /// The resource: one that the client has not accepted yet, where an update waits; one that the client has and that
    /// refers to what goes, where a removal waits. `None`: whatever the client is told of the kind first.
    pub name: Option<Arc<str>>,
}

impl HeldChange {
    /// As tools write it: `update`, `removal`, `answer`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Removal => "removal",
            Self::Answer => "answer",
        }
    }
}

impl WaitsFor {
    pub(super) fn resource(resource_type: &ResourceType, name: &Arc<str>) -> Self {
        Self {
            resource_type: resource_type.clone(),
            name: Some(Arc::clone(name)),
        }
    }

    pub(super) fn resource_type(resource_type: &ResourceType) -> Self {
        Self {
            resource_type: resource_type.clone(),
            name: None,
        }
    }
}

impl Session {
    /// What is held back of a kind, given what is served now; [`KindStatus::held`](super::KindStatus::held) says how
    /// much that is. The cause of each is found when it is asked for.
    pub fn held_back<'a>(
        &'a self,
        resource_type: &ResourceType,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = HeldBack> + use<'a> {
        let at = self
            .watches
            .iter()
            .position(|watch| watch.resource_type == *resource_type);
        let held = at.and_then(|at| {
            let (watch, peers) = self.among(at, snapshot)?;
            Some(watch.held_back(peers))
        });
        held.into_iter().flatten()
    }

    /// A watch, and the others as it sees them.
    fn among<'a>(&'a self, at: usize, snapshot: &'a Snapshot) -> Option<(&'a Watch, Peers<'a>)> {
        let (before, rest) = self.watches.split_at_checked(at)?;
        let (watch, after) = rest.split_first()?;
        let peers = Peers {
            before,
            after,
            snapshot,
            aggregated: self.scope == Scope::Aggregated,
        };
        Some((watch, peers))
    }
}

impl Watch {
    fn held_back<'a>(&'a self, peers: Peers<'a>) -> impl Iterator<Item = HeldBack> + use<'a> {
        let update = self.held_update(&peers).into_iter();
        let answer = self.held_answer(&peers).into_iter();
        let removals = self.removals_held().map(move |(resource, patience)| {
            let name = resource.name();
            let by_name = || WaitsFor::resource(&self.resource_type, name);
            let lets_go = || self.lets_go_itself(name, &peers).then(by_name);
            HeldBack {
                change: HeldChange::Removal,
                name: Some(Arc::clone(name)),
                waits_for: peers.user(&self.resource_type, name).or_else(lets_go),
                since: patience.began(),
            }
        });
        let departed = self.departed_held().into_iter();
        let departed = departed.flat_map(move |(names, patience)| {
            names.iter().map(move |name| HeldBack {
                change: HeldChange::Removal,
                name: Some(Arc::clone(name)),
                waits_for: self.may_need(name, &peers),
                since: patience.began(),
            })
        });
        answer.chain(update).chain(removals).chain(departed)
    }

    fn held_update(&self, peers: &Peers<'_>) -> Option<HeldBack> {
        let patience = self.blocked_since()?;
        let lacking = |resource: &Arc<Resource>| {
            let needed = peers.lacking(resource)?;
            Some((Arc::clone(resource.name()), needed))
        };
        let (name, needed) = self.first_update(peers, lacking).unzip();
        Some(HeldBack {
            change: HeldChange::Update,
            name,
            waits_for: needed,
            since: patience.began(),
        })
    }

    fn held_answer(&self, peers: &Peers<'_>) -> Option<HeldBack> {
        Some(HeldBack {
            change: HeldChange::Answer,
            name: None,
            waits_for: peers.unanswered_user(),
            since: self.withheld_since()?.began(),
        })
    }
}
