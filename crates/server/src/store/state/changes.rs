//! Changes of the last good state that wait to be saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::group::{Definition, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Resource, ResourceKey};

use crate::store::Update;

/// Place of a resource: its group (`None` for all nodes), its type and its name.
pub(super) type ScopedKey = (Option<Arc<str>>, ResourceKey);

/// Changes by place. Later changes of a place replace earlier ones, so that they take at most as much memory as the
/// content.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    /// The new resource; `None` if it was removed.
    pub(super) resources: BTreeMap<ScopedKey, Option<Arc<Resource>>>,
    /// The new matcher of a group; `None` if it has no nodes any more.
    pub(super) matchers: BTreeMap<Arc<str>, Option<NodeMatcher>>,
    pub(super) position: Option<Arc<[u8]>>,
    /// Whether the first secret was left out, or the last one of these was removed.
    pub(super) secrets: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            resources,
            matchers,
            position,
            secrets,
        } = self;
        resources.is_empty() && matchers.is_empty() && position.is_none() && !secrets
    }

    /// Adds an update of a store.
    pub(super) fn add_update(&mut self, update: &Update) {
        self.add_set(None, &update.changes);
        for group in &update.groups {
            self.add_set(Some(&group.name), &group.changes);
            let matcher = match &group.definition {
                Definition::Unchanged => continue,
                Definition::Set(matcher) => Some((**matcher).clone()),
                Definition::Unset => None,
            };
            self.matchers.insert(Arc::clone(&group.name), matcher);
        }
        if let Some(position) = &update.position {
            self.position = Some(Arc::clone(position));
        }
    }

    /// Adds later changes.
    pub(super) fn add(&mut self, later: Self) {
        self.resources.extend(later.resources);
        self.matchers.extend(later.matchers);
        self.position = later.position.or(self.position.take());
        self.secrets |= later.secrets;
    }

    fn add_set(&mut self, group: Option<&Arc<str>>, changes: &ChangeSet) {
        // A resource in both exists afterwards (S-69), so removals come first.
        for key in &changes.removals {
            self.resources.insert((group.cloned(), key.clone()), None);
        }
        for resource in &changes.upserts {
            let place = (group.cloned(), key(resource));
            self.resources.insert(place, Some(Arc::clone(resource)));
        }
    }
}

/// Returns type and name of a resource.
pub(super) fn key(resource: &Resource) -> ResourceKey {
    (
        resource.resource_type().clone(),
        Arc::clone(resource.name()),
    )
}
