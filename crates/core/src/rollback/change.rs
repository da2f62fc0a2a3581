//! Changes on trial, and their parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::sample::SAMPLE;
use crate::snapshot::Resource;
use crate::time::Instant;

/// Key of a resource: type, name and group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollbackKey {
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource.
    pub name: Arc<str>,
    /// The group; `None` for a resource that all nodes see.
    pub group: Option<Arc<str>>,
}

/// Resources that refer to each other and that one update of the store changed: on trial, and rolled back, together.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) parts: BTreeMap<RollbackKey, Part>,
    pub(super) nacked_by: BTreeSet<Arc<str>>,
    /// Error message of the first NACK.
    pub(super) reason: Option<Arc<str>>,
    pub(super) rolled_back: Option<RollbackCause>,
}

/// One changed resource. `None` is its absence.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Content that a rollback serves.
    pub(super) last_good: Option<Arc<Resource>>,
    /// Content in the store.
    pub(super) stored: Option<Arc<Resource>>,
}

#[derive(Debug, Clone)]
pub(super) struct RollbackCause {
    /// Type and name of the resource whose NACK caused the rollback.
    pub(super) nacked: (ResourceType, Arc<str>),
    pub(super) reason: Arc<str>,
    pub(super) at: Instant,
}

/// A resource that was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Key of the resource.
    pub key: RollbackKey,
    /// The resource in the store. `None`: the store has removed it, or only its version is known.
    pub stored: Option<Arc<Resource>>,
    /// Version of the resource in the store. `None`: the store has removed it.
    pub version: Option<Version>,
    /// The resource that is served instead. `None`: the store has added it, and it is not served.
    pub last_good: Option<Arc<Resource>>,
    /// Type and name of the resource whose NACK caused the rollback: this one, or one that the store changed together
    /// with it.
    pub nacked: (ResourceType, Arc<str>),
    /// `node.id` of each client that NACKed it. Of a decision of several replicas, only the number is known.
    pub nacked_by: Vec<Arc<str>>,
    /// Number of nodes that NACKed it.
    pub nodes: u64,
    /// Error message of the NACK that caused the rollback.
    pub reason: Arc<str>,
    /// Time of the rollback.
    pub at: Instant,
}

/// A change that clients have not all accepted, with the versions to return to.
#[derive(Debug, Clone)]
pub struct OnTrial {
    /// The changed resources, by key.
    pub parts: Vec<OnTrialPart>,
    /// `node.id` of each node that NACKed a part.
    pub nodes: Vec<Arc<str>>,
    /// Error message of the first NACK.
    pub reason: Option<Arc<str>>,
}

/// A changed resource.
#[derive(Debug, Clone)]
pub struct OnTrialPart {
    /// Key of the resource.
    pub key: RollbackKey,
    /// The resource in the store, if it has one.
    pub stored: Option<Arc<Resource>>,
    /// The resource that all clients had accepted, if there was one.
    pub last_good: Option<Arc<Resource>>,
}

/// A rollback as it is kept over a restart: the content of the store is known by its version only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedRollback {
    /// The resources that were rolled back together.
    pub parts: Vec<SavedPart>,
    /// Type and name of the resource whose NACK caused the rollback.
    pub nacked: (ResourceType, Arc<str>),
    /// `node.id` of each client that NACKed it.
    pub nacked_by: Vec<Arc<str>>,
    /// Error message of the NACK that caused the rollback.
    pub reason: Arc<str>,
    /// Time of the rollback.
    pub at: Instant,
}

/// A resource of a saved rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPart {
    /// Key of the resource.
    pub key: RollbackKey,
    /// Version in the store. `None`: the store has removed it.
    pub stored: Option<Arc<str>>,
    /// The resource that is served instead, if any.
    pub last_good: Option<Arc<Resource>>,
}

impl Change {
    /// Whether the invariants hold; for debug assertions.
    pub(super) fn is_consistent(&self, threshold: usize) -> bool {
        let is_nacked = !self.nacked_by.is_empty();
        if self.rolled_back.is_some() {
            return !self.parts.is_empty() && self.reason.is_some();
        }
        let mut parts = self.parts.values().take(SAMPLE);
        self.parts.values().any(|part| part.last_good.is_some())
            && parts.all(|part| !part.is_settled())
            && self.nacked_by.len() <= threshold
            && is_nacked == self.reason.is_some()
    }

    /// Returns the parts of a change that is rolled back.
    pub(super) fn rolled_back(&self) -> impl Iterator<Item = RolledBack> {
        let parts = self.rolled_back.iter().flat_map(|cause| {
            let parts = self.parts.iter();
            parts.map(move |(key, part)| (key, part, cause))
        });
        parts.map(|(key, part, cause)| RolledBack {
            key: key.clone(),
            stored: part.stored.clone(),
            version: part.stored.as_ref().map(|stored| stored.version()),
            last_good: part.last_good.clone(),
            nacked: cause.nacked.clone(),
            nacked_by: self.nacked_by.iter().cloned().collect(),
            nodes: u64::try_from(self.nacked_by.len()).unwrap_or(u64::MAX),
            reason: Arc::clone(&cause.reason),
            at: cause.at,
        })
    }

    /// Returns the change, if it is on trial.
    pub(super) fn on_trial(&self) -> Option<OnTrial> {
        if self.rolled_back.is_some() {
            return None;
        }
        let parts = self.parts.iter().map(|(key, part)| OnTrialPart {
            key: key.clone(),
            stored: part.stored.clone(),
            last_good: part.last_good.clone(),
        });
        Some(OnTrial {
            parts: parts.collect(),
            nodes: self.nacked_by.iter().cloned().collect(),
            reason: self.reason.clone(),
        })
    }

    /// Returns the change as it is kept over a restart, if it is rolled back.
    pub(super) fn saved(&self) -> Option<SavedRollback> {
        let cause = self.rolled_back.as_ref()?;
        let parts = self.parts.iter().map(|(key, part)| SavedPart {
            key: key.clone(),
            stored: part
                .stored
                .as_ref()
                .map(|stored| stored.version().as_str().into()),
            last_good: part.last_good.clone(),
        });
        Some(SavedRollback {
            parts: parts.collect(),
            nacked: cause.nacked.clone(),
            nacked_by: self.nacked_by.iter().cloned().collect(),
            reason: Arc::clone(&cause.reason),
            at: cause.at,
        })
    }
}

impl Part {
    /// Whether the store has the version to return to, so that nothing is on trial.
    pub(super) fn is_settled(&self) -> bool {
        self.last_good == self.stored
    }
}
