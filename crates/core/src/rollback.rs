//! What to do when clients refuse a change: go back to what all of them had accepted (S-80).
//!
//! ```text
//!              the store changes it,                more nodes than the threshold
//!              all had accepted the old             refuse it
//!   (nothing) ──────────────────────────▶ on trial ─────────────────────────────▶ rolled_back
//!       ▲                                  │  ▲                                       │
//!       │ removed, or as it was before     │  │ the store changes it once more        │
//!       └──────────────────────────────────┴──┴───────────────────────────────────────┘
//! ```
//!
//! A resource is put on trial when it changes and there is a version that every client which should have had it had
//! accepted: that is what it returns to. One that is new, or that not all had accepted when it was replaced, has none;
//! then what an earlier trial would have returned to stays, or nothing is done.
//!
//! Memory: for each resource that changed, the former content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::snapshot::{ChangeSet, Resource};
use crate::time::Instant;

/// Whose resource: of all nodes (`None`) or of a group, and its kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollbackKey {
    /// The group, if it is not for all.
    pub group: Option<Arc<str>>,
    /// The kind.
    pub resource_type: ResourceType,
    /// The name.
    pub name: Arc<str>,
}

/// The decisions. Its driver keeps what is served.
#[derive(Debug)]
pub struct Rollback {
    threshold: usize,
    trials: BTreeMap<RollbackKey, Trial>,
}

/// A change that clients may refuse.
#[derive(Debug, Clone)]
struct Trial {
    last_good: Arc<Resource>,
    nacked: Arc<Resource>,
    nacked_by: BTreeSet<Arc<str>>,
    rolled_back: Option<RollbackCause>,
}

#[derive(Debug, Clone)]
struct RollbackCause {
    reason: Arc<str>,
    at: Instant,
}

/// What a client refused.
#[derive(Debug, Clone, Copy)]
pub struct NackedVersion<'a> {
    /// `node.id` of the client.
    pub node: &'a str,
    /// The kind of the resource.
    pub resource_type: &'a ResourceType,
    /// Its name.
    pub name: &'a str,
    /// The version of the content.
    pub version: Version,
    /// What the client said.
    pub reason: &'a Arc<str>,
}

/// A change that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Of what.
    pub key: RollbackKey,
    /// What the store has, and clients refused.
    pub nacked: Arc<Resource>,
    /// What is served instead.
    pub last_good: Arc<Resource>,
    /// The nodes that refused it.
    pub nacked_by: Vec<Arc<str>>,
    /// What the last of them said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

impl Rollback {
    /// Takes a change back when more nodes than this refuse it: with zero, the first is enough.
    #[must_use]
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold,
            trials: BTreeMap::new(),
        }
    }

    /// The store changes resources of all nodes, or of a group. What of it is to be served.
    ///
    /// `served` says what is served in a key now, `accepted` whether every client that should have that has accepted
    /// it, and there is one.
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
        // A resource that is in both is there afterwards.
        let stay: BTreeSet<_> = upserts
            .iter()
            .map(|r| key(r.resource_type(), r.name()))
            .collect();
        for (resource_type, name) in &removals {
            let key = key(resource_type, name);
            if !stay.contains(&key) {
                self.trials.remove(&key);
            }
        }
        upserts.retain(|new| {
            self.offer(
                key(new.resource_type(), new.name()),
                new,
                &served,
                &accepted,
            )
        });
        ChangeSet { upserts, removals }
    }

    /// Whether to serve it.
    fn offer(
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
            // The store repeats itself: that is no change to be tried anew.
            Some(trial) if trial.rolled_back.is_some() && trial.nacked == *new => {
                self.trials.insert(key, trial);
                return false;
            }
            Some(trial) if trial.rolled_back.is_some() => Some(trial.last_good),
            Some(trial) if trial.nacked == *new => {
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
                nacked: Arc::clone(new),
                nacked_by: BTreeSet::new(),
                rolled_back: None,
            };
            self.trials.insert(key, trial);
        }
        true
    }

    /// A client refused a resource. What is to be taken back for that: in each key, `last_good` is to be served again.
    pub fn handle_nack(&mut self, now: Instant, nack: NackedVersion<'_>) -> Vec<RolledBack> {
        let mut rolled_back = Vec::new();
        for (key, trial) in &mut self.trials {
            let is_it = *key.name == *nack.name
                && key.resource_type == *nack.resource_type
                && trial.nacked.version() == nack.version;
            if !is_it || trial.rolled_back.is_some() {
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

    /// All that is taken back now.
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
            nacked: Arc::clone(&self.nacked),
            last_good: Arc::clone(&self.last_good),
            nacked_by: self.nacked_by.iter().cloned().collect(),
            reason: Arc::clone(&cause.reason),
            at: cause.at,
        })
    }
}
