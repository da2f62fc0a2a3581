//! What lies between two states of a kind.

use std::sync::{Arc, OnceLock};

use oxds_types::Reference;

use super::{Body, Form, Protocol, Resource, ResourceSet, Revision, log::Log, published::Settings};
use imbl::ordmap::DiffItem;

/// One name whose resource is not the same in two states.
#[derive(Debug, Clone)]
pub struct ResourceChange {
    /// The name.
    pub name: Arc<str>,
    /// What it was; `None`: it did not exist.
    pub old: Option<Arc<Resource>>,
    /// What it is; `None`: it does not exist any more. Never equal to `old`.
    pub new: Option<Arc<Resource>>,
}

/// What lies between an older state of a kind and the current one, found once and shared by all sessions that are at
/// the older one. What was changed and changed back is not in it.
#[derive(Debug)]
pub struct Difference {
    from: Revision,
    to: Arc<ResourceSet>,
    changes: Box<[ResourceChange]>,
    /// By form: how sessions of the delta variant are told.
    upserts: [OnceLock<Arc<[Body]>>; Form::COUNT],
    removals: OnceLock<Arc<[Body]>>,
    settings: Arc<Settings>,
}

impl Difference {
    pub(super) fn between(
        from: &ResourceSet,
        to: &Arc<ResourceSet>,
        log: &Log,
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

    /// The revision of the older state.
    #[must_use]
    pub fn from(&self) -> Revision {
        self.from
    }

    /// The newer state.
    #[must_use]
    pub fn to(&self) -> &Arc<ResourceSet> {
        &self.to
    }

    /// The names that differ, in order, each once.
    #[must_use]
    pub fn changes(&self) -> &[ResourceChange] {
        &self.changes
    }

    /// Whether this name differs.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.changes
            .binary_search_by(|change| (*change.name).cmp(name))
            .is_ok()
    }

    /// The resources that are new or different, for the delta variant; split where they exceed the message limit.
    pub fn upserts(&self, form: Form) -> &Arc<[Body]> {
        let form = Form {
            protocol: Protocol::Delta,
            ttl: form.ttl && self.to.is_mortal(),
            ..form
        };
        self.upserts[form.index()].get_or_init(|| {
            let resources = self.changes.iter().filter_map(|change| change.new.as_ref());
            self.settings.counters.encoded();
            self.settings.counters.visited(self.changes.len());
            Body::upserts(resources, form, self.settings.limits.body_bytes())
        })
    }

    /// The names that are gone, for the delta variant; split as the resources are.
    pub fn removals(&self) -> &Arc<[Body]> {
        self.removals.get_or_init(|| {
            let gone = self.changes.iter().filter(|change| change.new.is_none());
            let limit = self.settings.limits.body_bytes();
            Body::removals(gone.map(|change| &change.name), limit)
        })
    }
}

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

/// By walking the parts that the two maps do not share.
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
    /// Whether the resource refers to something that it did not refer to before.
    #[must_use]
    pub fn needs_more(&self) -> bool {
        let before = self.old.as_ref().map_or(&[][..], |old| old.references());
        let mut after = self.new.iter().flat_map(|new| new.references());
        after.any(|needed| !before.contains(needed))
    }

    /// What the resource referred to before, and does not refer to any more.
    pub(crate) fn needs_no_more(&self) -> impl Iterator<Item = &Reference> {
        let before = self.old.iter().flat_map(|old| old.references());
        let after = self.new.as_ref().map_or(&[][..], |new| new.references());
        before.filter(move |needed| !after.contains(needed))
    }

    /// Whether the content is the same, and only the TTL is not.
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
