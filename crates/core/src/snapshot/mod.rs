//! Snapshots of everything that a server serves: immutable, persistent, encoded once.
//!
//! ```text
//!  ChangeSet ──apply──▶ Snapshot (revision)
//!                         └─ per type: TypeSnapshot ── ResourceSet   persistent map name → Resource, version
//!                                        │
//!                                        ├─ change log               names changed, by revision; trimmed
//!                                        └─ shared                   Difference since an older ResourceSet, and
//!                                                                    encoded bodies: made once for all sessions
//! ```
//!
//! The cost of a change follows the size of the change, not of the configuration, and is not paid once per client:
//!
//! - applying a change set touches the resources that it names; all others are shared with the snapshot before;
//! - the changes since revision E are read from the log; if the log was trimmed beyond E, from the parts that two
//!   persistent maps do not share;
//! - a body (the resources of a response, encoded) is made once per (type, form, from, to) and shared as `Bytes`.
//!
//! [`WorkCounters`] count how often each of these happens, so that tests can check the cost without a clock.
//!
//! A snapshot at revision zero means that nothing was loaded yet: a session sends nothing from it. An empty
//! configuration that *was* loaded has revision one, and is sent (S-26, S-27).

mod ascending;
mod awaited;
mod body;
mod change;
mod counters;
mod difference;
mod form;
mod history;
mod log;
mod origin;
mod replace;
mod resource;
mod resource_errors;
mod resource_set;
mod settings;
mod ttl;
mod type_snapshot;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ApiVersion, ResourceType};

pub use crate::protocol::Protocol;
pub use awaited::Awaited;
pub use body::Body;
pub use change::{ChangeSet, ChangedResource};
pub use counters::{WorkCounters, WorkCounts};
pub use difference::{Difference, ResourceChange};
pub use form::Form;
pub use origin::ResourceOrigin;
pub use resource::{Obstacles, Resource, ResourceKey, WireError};
pub use resource_set::ResourceSet;
pub use settings::{Limits, Revision};
pub use type_snapshot::TypeSnapshot;

pub(crate) use resource::{has_aliases, nothing_by_alias, with_aliases};
pub(crate) use ttl::heartbeat;
pub(crate) use wire::{put_field, removal_field, removal_len};

use settings::Settings;

/// Everything that is served, at one revision. It is immutable; share it as `Arc<Snapshot>`.
#[derive(Debug)]
pub struct Snapshot {
    revision: Revision,
    /// Sorted in the order in which types are sent.
    resource_types: BTreeMap<ResourceType, Arc<TypeSnapshot>>,
    /// State of every type that never had a resource.
    empty: Arc<TypeSnapshot>,
    settings: Arc<Settings>,
}

impl Snapshot {
    /// Returns the state before anything was loaded, with the default limits.
    #[must_use]
    pub fn unloaded() -> Arc<Self> {
        Self::with_limits(Limits::default())
    }

    /// Returns the state before anything was loaded.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Arc<Self> {
        let settings = Arc::new(Settings {
            limits,
            counters: Arc::default(),
            errors: Arc::default(),
            awaited: Arc::default(),
            is_shared: true,
        });
        Arc::new(Self {
            revision: Revision::UNLOADED,
            resource_types: BTreeMap::new(),
            empty: Arc::new(TypeSnapshot::empty(&settings)),
            settings,
        })
    }

    /// Returns the state after `changes`, and the resources that differ. All changes are applied together (S-69).
    ///
    /// Costs O(changes × log of the number of resources). An upsert whose content is already served changes nothing. If
    /// nothing differs at all, the same snapshot is returned.
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
        // An empty first change set still makes the snapshot a loaded one (S-27).
        if changed.is_empty() && self.is_loaded() {
            return (Arc::clone(self), changed);
        }
        let empty = Arc::clone(&self.empty);
        let settings = Arc::clone(&self.settings);
        let after = Self {
            revision,
            resource_types,
            empty,
            settings,
        };
        (Arc::new(after), changed)
    }

    /// Returns the state after `changes` for a group, whose sessions have seen no state before.
    ///
    /// Types that differ have no history in it, because a copy of the history would cost as much as all resources.
    #[must_use]
    pub fn overlaid(self: &Arc<Self>, changes: ChangeSet) -> Arc<Self> {
        let (after, changed) = self.apply(changes);
        let settings = Arc::new(Settings {
            limits: self.settings.limits,
            counters: Arc::clone(&self.settings.counters),
            errors: Arc::clone(&self.settings.errors),
            awaited: Arc::clone(&self.settings.awaited),
            is_shared: false,
        });
        let changed: BTreeSet<ResourceType> =
            changed.into_iter().map(|one| one.resource_type).collect();
        let mut resource_types = after.resource_types.clone();
        for resource_type in changed {
            let of_type = after.of_type(&resource_type);
            let resources = ResourceSet::clone(of_type.collection());
            let fresh = of_type.without_history(resources, &settings);
            resource_types.insert(resource_type, Arc::new(fresh));
        }
        Arc::new(Self {
            resource_types,
            revision: after.revision,
            empty: Arc::clone(&after.empty),
            settings,
        })
    }

    /// Returns the revision of this state in its lineage.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether a configuration was loaded; an empty one counts.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.revision != Revision::UNLOADED
    }

    /// Returns the state of one type; an empty one if the type never had a resource.
    #[must_use]
    pub fn of_type(&self, resource_type: &ResourceType) -> &Arc<TypeSnapshot> {
        self.resource_types
            .get(resource_type)
            .unwrap_or(&self.empty)
    }

    /// Returns the state of one type for clients of this API version.
    ///
    /// The v2 state is made when the first client of v2 asks. From then on it costs what the changes cost.
    #[must_use]
    pub fn of_type_in(&self, resource_type: &ResourceType, api: ApiVersion) -> &Arc<TypeSnapshot> {
        self.of_type(resource_type).in_version(api)
    }

    /// Returns the types that have or had a resource, in the order in which they are sent.
    pub fn types(&self) -> impl Iterator<Item = (&ResourceType, &Arc<TypeSnapshot>)> {
        self.resource_types.iter()
    }

    /// Returns the resource of this type and name.
    #[must_use]
    pub fn get(&self, resource_type: &ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.of_type(resource_type).collection().get(name)
    }

    /// Replaces the errors of names that the source has but cannot serve: type, name, reason.
    ///
    /// Clients that support `resource_errors` get them for names that they subscribe to (xRFC TP3). The errors hold for
    /// all snapshots of the lineage.
    pub fn set_resource_errors(
        &self,
        errors: impl IntoIterator<Item = (ResourceType, Arc<str>, Arc<str>)>,
    ) {
        self.settings.errors.replace(errors);
    }

    /// Replaces what the store has not delivered yet, for all snapshots of the lineage. Returns whether that is a
    /// change; then all sessions must be polled.
    #[must_use]
    pub fn set_awaited(&self, awaited: Awaited) -> bool {
        self.settings.awaited.replace(awaited)
    }

    /// Returns whether the store has not delivered a type yet, while the rest of the snapshot is known.
    #[must_use]
    pub fn is_awaited(&self, resource_type: &ResourceType) -> bool {
        self.settings.awaited.contains(resource_type)
    }

    /// Returns whether nothing is loaded, but soon will be.
    #[must_use]
    pub fn awaits_first_load(&self) -> bool {
        !self.is_loaded() && self.settings.awaited.is_everything()
    }

    /// Returns the counts of the work done for this lineage.
    #[must_use]
    pub fn counters(&self) -> &WorkCounters {
        &self.settings.counters
    }
}

#[cfg(test)]
mod tests;
