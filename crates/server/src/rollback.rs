//! Rollback of changes that clients reject (S-80): the driver of [`oxds_core::rollback`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::group::GroupUpdate;
use oxds_core::rollback::{NackedVersion, Rollback, RollbackKey, RolledBack};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};
use tracing::warn;

use crate::cache::Cache;
use crate::discovery::{Clients, ReportedNack};
use crate::metrics::Metrics;

/// Reaction to NACKs of a change that came from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNack {
    /// Keep the change: clients that reject it keep their last accepted version, new clients get the change.
    #[default]
    Keep,
    /// Serve the version again that all clients had accepted, until the store changes the resource once more (S-80).
    Rollback {
        /// Number of nodes that may reject the change without a rollback. With 0, the first NACK is enough.
        threshold: usize,
    },
}

/// The rollback policy and its state.
#[derive(Debug)]
pub(crate) struct RollbackDriver {
    /// State machine of the rollback; `None` with [`OnNack::Keep`].
    machine: Option<Mutex<Rollback>>,
    cache: Cache,
    metrics: Arc<Metrics>,
}

/// A store update after review: without the changes that were rolled back before.
pub(crate) struct Review<'a> {
    pub(crate) changes: ChangeSet,
    pub(crate) groups: Vec<GroupUpdate>,
    /// Prevents rollbacks. Drop it after the cache has the update, so that no rollback is overwritten.
    pub(crate) lock: Option<MutexGuard<'a, Rollback>>,
}

impl RollbackDriver {
    pub(crate) fn new(policy: OnNack, cache: Cache, metrics: Arc<Metrics>) -> Self {
        let machine = match policy {
            OnNack::Keep => None,
            OnNack::Rollback { threshold } => Some(Mutex::new(Rollback::new(threshold))),
        };
        Self {
            machine,
            cache,
            metrics,
        }
    }

    /// Removes from a store update what clients rejected before, and puts the rest on trial.
    pub(crate) fn review(
        &self,
        clients: &Clients,
        mut changes: ChangeSet,
        mut groups: Vec<GroupUpdate>,
    ) -> Review<'_> {
        let lock = self.machine.as_ref().map(|machine| {
            // Before the machine is locked: a stream that reports a NACK locks its session first.
            let accepted = Accepted::of(&self.cache, clients, &changes, &groups);
            let mut machine = lock(machine);
            let served = |key: &RollbackKey| served(&self.cache, key);
            let is_accepted = |old: &Resource| accepted.has(old);
            let of_all = std::mem::take(&mut changes);
            changes = machine.handle_changes(None, of_all, served, is_accepted);
            for group in &mut groups {
                let of_group = std::mem::take(&mut group.changes);
                let name = Some(&group.name);
                group.changes = machine.handle_changes(name, of_group, served, is_accepted);
            }
            machine
        });
        Review {
            changes,
            groups,
            lock,
        }
    }

    /// Handles the NACK of a client, and rolls back what too many nodes have rejected. The caller must not hold the lock
    /// of a session: the rollback publishes a new snapshot.
    pub(crate) fn nacked(&self, now: Instant, node: &str, nacked: &[ReportedNack]) {
        let Some(machine) = self.machine.as_ref().filter(|_| !nacked.is_empty()) else {
            return;
        };
        let mut machine = lock(machine);
        let rolled_back = nacked.iter().flat_map(|nacked| {
            let nack = NackedVersion {
                node,
                resource_type: &nacked.resource_type,
                name: &nacked.name,
                version: nacked.resource.version,
                reason: &nacked.resource.reason,
            };
            machine.handle_nack(now, nack)
        });
        let (mut changes, mut groups) = (ChangeSet::default(), Vec::new());
        for one in rolled_back {
            self.report(&one);
            match one.key.group {
                None => changes.upserts.push(one.last_good),
                Some(name) => {
                    let changes = ChangeSet::default().put(one.last_good);
                    groups.push(GroupUpdate::of_resources(name, changes));
                }
            }
        }
        if !changes.is_empty() || !groups.is_empty() {
            self.cache.update(changes, groups);
        }
    }

    fn report(&self, one: &RolledBack) {
        let (resource_type, name) = (&one.key.resource_type, &*one.key.name);
        let (version, returned_to) = (one.nacked.version(), one.last_good.version());
        let (group, nodes) = (one.key.group.as_deref(), &one.nacked_by);
        let reason = &*one.reason;
        warn!(%resource_type, name, group, %version, %returned_to, ?nodes, reason, "change rolled back");
        self.metrics.rolled_back(resource_type);
    }

    /// Returns every change that is rolled back now.
    pub(crate) fn rolled_back(&self) -> Vec<RolledBack> {
        let machine = self.machine.iter();
        machine
            .flat_map(|machine| lock(machine).rolled_back().collect::<Vec<_>>())
            .collect()
    }
}

fn served(cache: &Cache, key: &RollbackKey) -> Option<Arc<Resource>> {
    match &key.group {
        None => cache.snapshot().get(&key.resource_type, &key.name).cloned(),
        Some(group) => cache.of_group(group, &key.resource_type, &key.name),
    }
}

fn lock(machine: &Mutex<Rollback>) -> MutexGuard<'_, Rollback> {
    // Each call of the machine leaves a complete state, so poisoning does not matter.
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For each version that the update replaces: whether every client that sees it has accepted it.
#[derive(Debug, Default)]
struct Accepted(HashMap<(ResourceType, Arc<str>, Version), Tally>);

#[derive(Debug, Default)]
struct Tally {
    /// Some client sees the version.
    seen: bool,
    /// Some client that sees it has not accepted it.
    lacking: bool,
}

impl Accepted {
    fn of(cache: &Cache, clients: &Clients, changes: &ChangeSet, groups: &[GroupUpdate]) -> Self {
        let of_groups = groups
            .iter()
            .map(|group| (Some(&group.name), &group.changes));
        let mut tallies = HashMap::new();
        for (group, changes) in of_groups.chain([(None, changes)]) {
            for new in &changes.upserts {
                let key = RollbackKey {
                    group: group.cloned(),
                    resource_type: new.resource_type().clone(),
                    name: Arc::clone(new.name()),
                };
                if let Some(old) = served(cache, &key) {
                    let key = (key.resource_type, key.name, old.version());
                    tallies.insert(key, Tally::default());
                }
            }
        }
        if tallies.is_empty() {
            return Self::default();
        }
        clients.each(cache, |client, snapshot| {
            // A client in sync lacks nothing; it only shows that somebody sees the resource.
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
