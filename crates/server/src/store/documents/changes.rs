//! Changes of the served resources, by scope.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::group::GroupUpdate;
use oxds_core::snapshot::{ChangeSet, ResourceKey};

/// The nodes that see a resource: those of a group, or all nodes if there is no group.
pub(super) type Scope = Option<Arc<str>>;

/// Changes of the served resources, in every scope.
#[derive(Debug, Default)]
pub(super) struct ScopedChanges {
    pub(super) root: ChangeSet,
    pub(super) groups: BTreeMap<Arc<str>, GroupUpdate>,
}

impl ScopedChanges {
    /// Returns the changes of one scope.
    pub(super) fn scope(&mut self, scope: &Scope) -> &mut ChangeSet {
        match scope {
            None => &mut self.root,
            Some(name) => &mut self.group(name).changes,
        }
    }

    /// Returns the changes of one group, its definition included.
    pub(super) fn group(&mut self, name: &Arc<str>) -> &mut GroupUpdate {
        let new = || GroupUpdate {
            name: Arc::clone(name),
            ..GroupUpdate::default()
        };
        self.groups.entry(Arc::clone(name)).or_insert_with(new)
    }

    /// Returns the type and name of every resource that was added, changed or removed, in any scope.
    pub(super) fn keys(&self) -> impl Iterator<Item = ResourceKey> {
        let groups = self.groups.values().map(|group| &group.changes);
        groups.chain([&self.root]).flat_map(|changes| {
            let upserts = changes.upserts.iter();
            let upserts = upserts.map(|r| (r.resource_type().clone(), Arc::clone(r.name())));
            changes.removals.iter().cloned().chain(upserts)
        })
    }
}
