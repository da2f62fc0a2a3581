//! Rollback of changes that clients reject (S-80): the driver of [`oxds_core::rollback`].
//!
//! ```text
//!  store ──▶ review ──▶ cache            NACK of a stream or poll ──▶ machine ──▶ cache
//!              │  ▲                                                     │
//!              ▼  │ first update                                        ▼
//!            machine ◀──────────────────── state file ◀──────────── save task
//! ```

mod accepted;
mod state_file;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::group::GroupUpdate;
#[cfg(feature = "etcd")]
use oxds_core::rollback::{Acceptance, OnTrial, RollbackKey, Served as _};
use oxds_core::rollback::{NackedVersion, Rollback, RolledBack, SavedRollback, StoreChanges};
use oxds_core::rollout::RolloutSource;
use oxds_core::snapshot::ChangeSet;
#[cfg(feature = "etcd")]
use oxds_core::snapshot::Resource;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::cache::Cache;
use crate::calls::Clock;
use crate::clients::{Clients, ReportedNack};
use crate::metrics::Metrics;
use accepted::Accepted;
use state_file::StateFile;

/// Reaction to NACKs of a change that came from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnNack {
    /// Keep the change: clients that reject it keep their last accepted version, new clients get the change.
    #[default]
    Keep,
    /// Serve the version again that all clients had accepted, until the store changes the resource once more (S-80).
    ///
    /// Only what a client is known to reject counts: a resource that its NACK names, or that was found by sending the
    /// resources of a NACKed response in smaller parts. What the same update of the store changed in resources that
    /// refer to the rejected one, directly or not, is rolled back with it.
    Rollback {
        /// Number of nodes that may reject the change without a rollback. With 0, the first NACK is enough.
        threshold: usize,
    },
}

/// The file that keeps rollbacks over a restart.
#[derive(Debug)]
pub(crate) struct RollbackFile {
    pub(crate) path: PathBuf,
    /// Whether it has rollbacks of secrets. Otherwise these end with the process.
    pub(crate) keeps_secrets: bool,
}

/// The rollback policy and its state.
#[derive(Debug)]
pub(crate) struct RollbackDriver {
    /// State machine of the rollback; `None` with [`OnNack::Keep`].
    machine: Option<Mutex<Rollback>>,
    cache: Cache,
    metrics: Arc<Metrics>,
    clock: Clock,
    file: Option<StateFile>,
    /// Whether the file may have secrets.
    keeps_secrets: bool,
    /// Rollbacks that the replicas of the store have decided together.
    of_fleet: Mutex<Vec<RolledBack>>,
    /// Notified when the file is out of date.
    outdated: Notify,
    /// Threshold of a store that decides about rollbacks with others; `None` if this server decides, or nothing is
    /// rolled back.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    shared_threshold: Option<usize>,
    /// Notified when nodes NACK a change on trial.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    has_nacks: Notify,
}

/// A store update after review: without the changes that were rolled back before.
pub(crate) struct Review<'a> {
    pub(crate) changes: ChangeSet,
    pub(crate) groups: Vec<GroupUpdate>,
    /// Prevents rollbacks. Drop it after the cache has the update, so that no rollback is overwritten.
    pub(crate) lock: Option<MutexGuard<'a, Rollback>>,
}

impl RollbackDriver {
    /// Makes the driver, which continues the rollbacks in the file. `shared`: the store decides about rollbacks, and
    /// keeps them.
    pub(crate) fn new(
        policy: OnNack,
        shared: bool,
        file: Option<RollbackFile>,
        cache: Cache,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        let keeps_secrets = file.as_ref().is_some_and(|file| file.keeps_secrets);
        let file = file.map(|file| StateFile::new(file.path));
        let mut shared_threshold = None;
        let machine = match policy {
            OnNack::Keep => None,
            OnNack::Rollback { threshold } if shared => {
                shared_threshold = Some(threshold);
                Some(Mutex::new(Rollback::new(usize::MAX)))
            }
            OnNack::Rollback { threshold } => {
                let mut machine = Rollback::new(threshold);
                machine.restore(read(file.as_ref(), clock));
                Some(Mutex::new(machine))
            }
        };
        Self {
            file: file.filter(|_| machine.is_some() && !shared),
            machine,
            cache,
            metrics,
            clock,
            keeps_secrets,
            of_fleet: Mutex::default(),
            outdated: Notify::new(),
            shared_threshold,
            has_nacks: Notify::new(),
        }
    }

    /// Removes from a store update what clients rejected before, and puts the rest on trial.
    pub(crate) fn review(
        &self,
        clients: &Clients,
        changes: ChangeSet,
        groups: Vec<GroupUpdate>,
    ) -> Review<'_> {
        let Some(machine) = &self.machine else {
            return Review {
                changes,
                groups,
                lock: None,
            };
        };
        let mut definitions = Vec::new();
        let mut update = vec![StoreChanges {
            group: None,
            changes,
        }];
        for group in groups {
            let (name, changes) = (Some(Arc::clone(&group.name)), group.changes);
            update.push(StoreChanges {
                group: name,
                changes,
            });
            definitions.push((group.name, group.definition));
        }
        let keys = lock(machine).touched(&update);
        // Not locked: a stream that reports a NACK locks its session first. Only this task changes what an update
        // touches.
        let accepted = Accepted::of(&self.cache, clients, keys);
        let mut lock = lock(machine);
        let mut admitted = lock.handle_update(update, &accepted).into_iter();
        let changes = admitted.next().unwrap_or_default().changes;
        let mut definitions = definitions.into_iter();
        let groups =
            admitted.filter_map(|StoreChanges { group, changes }| match definitions.next() {
                Some((name, definition)) => Some(GroupUpdate {
                    name,
                    definition,
                    changes,
                }),
                None => Some(GroupUpdate::of_resources(group?, changes)),
            });
        let groups = groups.collect();
        self.outdated.notify_one();
        Review {
            changes,
            groups,
            lock: Some(lock),
        }
    }

    /// Handles the NACK of a client, and rolls back what too many nodes have rejected. The caller must not hold the
    /// lock of a session: the rollback publishes a new snapshot.
    pub(crate) fn nacked(&self, now: Instant, node: &str, nacked: &[ReportedNack]) {
        let Some(machine) = self.machine.as_ref().filter(|_| !nacked.is_empty()) else {
            return;
        };
        let mut machine = lock(machine);
        // A removal has no content that another one could replace.
        let contents = nacked.iter().filter(|nacked| !nacked.resource.removal);
        let rolled_back = contents.flat_map(|nacked| {
            let nack = NackedVersion {
                node,
                resource_type: &nacked.resource_type,
                name: &nacked.name,
                version: nacked.resource.version,
                reason: &nacked.resource.reason,
            };
            machine.handle_nack(now, nack)
        });
        let rolled_back: Vec<RolledBack> = rolled_back.collect();
        self.has_nacks.notify_one();
        let mut update: Vec<StoreChanges> = Vec::new();
        for one in rolled_back {
            self.report(&one);
            let of_group = update.iter().position(|known| known.group == one.key.group);
            let at = of_group.unwrap_or_else(|| {
                update.push(StoreChanges {
                    group: one.key.group.clone(),
                    changes: ChangeSet::default(),
                });
                update.len() - 1
            });
            let Some(StoreChanges { changes, .. }) = update.get_mut(at) else {
                continue;
            };
            match one.last_good {
                Some(last_good) => changes.upserts.push(last_good),
                None => changes.removals.push((one.key.resource_type, one.key.name)),
            }
        }
        if update.is_empty() {
            return;
        }
        let (mut changes, mut groups) = (ChangeSet::default(), Vec::new());
        for of_group in update {
            match of_group.group {
                None => changes = of_group.changes,
                Some(name) => groups.push(GroupUpdate::of_resources(name, of_group.changes)),
            }
        }
        let source = RolloutSource::new("rollback");
        self.cache.update_from(source, changes, groups);
        self.outdated.notify_one();
    }

    fn report(&self, one: &RolledBack) {
        let (resource_type, name) = (&one.key.resource_type, &*one.key.name);
        let version = one.version.map(|version| version.to_string());
        let last_good = one.last_good.as_ref();
        let rolled_back_to = last_good.map(|last_good| last_good.version().to_string());
        let (group, nodes, nacked_by) = (one.key.group.as_deref(), one.nodes, &one.nacked_by);
        let (nacked_type, nacked_name) = &one.nacked;
        let nacked = format!("{nacked_type} {nacked_name}");
        let reason = &*one.reason;
        warn!(%resource_type, name, group, version, rolled_back_to, nacked, nodes, ?nacked_by, reason, "change rolled back");
        self.metrics.rolled_back(resource_type);
    }

    /// Returns every resource that is rolled back now.
    pub(crate) fn rolled_back(&self) -> Vec<RolledBack> {
        let machine = self.machine.iter();
        let own = machine.flat_map(|machine| lock(machine).rolled_back().collect::<Vec<_>>());
        let of_fleet = self.fleet().clone();
        own.chain(of_fleet).collect()
    }

    /// Sets what the replicas of the store have rolled back together. A rollback that was there before keeps its time.
    #[cfg(feature = "etcd")]
    pub(crate) fn set_of_fleet(&self, mut now: Vec<RolledBack>) {
        let mut before = self.fleet();
        for one in &mut now {
            let same = |known: &&RolledBack| (&known.key, known.version) == (&one.key, one.version);
            match before.iter().find(same) {
                Some(known) => one.at = known.at,
                None => self.report(one),
            }
        }
        *before = now;
    }

    fn fleet(&self) -> MutexGuard<'_, Vec<RolledBack>> {
        // It is replaced as a whole, so poisoning does not matter.
        self.of_fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the threshold of a store that decides about rollbacks with others; `None` if this server decides, or
    /// nothing is rolled back.
    #[cfg(feature = "etcd")]
    pub(crate) fn shared_threshold(&self) -> Option<usize> {
        self.shared_threshold
    }

    /// Returns what is notified when nodes NACK a change on trial.
    #[cfg(feature = "etcd")]
    pub(crate) fn nacked_notify(&self) -> &Notify {
        &self.has_nacks
    }

    /// Returns the changes on trial that nodes NACKed.
    #[cfg(feature = "etcd")]
    pub(crate) fn nacked_trials(&self) -> Vec<OnTrial> {
        let machine = self.machine.iter();
        machine
            .flat_map(|machine| lock(machine).nacked().collect::<Vec<_>>())
            .collect()
    }

    /// Returns the change on trial that a resource is a part of.
    #[cfg(feature = "etcd")]
    pub(crate) fn on_trial(&self, key: &RollbackKey) -> Option<OnTrial> {
        lock(self.machine.as_ref()?).on_trial(key)
    }

    /// Returns the resource that is served, and what the clients made of it. It reads the sessions of all clients.
    #[cfg(feature = "etcd")]
    pub(crate) fn accepted(
        &self,
        clients: &Clients,
        key: &RollbackKey,
    ) -> Option<(Arc<Resource>, Acceptance)> {
        let accepted = Accepted::of(&self.cache, clients, [key.clone()].into());
        Some((accepted.served(key)?, accepted.acceptance(key)))
    }

    /// Returns the rollbacks that the file has.
    fn kept(&self, machine: &Mutex<Rollback>) -> Vec<SavedRollback> {
        let machine = lock(machine);
        let saved = machine.saved();
        let kept = saved.filter(|rollback| self.keeps_secrets || !has_secret(rollback));
        kept.collect()
    }

    /// Keeps the state file up to date until the server shuts down. An error is logged, and the next change tries
    /// again.
    pub(crate) async fn save(&self, closing: &CancellationToken) {
        let Some((machine, file)) = self.machine.as_ref().zip(self.file.as_ref()) else {
            return;
        };
        let mut written = self.kept(machine);
        loop {
            let closed = tokio::select! {
                () = self.outdated.notified() => false,
                () = closing.cancelled() => true,
            };
            let saved = self.kept(machine);
            if saved != written && write(file, saved.clone(), self.clock.now()).await {
                written = saved;
            }
            if closed {
                return;
            }
        }
    }
}

/// Whether a secret was rolled back, alone or with others.
fn has_secret(rollback: &SavedRollback) -> bool {
    let mut types = rollback.parts.iter().map(|part| &part.key.resource_type);
    types.any(|of| *of == ResourceType::SECRET)
}

fn read(file: Option<&StateFile>, clock: Clock) -> Vec<SavedRollback> {
    let Some(file) = file else { return Vec::new() };
    match file.read(clock.now()) {
        Ok(saved) => {
            if !saved.is_empty() {
                let file = file.path().display();
                info!(%file, rollbacks = saved.len(), "rollbacks of an earlier process read");
            }
            saved
        }
        Err(error) => {
            error!(%error, "rollbacks of an earlier process are unknown");
            Vec::new()
        }
    }
}

/// Writes the file. Returns whether it is written.
async fn write(file: &StateFile, saved: Vec<SavedRollback>, now: Instant) -> bool {
    let file = file.clone();
    let written = tokio::task::spawn_blocking(move || file.write(&saved, now)).await;
    match written {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            error!(%error, "rollbacks not saved: they end when the server is restarted");
            false
        }
        // The runtime shuts down.
        Err(_) => false,
    }
}

fn lock(machine: &Mutex<Rollback>) -> MutexGuard<'_, Rollback> {
    // Each call of the machine leaves a complete state, so poisoning does not matter.
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use oxds_core::rollback::{RollbackKey, SavedPart};

    use super::*;

    #[test]
    fn g25_rollback_with_a_secret_is_known() {
        let part = |resource_type: &ResourceType| SavedPart {
            key: RollbackKey {
                resource_type: resource_type.clone(),
                name: "a".into(),
                group: None,
            },
            stored: None,
            last_good: None,
        };
        let rollback = |types: &[ResourceType]| SavedRollback {
            parts: types.iter().map(part).collect(),
            nacked: (ResourceType::CLUSTER, "a".into()),
            nacked_by: Vec::new(),
            reason: "no".into(),
            at: Instant::EPOCH,
        };
        let (cds, sds) = (ResourceType::CLUSTER, ResourceType::SECRET);
        assert!(has_secret(&rollback(&[cds.clone(), sds])));
        assert!(!has_secret(&rollback(&[cds])));
    }
}
