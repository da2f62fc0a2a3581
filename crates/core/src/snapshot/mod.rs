//! What a server serves: immutable, persistent, encoded once.
//!
//! ```text
//!  ChangeSet ──apply──▶ Snapshot (revision)
//!                         └─ per kind: TypeSnapshot ── ResourceSet   persistent map name → Resource, version
//!                                        │
//!                                        ├─ log                 names changed, by revision; trimmed
//!                                        └─ memo                Difference since an older ResourceSet, and
//!                                                               encoded bodies: made once, shared by all
//! ```
//!
//! The cost of a change follows the size of the change, not of the configuration, and is not paid once per client
//! (DESIGN §3):
//!
//! - applying a change set touches what it names; all the rest is shared with the snapshot before;
//! - what changed since revision E is read from the log, or, once the log was trimmed beyond E, from the parts that
//!   two persistent maps do not share;
//! - a body (the resources of a response, encoded) is made once per (kind, form, from, to) and shared as `Bytes`.
//!
//! [`WorkCounters`] say how often each of these happened, so that a test can hold the promise without a clock.
//!
//! A snapshot at revision zero says that nothing has been loaded yet: a session answers nothing from it. An empty
//! configuration that *was* loaded has revision one, and is answered (S-26, S-27).

mod ascending;
mod body;
mod change;
mod collection;
mod counters;
mod difference;
mod faults;
mod in_v2;
mod log;
mod published;
mod replace;
mod resource;
mod ttl;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ApiVersion, ResourceType};

pub use body::{Body, Form, Protocol};
pub use change::{ChangeSet, ChangedResource};
pub use collection::ResourceSet;
pub use counters::{WorkCounters, WorkCounts};
pub use difference::{Difference, ResourceChange};
pub use published::TypeSnapshot;
pub use resource::{Obstacles, Resource, ResourceKey};

pub(crate) use ascending::Ascending;
pub(crate) use body::{removal_field, removal_len};
use published::Settings;
pub(crate) use resource::{has_aliases, nothing_by_alias, put_field};
pub(crate) use ttl::heartbeat;

/// Orders the states of one lineage of snapshots: each that differs from the one before has the next number.
///
/// It counts within one process and is never sent to a client; versions are (S-29).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// Nothing has been loaded yet.
    pub const UNLOADED: Self = Self(0);

    /// As a number, for logs and metrics.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Everything that is served, at one revision. Immutable: share it as `Arc<Snapshot>`.
#[derive(Debug)]
pub struct Snapshot {
    revision: Revision,
    /// Sorted in the order in which kinds are sent.
    resource_types: BTreeMap<ResourceType, Arc<TypeSnapshot>>,
    /// Stands in for every kind of which there has never been a resource.
    empty: Arc<TypeSnapshot>,
    settings: Arc<Settings>,
}

impl Snapshot {
    /// The state before anything was loaded, with the default limits.
    #[must_use]
    pub fn unloaded() -> Arc<Self> {
        Self::with_limits(Limits::default())
    }

    /// The state before anything was loaded.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Arc<Self> {
        let settings = Arc::new(Settings {
            limits,
            counters: Arc::default(),
            faults: Arc::default(),
            for_many: true,
        });
        Arc::new(Self {
            revision: Revision::UNLOADED,
            resource_types: BTreeMap::new(),
            empty: Arc::new(TypeSnapshot::empty(&settings)),
            settings,
        })
    }

    /// The state after `changes`, and what differs: all of it or nothing (S-69).
    ///
    /// Costs O(changes × log of the number of resources). An upsert whose content is already served changes nothing;
    /// when nothing at all differs, the same snapshot comes back.
    #[must_use]
    pub fn apply(self: &Arc<Self>, changes: ChangeSet) -> (Arc<Self>, Vec<ChangedResource>) {
        let revision = Revision(self.revision.0 + 1);
        let mut resource_types = self.resource_types.clone();
        let mut changed = Vec::new();
        for (resource_type, of_type) in changes.by_type() {
            let before = self.of_type(&resource_type);
            let upserts = of_type.values().flatten().count();
            self.settings.counters.hashed(upserts);
            if let Some((after, names)) = before.apply(revision, of_type, &self.settings) {
                changed.extend(names.iter().map(|name| ChangedResource {
                    resource_type: resource_type.clone(),
                    name: name.clone(),
                }));
                resource_types.insert(resource_type, Arc::new(after));
            }
        }
        if changed.is_empty() && self.is_loaded() {
            return (Arc::clone(self), changed);
        }
        let empty = Arc::clone(&self.empty);
        let settings = Arc::clone(&self.settings);
        (
            Arc::new(Self {
                revision,
                resource_types,
                empty,
                settings,
            }),
            changed,
        )
    }

    /// The state after `changes`, for sessions that have seen none before: of the kinds that differ it does not know
    /// what was before, which would cost as much as what is.
    #[must_use]
    pub fn overlaid(self: &Arc<Self>, changes: ChangeSet) -> Arc<Self> {
        let (after, changed) = self.apply(changes);
        let settings = Arc::new(Settings {
            limits: self.settings.limits,
            counters: Arc::clone(&self.settings.counters),
            faults: Arc::clone(&self.settings.faults),
            for_many: false,
        });
        let changed: BTreeSet<ResourceType> =
            changed.into_iter().map(|one| one.resource_type).collect();
        let mut resource_types = after.resource_types.clone();
        for resource_type in changed {
            let published = after.of_type(&resource_type);
            let fresh = published.alike(ResourceSet::clone(published.collection()), &settings);
            resource_types.insert(resource_type, Arc::new(fresh));
        }
        Arc::new(Self {
            resource_types,
            revision: after.revision,
            empty: Arc::clone(&after.empty),
            settings,
        })
    }

    /// This state's place in the lineage.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether anything, be it an empty configuration, has been loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.revision != Revision::UNLOADED
    }

    /// The state of one kind; an empty one if there has never been a resource of it.
    #[must_use]
    pub fn of_type(&self, resource_type: &ResourceType) -> &Arc<TypeSnapshot> {
        self.resource_types
            .get(resource_type)
            .unwrap_or(&self.empty)
    }

    /// The same as clients see it who ask in this version of the API. For v2 it is made when the first of them asks, and
    /// from then on costs what the changes cost.
    #[must_use]
    pub fn of_type_in(&self, resource_type: &ResourceType, api: ApiVersion) -> &Arc<TypeSnapshot> {
        self.of_type(resource_type).in_version(api)
    }

    /// The kinds of which there is, or was, a resource, in the order in which they are sent.
    pub fn types(&self) -> impl Iterator<Item = (&ResourceType, &Arc<TypeSnapshot>)> {
        self.resource_types.iter()
    }

    /// The resource of this kind and name.
    #[must_use]
    pub fn get(&self, resource_type: &ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.of_type(resource_type).collection().get(name)
    }

    /// Says of every name that the source has and cannot serve what is wrong with it, instead of what was said before.
    /// Clients that understand `resource_errors` are told when they ask for it (TP3). All snapshots of the lineage know.
    pub fn set_resource_errors(
        &self,
        faults: impl IntoIterator<Item = (ResourceType, Arc<str>, Arc<str>)>,
    ) {
        self.settings.faults.replace(faults);
    }

    /// What has been done so far to serve this lineage of snapshots.
    #[must_use]
    pub fn counters(&self) -> &WorkCounters {
        &self.settings.counters
    }
}

/// How much a lineage of snapshots keeps and sends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Names that the change log of a kind keeps. Beyond it, finding what changed costs a walk over what two maps do
    /// not share; a session that is so far behind is rare, and is about to be sent far more than that. The default,
    /// 16,384, is 400 KB per kind.
    pub log_names: usize,
    /// Differences between older states and the current one that are kept for sessions which fell behind. They fall
    /// behind together (a burst, a pause), so a few serve them all: 32.
    pub differences: usize,
    /// A response is split before it grows beyond this (S-50), but for one whose only resource is larger. A SotW full
    /// state (LDS, CDS) cannot be split: what is left out of it is removed. gRPC's own default limit for a received
    /// message is 4 MiB; this stays well below it.
    pub message_bytes: usize,
}

impl Limits {
    /// What of a response's limit is left for resources and removals: besides them there are a type URL, a version, a
    /// nonce and the name of the control plane.
    pub(super) fn body_bytes(&self) -> usize {
        self.message_bytes.saturating_sub(256)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log_names: 16_384,
            differences: 32,
            message_bytes: 3_500_000,
        }
    }
}

#[cfg(test)]
mod tests;
