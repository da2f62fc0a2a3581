//! Rollback: when clients NACK a change, the version that all of them had accepted is served again (S-80).
//!
//! ```text
//!              the store changes it,                 more nodes than the threshold
//!              all clients had ACKed the old one     NACK it
//!   (nothing) ──────────────────────────▶ on trial ─────────────────────────────▶ rolled back
//!       ▲                                  │  ▲                                       │
//!       │ removed, or as it was before     │  │ the store changes it again            │
//!       └──────────────────────────────────┴──┴───────────────────────────────────────┘
//! ```
//!
//! A changed resource is on trial if every client that should have its old version had ACKed that version: this is the version
//! to return to. A new resource has no such version, nor has one whose old version was not ACKed by all; then the version of an
//! earlier trial is kept, or nothing is rolled back.
//!
//! Memory: the old content of each resource that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::snapshot::{ChangeSet, Resource};
use crate::time::Instant;

/// Key of a resource: group, type and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollbackKey {
    /// The group; `None` for a resource that all nodes see.
    pub group: Option<Arc<str>>,
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource.
    pub name: Arc<str>,
}

/// State machine that decides about rollbacks. Its driver has the resources that are served.
#[derive(Debug)]
pub struct Rollback {
    threshold: usize,
    trials: BTreeMap<RollbackKey, Trial>,
}

/// A change that clients may NACK.
#[derive(Debug, Clone)]
struct Trial {
    last_good: Arc<Resource>,
    changed: Arc<Resource>,
    nacked_by: BTreeSet<Arc<str>>,
    rolled_back: Option<RollbackCause>,
}

#[derive(Debug, Clone)]
struct RollbackCause {
    reason: Arc<str>,
    at: Instant,
}

/// A version of a resource that a client NACKed.
#[derive(Debug, Clone, Copy)]
pub struct NackedVersion<'a> {
    /// `node.id` of the client.
    pub node: &'a str,
    /// Type of the resource.
    pub resource_type: &'a ResourceType,
    /// Name of the resource.
    pub name: &'a str,
    /// Version of the content.
    pub version: Version,
    /// Error message of the NACK.
    pub reason: &'a Arc<str>,
}

/// A change that was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Key of the resource.
    pub key: RollbackKey,
    /// The resource in the store, which clients NACKed.
    pub nacked: Arc<Resource>,
    /// The resource that is served instead.
    pub last_good: Arc<Resource>,
    /// `node.id` of each client that NACKed it.
    pub nacked_by: Vec<Arc<str>>,
    /// Error message of the NACK that caused the rollback.
    pub reason: Arc<str>,
    /// Time of the rollback.
    pub at: Instant,
}

impl Rollback {
    /// Makes a machine that rolls back a change when more than `threshold` nodes NACK it; with zero, the first one suffices.
    #[must_use]
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold,
            trials: BTreeMap::new(),
        }
    }

    /// Handles changes of the store for all nodes, or for a group. Returns the changes to serve.
    ///
    /// `served` returns the resource that is served for a key now. `accepted` returns whether at least one client should have a
    /// version, and all that should have it have ACKed it.
    pub fn handle_changes(
        &mut self,
        group: Option<&Arc<str>>,
        changes: ChangeSet,
        served: impl Fn(&RollbackKey) -> Option<Arc<Resource>>,
        accepted: impl Fn(&Resource) -> bool,
    ) -> ChangeSet {
        let key = |resource_type: &ResourceType, name: &Arc<str>| RollbackKey {
            group: group.cloned(),
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
        };
        let ChangeSet {
            mut upserts,
            removals,
        } = changes;
        // A resource in both upserts and removals exists afterwards (S-69).
        let upserted: BTreeSet<_> = upserts
            .iter()
            .map(|r| key(r.resource_type(), r.name()))
            .collect();
        for (resource_type, name) in &removals {
            let key = key(resource_type, name);
            if !upserted.contains(&key) {
                self.trials.remove(&key);
            }
        }
        upserts.retain(|new| {
            let key = key(new.resource_type(), new.name());
            self.handle_upsert(key, new, &served, &accepted)
        });
        ChangeSet { upserts, removals }
    }

    /// Starts, continues or ends the trial of a resource. Returns whether to serve the new version.
    fn handle_upsert(
        &mut self,
        key: RollbackKey,
        new: &Arc<Resource>,
        served: impl Fn(&RollbackKey) -> Option<Arc<Resource>>,
        accepted: impl Fn(&Resource) -> bool,
    ) -> bool {
        let before = self.trials.remove(&key);
        let Some(old) = served(&key) else {
            return true;
        };
        let last_good = match before {
            // The store repeats a version that was rolled back: that is no new change, so it stays rolled back.
            Some(trial) if trial.rolled_back.is_some() && trial.changed == *new => {
                self.trials.insert(key, trial);
                return false;
            }
            Some(trial) if trial.rolled_back.is_some() => Some(trial.last_good),
            Some(trial) if trial.changed == *new => {
                self.trials.insert(key, trial);
                return true;
            }
            _ if accepted(&old) => Some(old),
            Some(trial) => Some(trial.last_good),
            None => None,
        };
        if let Some(last_good) = last_good.filter(|last_good| last_good != new) {
            let trial = Trial {
                last_good,
                changed: Arc::clone(new),
                nacked_by: BTreeSet::new(),
                rolled_back: None,
            };
            self.trials.insert(key, trial);
        }
        true
    }

    /// Handles a NACK. Returns the changes to roll back: for each key, `last_good` must be served again.
    pub fn handle_nack(&mut self, now: Instant, nack: NackedVersion<'_>) -> Vec<RolledBack> {
        let mut rolled_back = Vec::new();
        for (key, trial) in &mut self.trials {
            let is_nacked = *key.name == *nack.name
                && key.resource_type == *nack.resource_type
                && trial.changed.version() == nack.version;
            if !is_nacked || trial.rolled_back.is_some() {
                continue;
            }
            trial.nacked_by.insert(nack.node.into());
            if trial.nacked_by.len() > self.threshold {
                trial.rolled_back = Some(RollbackCause {
                    reason: Arc::clone(nack.reason),
                    at: now,
                });
                rolled_back.extend(trial.rolled_back(key));
            }
        }
        rolled_back
    }

    /// Returns every change that is rolled back now.
    pub fn rolled_back(&self) -> impl Iterator<Item = RolledBack> {
        let trials = self.trials.iter();
        trials.filter_map(|(key, trial)| trial.rolled_back(key))
    }
}

impl Trial {
    fn rolled_back(&self, key: &RollbackKey) -> Option<RolledBack> {
        let cause = self.rolled_back.as_ref()?;
        Some(RolledBack {
            key: key.clone(),
            nacked: Arc::clone(&self.changed),
            last_good: Arc::clone(&self.last_good),
            nacked_by: self.nacked_by.iter().cloned().collect(),
            reason: Arc::clone(&cause.reason),
            at: cause.at,
        })
    }
}
