//! What the server does when clients refuse a change (S-80): the driver of [`oxds_core::rollback`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::group::GroupUpdate;
use oxds_core::rollback::{RollbackKey, NackedVersion, Rollback, RolledBack};
use oxds_core::session::NackedResource;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::{ResourceType, Version};
use tracing::warn;

use crate::ads::Context;
use crate::cache::Cache;
use crate::clients;

/// What to do when clients refuse a change of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNack {
    /// Go on serving it: clients keep what they had, and whoever comes gets the change.
    #[default]
    Keep,
    /// Serve again what all clients had accepted before, until the store changes the resource once more (S-80).
    Rollback {
        /// How many nodes may refuse it before that; with zero, the first refusal is enough.
        threshold: usize,
    },
}

/// The policy, with all it has to remember.
#[derive(Debug, Default)]
pub(crate) struct Reaction(Option<Mutex<Rollback>>);

/// What a client refused.
pub(crate) struct Rejected {
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) rejection: NackedResource,
}

impl Reaction {
    pub(crate) fn new(policy: OnNack) -> Self {
        Self(match policy {
            OnNack::Keep => None,
            OnNack::Rollback { threshold } => Some(Mutex::new(Rollback::new(threshold))),
        })
    }

    /// Serves what the store changes, as far as it was not refused before.
    pub(crate) fn update(
        &self,
        context: &Context,
        mut changes: ChangeSet,
        mut groups: Vec<GroupUpdate>,
    ) {
        if let Some(machine) = &self.0 {
            // Before the machine is locked: whoever refuses something holds its session's lock.
            let accepted = Accepted::of(context, &changes, &groups);
            let mut machine = lock(machine);
            let served = |place: &RollbackKey| served(&context.cache, place);
            let is_accepted = |old: &Resource| accepted.has(old);
            changes = machine.handle_changes(None, changes, served, is_accepted);
            for group in &mut groups {
                let of_group = std::mem::take(&mut group.changes);
                let name = Some(&group.name);
                group.changes = machine.handle_changes(name, of_group, served, is_accepted);
            }
            // Under the lock: what is withdrawn meanwhile must not be overtaken.
            context.cache.update(changes, groups);
        } else {
            context.cache.update(changes, groups);
        }
    }

    /// A client refused something. No session may be locked by the caller.
    pub(crate) fn refused(&self, context: &Context, node: &str, refused: &[Rejected]) {
        let Some(machine) = self.0.as_ref().filter(|_| !refused.is_empty()) else {
            return;
        };
        let mut machine = lock(machine);
        let now = context.clock.now();
        let withdrawn = refused.iter().flat_map(|refused| {
            let refusal = NackedVersion {
                node,
                resource_type: &refused.resource_type,
                name: &refused.name,
                version: refused.rejection.version,
                reason: &refused.rejection.reason,
            };
            machine.handle_nack(now, refusal)
        });
        let (mut changes, mut groups) = (ChangeSet::default(), Vec::new());
        for one in withdrawn {
            let (resource_type, name) = (&one.key.resource_type, &one.key.name);
            let (version, returned_to) = (one.nacked.version(), one.last_good.version());
            let (group, nodes) = (one.key.group.as_deref(), &one.nacked_by);
            let reason = &*one.reason;
            warn!(%resource_type, name = &**name, group, %version, %returned_to, ?nodes, reason, "taken back: clients refused it");
            context.metrics.taken_back(resource_type);
            match one.key.group {
                None => changes.upserts.push(one.last_good),
                Some(name) => {
                    let changes = ChangeSet::default().put(one.last_good);
                    groups.push(GroupUpdate::of_resources(name, changes));
                }
            }
        }
        if !changes.is_empty() || !groups.is_empty() {
            context.cache.update(changes, groups);
        }
    }

    /// All that is taken back now.
    pub(crate) fn withdrawn(&self) -> Vec<RolledBack> {
        let machine = self.0.iter();
        machine
            .flat_map(|machine| lock(machine).rolled_back().collect::<Vec<_>>())
            .collect()
    }
}

fn served(cache: &Cache, place: &RollbackKey) -> Option<Arc<Resource>> {
    match &place.group {
        None => cache
            .snapshot()
            .get(&place.resource_type, &place.name)
            .cloned(),
        Some(group) => cache.of_group(group, &place.resource_type, &place.name),
    }
}

fn lock(machine: &Mutex<Rollback>) -> MutexGuard<'_, Rollback> {
    // Each change is complete in itself, so a panic leaves nothing torn.
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of the versions that are about to be replaced were accepted by every client that sees them.
#[derive(Debug, Default)]
struct Accepted(HashMap<(ResourceType, Arc<str>, Version), Tally>);

#[derive(Debug, Default)]
struct Tally {
    /// Somebody sees it.
    seen: bool,
    /// Somebody who sees it has not accepted it.
    lacking: bool,
}

impl Accepted {
    fn of(context: &Context, changes: &ChangeSet, groups: &[GroupUpdate]) -> Self {
        let of_groups = groups
            .iter()
            .map(|group| (Some(&group.name), &group.changes));
        let mut tallies = HashMap::new();
        for (group, changes) in of_groups.chain([(None, changes)]) {
            for new in &changes.upserts {
                let place = RollbackKey {
                    group: group.cloned(),
                    resource_type: new.resource_type().clone(),
                    name: Arc::clone(new.name()),
                };
                if let Some(old) = served(&context.cache, &place) {
                    let key = (place.resource_type, place.name, old.version());
                    tallies.insert(key, Tally::default());
                }
            }
        }
        if tallies.is_empty() {
            return Self::default();
        }
        clients::each(context, |_, client, snapshot| {
            // Of one that has accepted all, all there is to know is that it is there.
            let in_sync = client.is_in_sync(snapshot);
            for ((resource_type, name, version), tally) in &mut tallies {
                if tally.lacking || in_sync && tally.seen {
                    continue;
                }
                let sees = snapshot
                    .get(resource_type, name)
                    .map(|served| served.version());
                if sees == Some(*version)
                    && let Some(status) = client.resource(resource_type, name)
                {
                    tally.seen = true;
                    tally.lacking = status.acked != Some(*version);
                }
            }
        });
        Self(tallies)
    }

    fn has(&self, old: &Resource) -> bool {
        let key = (
            old.resource_type().clone(),
            Arc::clone(old.name()),
            old.version(),
        );
        self.0
            .get(&key)
            .is_some_and(|tally| tally.seen && !tally.lacking)
    }
}
