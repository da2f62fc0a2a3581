//! Uses of deprecated elements in the content of a store (V-44, V-45).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oxds_types::error::Reason;
use oxds_types::lifecycle::DeprecatedUse;
use oxds_types::{Error, Position, ResourceType};

/// Uses of deprecated elements by document, those that keep a document from being served included. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct DeprecatedUses {
    by_document: Arc<BTreeMap<Arc<Path>, Arc<[PlacedUse]>>>,
}

/// The use of a deprecated element in a resource.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlacedUse {
    /// The element, and the decision about it.
    pub used: DeprecatedUse,
    /// Line and column of the first use, if known.
    pub position: Option<Position>,
    /// Type of the resource, if its name is known.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource, if known.
    pub resource: Option<String>,
    /// Path to the first use in the resource.
    pub path: String,
    /// Number of places in the resource.
    pub count: usize,
}

/// Numbers of uses in the documents that were read for an update. They are added to the counters of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoticeCounts {
    /// Uses of deprecated elements that are allowed (Envoy: `runtime.deprecated_feature_use`).
    pub deprecated: u64,
    /// Uses of elements that are work in progress (Envoy: `server.wip_protos`).
    pub work_in_progress: u64,
    /// Unknown fields that were accepted (Envoy: `server.static_unknown_fields`).
    pub unknown_fields: u64,
}

impl DeprecatedUses {
    /// Returns all documents with their uses, sorted by document.
    pub fn documents(&self) -> impl Iterator<Item = (&Arc<Path>, &[PlacedUse])> {
        self.by_document.iter().map(|(id, uses)| (id, &**uses))
    }

    /// Whether no document uses a deprecated element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_document.is_empty()
    }

    /// Returns the uses of a document.
    pub(crate) fn of(&self, document: &Path) -> &[PlacedUse] {
        self.by_document.get(document).map_or(&[], |uses| uses)
    }

    /// Replaces the uses of a document.
    pub(crate) fn set(&mut self, document: &Arc<Path>, uses: Vec<PlacedUse>) {
        if *self.of(document) == uses {
            return;
        }
        let all = Arc::make_mut(&mut self.by_document);
        if uses.is_empty() {
            drop(all.remove(document));
        } else {
            drop(all.insert(Arc::clone(document), uses.into()));
        }
    }

    /// Whether this is the same state.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.by_document, &other.by_document)
    }
}

impl PlacedUse {
    /// Returns the use that a finding is about.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let Reason::Deprecated(used) = &error.reason else {
            return None;
        };
        Some(Self {
            used: (**used).clone(),
            position: error.position,
            resource_type: error.resource_type.clone(),
            resource: error.resource.clone(),
            path: error.path.clone(),
            count: error.count,
        })
    }
}

impl NoticeCounts {
    /// Adds a warning about a resource.
    pub(crate) fn add(&mut self, warning: &Error) {
        let count = warning.count as u64;
        match warning.reason {
            Reason::Deprecated(_) => self.deprecated += count,
            Reason::WorkInProgress(_) => self.work_in_progress += count,
            Reason::AcceptedField { .. } => self.unknown_fields += count,
            _ => {}
        }
    }
}

impl std::ops::AddAssign for NoticeCounts {
    fn add_assign(&mut self, other: Self) {
        self.deprecated += other.deprecated;
        self.work_in_progress += other.work_in_progress;
        self.unknown_fields += other.unknown_fields;
    }
}
