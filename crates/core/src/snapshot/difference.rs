//! Difference between two states of one type.

use std::sync::{Arc, OnceLock};

use imbl::ordmap::DiffItem;
use oxds_types::Reference;

use super::body::Body;
use super::form::Form;
use super::log::ChangeLog;
use super::resource::Resource;
use super::resource_set::ResourceSet;
use super::settings::{Revision, Settings};
use crate::protocol::Protocol;

/// One name whose resource differs between two states.
#[derive(Debug, Clone)]
pub struct ResourceChange {
    /// Name of the resource.
    pub name: Arc<str>,
    /// The resource in the older state; `None` if it did not exist.
    pub old: Option<Arc<Resource>>,
    /// The resource in the newer state; `None` if it does not exist there. Never equal to `old`.
    pub new: Option<Arc<Resource>>,
}

/// Difference between an older state of a type and the current one. It is computed once, and shared by all sessions at
/// the older state. A change that was reverted is not in it.
#[derive(Debug)]
pub struct Difference {
    from: Revision,
    to: Arc<ResourceSet>,
    changes: Box<[ResourceChange]>,
    /// Bodies for delta responses, by form.
    upserts: [OnceLock<Arc<[Body]>>; Form::COUNT],
    removals: OnceLock<Arc<[Body]>>,
    settings: Arc<Settings>,
}

impl Difference {
    pub(super) fn between(
        from: &ResourceSet,
        to: &Arc<ResourceSet>,
        log: &ChangeLog,
        settings: &Arc<Settings>,
    ) -> Self {
        let changes = match log.since(from.revision) {
            Some(names) => changed_names(from, to, names.map(Arc::clone).collect(), settings),
            None => changed_entries(from, to, settings),
        };
        Self {
            from: from.revision,
            to: Arc::clone(to),
            changes,
            upserts: Default::default(),
            removals: OnceLock::new(),
            settings: Arc::clone(settings),
        }
    }

    /// Returns the revision of the older state.
    #[must_use]
    pub fn from(&self) -> Revision {
        self.from
    }

    /// Returns the newer state.
    #[must_use]
    pub fn to(&self) -> &Arc<ResourceSet> {
        &self.to
    }

    /// Returns the names that differ, in order, each once.
    #[must_use]
    pub fn changes(&self) -> &[ResourceChange] {
        &self.changes
    }

    /// Returns whether this name differs.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.changes
            .binary_search_by(|change| (*change.name).cmp(name))
            .is_ok()
    }

    /// Returns the new and changed resources for delta responses, split at the message limit.
    pub fn upserts(&self, form: Form) -> &Arc<[Body]> {
        let form = Form {
            protocol: Protocol::Delta,
            ttl: form.ttl && self.to.has_ttl(),
            ..form
        };
        self.upserts[form.index()].get_or_init(|| {
            let resources = self.changes.iter().filter_map(|change| change.new.as_ref());
            self.settings.counters.encoded();
            self.settings.counters.visited(self.changes.len());
            Body::upserts(resources, form, self.settings.limits.body_bytes())
        })
    }

    /// Returns the removed names for delta responses, split at the message limit.
    pub fn removals(&self) -> &Arc<[Body]> {
        self.removals.get_or_init(|| {
            let removed = self.changes.iter().filter(|change| change.new.is_none());
            let limit = self.settings.limits.body_bytes();
            Body::removals(removed.map(|change| &change.name), limit)
        })
    }
}

/// Finds the changes among the names of the log.
fn changed_names(
    from: &ResourceSet,
    to: &ResourceSet,
    mut names: Vec<Arc<str>>,
    settings: &Settings,
) -> Box<[ResourceChange]> {
    settings.counters.visited(names.len());
    names.sort_unstable();
    names.dedup();
    let changes = names.into_iter().filter_map(|name| {
        let (old, new) = (from.get(&name).cloned(), to.get(&name).cloned());
        ResourceChange::unless_same(name, old, new)
    });
    changes.collect()
}

/// Finds the changes by a walk over the parts that the two maps do not share.
fn changed_entries(
    from: &ResourceSet,
    to: &ResourceSet,
    settings: &Settings,
) -> Box<[ResourceChange]> {
    let changes: Box<[ResourceChange]> = from
        .resources
        .diff(&to.resources)
        .filter_map(|item| match item {
            DiffItem::Add(name, new) => {
                ResourceChange::unless_same(name.clone(), None, Some(new.clone()))
            }
            DiffItem::Remove(name, old) => {
                ResourceChange::unless_same(name.clone(), Some(old.clone()), None)
            }
            DiffItem::Update { old, new } => {
                ResourceChange::unless_same(new.0.clone(), Some(old.1.clone()), Some(new.1.clone()))
            }
        })
        .collect();
    settings.counters.visited(changes.len());
    changes
}

impl ResourceChange {
    /// Returns whether the resource has references that it did not have before.
    #[must_use]
    pub fn needs_more(&self) -> bool {
        let before = self.old.as_ref().map_or(&[][..], |old| old.references());
        let mut after = self.new.iter().flat_map(|new| new.references());
        after.any(|needed| !before.contains(needed))
    }

    /// Returns the references that the resource no longer has.
    pub(crate) fn needs_no_more(&self) -> impl Iterator<Item = &Reference> {
        let before = self.old.iter().flat_map(|old| old.references());
        let after = self.new.as_ref().map_or(&[][..], |new| new.references());
        before.filter(move |needed| !after.contains(needed))
    }

    /// Returns whether only the TTL changed, not the content.
    pub(crate) fn is_of_ttl(&self) -> bool {
        let version = |resource: &Option<Arc<Resource>>| resource.as_ref().map(|r| r.version());
        version(&self.old) == version(&self.new)
    }

    fn unless_same(
        name: Arc<str>,
        old: Option<Arc<Resource>>,
        new: Option<Arc<Resource>>,
    ) -> Option<Self> {
        (old != new).then_some(Self { name, old, new })
    }
}
