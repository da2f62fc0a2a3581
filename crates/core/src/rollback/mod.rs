//! Rollback: when clients NACK a change, the versions that all of them had accepted are served again (S-80).
//!
//! ```text
//!              the store changes it,                 more nodes than the threshold
//!              all clients had ACKed the old one     NACK a part of it
//!   (nothing) ──────────────────────────▶ on trial ─────────────────────────────▶ rolled back
//!       ▲                                  │  ▲                                       │
//!       │ as it was before                 │  │ the store changes a part once more    │
//!       └──────────────────────────────────┴──┴───────────────────────────────────────┘
//! ```
//!
//! A change is all that one update of the store changes in resources that refer to each other: a route and the cluster
//! that it needs. It is on trial, and rolled back, as a whole: changed resources return to the version that all had
//! accepted, added ones are not served any more, removed ones are served again. Resources that do not refer to each
//! other are changes of their own.
//!
//! A change is on trial if no client that should have the old version of a part lacks it: these are the versions to
//! return to. A change that only adds resources has no such version, nor has one of which a client had not ACKed an old
//! version; then the versions of an earlier trial are kept, or nothing is rolled back.
//!
//! Memory: the old content of each resource that changed.

mod change;
mod component;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::sample::SAMPLE;
use crate::snapshot::{ChangeSet, Resource};
use crate::time::Instant;
use change::{Change, Part, RollbackCause};
pub use change::{OnTrial, OnTrialPart, RollbackKey, RolledBack, SavedPart, SavedRollback};
use component::{Parts, components};

/// State machine that decides about rollbacks. Its driver has the resources that are served.
#[derive(Debug)]
pub struct Rollback {
    threshold: usize,
    changes: BTreeMap<ChangeId, Change>,
    /// The change that each resource is a part of.
    keys: BTreeMap<RollbackKey, ChangeId>,
    next: ChangeId,
    /// Rollbacks of an earlier process, until the first update shows what the store has.
    saved: Vec<SavedRollback>,
}

type ChangeId = u64;

/// Changes of the store, for all nodes or for a group.
#[derive(Debug, Clone, Default)]
pub struct StoreChanges {
    /// The group; `None` for all nodes.
    pub group: Option<Arc<str>>,
    /// The changes.
    pub changes: ChangeSet,
}

/// Acceptance of the served version of a resource by the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// At least one client should have it, and all that should have it have ACKed it.
    All,
    /// No client should have it.
    Unseen,
    /// A client that should have it has not ACKed it.
    Lacking,
}

/// Served resources, and their acceptance by clients.
pub trait Served {
    /// Returns the resource that is served for a key.
    fn served(&self, key: &RollbackKey) -> Option<Arc<Resource>>;
    /// Returns whether the clients accepted it.
    fn acceptance(&self, key: &RollbackKey) -> Acceptance;
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

/// Content of a key before and after an update; `None` is its absence.
type Contents = BTreeMap<RollbackKey, Option<Arc<Resource>>>;

impl Rollback {
    /// Makes a machine that rolls back a change when more than `threshold` nodes NACK it; with zero, the first one
    /// suffices. With `usize::MAX` it decides nothing: replicas decide together (`oxds_etcd::rollback`).
    #[must_use]
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold,
            changes: BTreeMap::new(),
            keys: BTreeMap::new(),
            next: 0,
            saved: Vec::new(),
        }
    }

    /// Continues rollbacks of an earlier process. Each goes on if the first update of the store has the same versions;
    /// the others end, and what the store has is on trial.
    pub fn restore(&mut self, saved: Vec<SavedRollback>) {
        self.saved = saved;
    }

    /// Returns the rollbacks as they are kept over a restart.
    pub fn saved(&self) -> impl Iterator<Item = SavedRollback> {
        let restored = self.saved.iter().cloned();
        restored.chain(self.changes.values().filter_map(Change::saved))
    }

    /// Returns the keys whose [`Acceptance`] decides about an update: its own, and those of changes that it touches.
    #[must_use]
    pub fn touched(&self, update: &[StoreChanges]) -> BTreeSet<RollbackKey> {
        let mut keys: BTreeSet<RollbackKey> = contents(update).into_keys().collect();
        let ids: BTreeSet<_> = keys.iter().filter_map(|key| self.keys.get(key)).collect();
        let changes = ids.into_iter().filter_map(|id| self.changes.get(id));
        keys.extend(changes.flat_map(|change| change.parts.keys().cloned()));
        keys
    }

    /// Handles an update of the store. Returns the changes to serve.
    pub fn handle_update(
        &mut self,
        update: Vec<StoreChanges>,
        served: &impl Served,
    ) -> Vec<StoreChanges> {
        let mut stored = contents(&update);
        let resumed = self.resume(&stored);
        // The store repeats what was rolled back: that is not a new change, so it stays rolled back.
        stored.retain(|key, new| {
            let known = self.part(key);
            known.is_none_or(|(change, part)| change.rolled_back.is_none() || part.stored != *new)
        });
        let touched: BTreeSet<ChangeId> = stored
            .keys()
            .filter_map(|key| self.keys.get(key).copied())
            .collect();
        let mut admitted = stored.clone();
        let (mut parts, mut joined) = (Parts::new(), Vec::new());
        for id in touched {
            let Some(change) = self.remove(id) else {
                continue;
            };
            if change.rolled_back.is_none() && is_accepted(change.parts.keys(), served) {
                continue;
            }
            // This change is superseded before it was accepted, so the next one continues it.
            joined.push(change.parts.keys().cloned().collect());
            for (key, part) in change.parts {
                let next = admitted.entry(key.clone());
                let stored = next.or_insert(part.stored).clone();
                let last_good = part.last_good;
                parts.insert(key, Part { last_good, stored });
            }
        }
        for (key, new) in stored {
            parts.entry(key.clone()).or_insert_with(|| Part {
                last_good: served.served(&key),
                stored: new,
            });
        }
        admitted.extend(resumed);
        // A rollback needs an old version, which the first update, for example, does not have.
        if parts.values().any(|part| part.last_good.is_some()) {
            let inherited: BTreeSet<RollbackKey> = joined.iter().flatten().cloned().collect();
            for component in components(parts, &joined) {
                self.begin(component, &inherited, served);
            }
        }
        debug_assert!(self.is_consistent());
        into_changes(update, admitted)
    }

    /// Puts a change on trial, if there are versions to return to.
    fn begin(&mut self, mut parts: Parts, inherited: &BTreeSet<RollbackKey>, served: &impl Served) {
        parts.retain(|_, part| !part.is_settled());
        let is_good = |(key, part): (&RollbackKey, &Part)| {
            let old = part.last_good.is_some() && !inherited.contains(key);
            !old || served.acceptance(key) != Acceptance::Lacking
        };
        let returns = |(key, part): (&RollbackKey, &Part)| {
            part.last_good.is_some()
                && (inherited.contains(key) || served.acceptance(key) == Acceptance::All)
        };
        // A removal alone has no content that a client could NACK.
        let has_content = parts.values().any(|part| part.stored.is_some());
        if has_content && parts.iter().all(is_good) && parts.iter().any(returns) {
            self.insert(Change {
                parts,
                nacked_by: BTreeSet::new(),
                reason: None,
                rolled_back: None,
            });
        }
    }

    /// Continues the saved rollbacks that the first update of the store confirms. Returns the content that is served in
    /// place of the content of the store. If the store has something else by now, that is a change on top of the one
    /// that was rolled back.
    fn resume(&mut self, stored: &Contents) -> Contents {
        let mut resumed = Contents::new();
        for saved in std::mem::take(&mut self.saved) {
            let now = |part: &SavedPart| stored.get(&part.key).cloned().flatten();
            let is_same = saved
                .parts
                .iter()
                .all(|part| match (now(part), &part.stored) {
                    (Some(now), Some(saved)) => now.version() == **saved,
                    (now, saved) => now.is_none() && saved.is_none(),
                });
            let exists = saved.parts.iter().any(|part| now(part).is_some());
            if !is_same && !exists {
                continue;
            }
            let mut parts = Parts::new();
            for part in saved.parts {
                let stored = now(&part).filter(|_| is_same);
                if is_same {
                    resumed.insert(part.key.clone(), part.last_good.clone());
                }
                let last_good = part.last_good;
                parts.insert(part.key, Part { last_good, stored });
            }
            self.insert(Change {
                parts,
                nacked_by: saved.nacked_by.into_iter().collect(),
                reason: Some(Arc::clone(&saved.reason)),
                rolled_back: Some(RollbackCause {
                    nacked: saved.nacked,
                    reason: saved.reason,
                    at: saved.at,
                }),
            });
        }
        resumed
    }

    /// Handles a NACK. Returns the resources to roll back: for each key, `last_good` must be served again, or nothing.
    pub fn handle_nack(&mut self, now: Instant, nack: NackedVersion<'_>) -> Vec<RolledBack> {
        let NackedVersion {
            resource_type,
            name,
            version,
            ..
        } = nack;
        let first = RollbackKey {
            resource_type: resource_type.clone(),
            name: name.into(),
            group: None,
        };
        let is_of = |key: &RollbackKey| key.resource_type == *resource_type && *key.name == *name;
        let keys = self.keys.range(first..).take_while(|(key, _)| is_of(key));
        let is_nacked = |(key, id): &(&RollbackKey, &ChangeId)| {
            let part = self
                .changes
                .get(id)
                .and_then(|change| change.parts.get(*key));
            let stored = part.and_then(|part| part.stored.as_ref());
            stored.is_some_and(|stored| stored.version() == version)
        };
        let ids: BTreeSet<ChangeId> = keys.filter(is_nacked).map(|(_, id)| *id).collect();
        let mut rolled_back = Vec::new();
        for id in ids {
            let Some(change) = self.changes.get_mut(&id) else {
                continue;
            };
            if change.rolled_back.is_some() {
                continue;
            }
            change.nacked_by.insert(nack.node.into());
            change.reason.get_or_insert_with(|| Arc::clone(nack.reason));
            if change.nacked_by.len() > self.threshold {
                change.rolled_back = Some(RollbackCause {
                    nacked: (resource_type.clone(), name.into()),
                    reason: Arc::clone(nack.reason),
                    at: now,
                });
                rolled_back.extend(change.rolled_back());
            }
        }
        debug_assert!(self.is_consistent());
        rolled_back
    }

    /// Whether each part of a change leads to it, and each key to a part; and whether changes on trial have a version
    /// to return to and no more NACKs than the threshold. For debug assertions.
    fn is_consistent(&self) -> bool {
        let mut changes = self.changes.iter().take(SAMPLE);
        let is_known = changes.all(|(id, change)| {
            let mut keys = change.parts.keys().take(SAMPLE);
            *id < self.next
                && keys.all(|key| self.keys.get(key) == Some(id))
                && change.is_consistent(self.threshold)
        });
        let mut keys = self.keys.keys().take(SAMPLE);
        is_known && keys.all(|key| self.part(key).is_some())
    }

    /// Returns the changes on trial that nodes NACKed.
    pub fn nacked(&self) -> impl Iterator<Item = OnTrial> {
        let nacked = self
            .changes
            .values()
            .filter(|change| !change.nacked_by.is_empty());
        nacked.filter_map(Change::on_trial)
    }

    /// Returns the change on trial that a resource is a part of.
    #[must_use]
    pub fn on_trial(&self, key: &RollbackKey) -> Option<OnTrial> {
        self.changes.get(self.keys.get(key)?)?.on_trial()
    }

    /// Returns every resource that is rolled back now.
    pub fn rolled_back(&self) -> impl Iterator<Item = RolledBack> {
        self.changes.values().flat_map(Change::rolled_back)
    }

    fn part(&self, key: &RollbackKey) -> Option<(&Change, &Part)> {
        let change = self.changes.get(self.keys.get(key)?)?;
        Some((change, change.parts.get(key)?))
    }

    fn insert(&mut self, change: Change) {
        let id = self.next;
        self.next += 1;
        let keys = change.parts.keys().map(|key| (key.clone(), id));
        self.keys.extend(keys);
        self.changes.insert(id, change);
    }

    fn remove(&mut self, id: ChangeId) -> Option<Change> {
        let change = self.changes.remove(&id)?;
        for key in change.parts.keys() {
            self.keys.remove(key);
        }
        Some(change)
    }
}

/// Whether clients have accepted a whole change.
fn is_accepted<'a>(
    mut keys: impl Iterator<Item = &'a RollbackKey> + Clone,
    served: &impl Served,
) -> bool {
    let mut all = keys.clone().map(|key| served.acceptance(key));
    all.all(|acceptance| acceptance != Acceptance::Lacking)
        && keys.any(|key| served.acceptance(key) == Acceptance::All)
}

/// Returns what the store has after an update, for each key of the update.
fn contents(update: &[StoreChanges]) -> Contents {
    let mut contents = Contents::new();
    for StoreChanges { group, changes } in update {
        let key = |resource_type: &ResourceType, name: &Arc<str>| RollbackKey {
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
            group: group.clone(),
        };
        let removals = changes.removals.iter();
        contents.extend(removals.map(|(resource_type, name)| (key(resource_type, name), None)));
        // A resource in both upserts and removals exists afterwards (S-69).
        let upserts = changes.upserts.iter();
        contents.extend(
            upserts.map(|new| (key(new.resource_type(), new.name()), Some(Arc::clone(new)))),
        );
    }
    contents
}

/// Returns the changes to serve, for the groups of the update in their order, then for others.
fn into_changes(update: Vec<StoreChanges>, contents: Contents) -> Vec<StoreChanges> {
    let mut all: Vec<StoreChanges> = update
        .into_iter()
        .map(|changes| StoreChanges {
            group: changes.group,
            changes: ChangeSet::default(),
        })
        .collect();
    for (key, content) in contents {
        let of_group = all.iter_mut().find(|changes| changes.group == key.group);
        let changes = match of_group {
            Some(known) => &mut known.changes,
            None => {
                all.push(StoreChanges {
                    group: key.group.clone(),
                    changes: ChangeSet::default(),
                });
                let Some(new) = all.last_mut() else { continue };
                &mut new.changes
            }
        };
        match content {
            Some(resource) => changes.upserts.push(resource),
            None => changes.removals.push((key.resource_type, key.name)),
        }
    }
    all
}
