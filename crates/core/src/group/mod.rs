//! Groups of nodes (S-74): resources that only some nodes see, in addition to those that all nodes see.
//!
//! ```text
//!  node ──matchers──▶ membership: its groups, the most specific first
//!                          │
//!   groups   [ edge-eu: a ]   [ edge: a b ]          resources of each group
//!   root     [ a b c d e ]                           resources that all nodes see
//!                          ▼
//!   view     a of edge-eu, b of edge, c d e of the root
//! ```
//!
//! Nodes with equal memberships share one view: a snapshot that shares with the root's snapshot everything that the
//! groups do not replace. A change goes to the views that it concerns. It does not concern a view in which a more
//! specific group hides it.
//!
//! Everything here is pure. The server's cache has the views, and wakes their sessions.

mod candidates;
mod matcher;
mod resources;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::discovery::Node;
use oxds_types::{ResourceType, Version};

pub use matcher::{NodeMatcher, Specificity};
pub use shared::ResourceInterner;

use candidates::Candidates;
use resources::Group;

use crate::snapshot::{ChangeSet, Resource, ResourceKey, Snapshot};

/// Names of a node's groups, the most specific first.
pub type Membership = Arc<[Arc<str>]>;

/// Changes of one group.
#[derive(Debug, Clone, Default)]
pub struct GroupUpdate {
    /// Name of the group.
    pub name: Arc<str>,
    /// Change of the group's nodes.
    pub definition: Definition,
    /// Changes of its resources.
    pub changes: ChangeSet,
}

impl GroupUpdate {
    /// Returns an update that sets the nodes of a group, and changes its resources.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, matcher: NodeMatcher, changes: ChangeSet) -> Self {
        Self {
            name: name.into(),
            definition: Definition::Set(Box::new(matcher)),
            changes,
        }
    }

    /// Returns an update that changes the resources of a group, not its nodes.
    #[must_use]
    pub fn of_resources(name: impl Into<Arc<str>>, changes: ChangeSet) -> Self {
        Self {
            name: name.into(),
            definition: Definition::Unchanged,
            changes,
        }
    }
}

/// Change of a group's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Definition {
    /// As before; a new group has no nodes.
    #[default]
    Unchanged,
    /// The nodes that match, from now on.
    Set(Box<NodeMatcher>),
    /// No nodes, from now on. The resources of the group stay, in case it is set again.
    Unset,
}

/// Effects of an update on groups.
#[derive(Debug, Default)]
pub struct GroupChanges {
    /// Changed resources of each group.
    keys: BTreeMap<Arc<str>, BTreeSet<ResourceKey>>,
    /// Old and new matchers of changed groups. A node that matches one of them may have a new membership.
    pub matchers: Vec<NodeMatcher>,
}

/// All groups with their resources.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<Arc<str>, Group>,
    candidates: Candidates<Arc<str>>,
    shared: ResourceInterner,
}

impl Groups {
    /// Returns the groups of a node.
    #[must_use]
    pub fn of(&self, node: &Node) -> Membership {
        let matching = self.candidates.of(node).filter_map(|name| {
            let matcher = self.groups.get(name)?.matcher.as_ref()?;
            Some((matcher, name)).filter(|(matcher, _)| matcher.matches(node))
        });
        let mut names: Vec<(Specificity, &Arc<str>)> = matching
            .map(|(matcher, name)| (matcher.specificity(), name))
            .collect();
        // Two groups of equal rank have no resource in common: stores reject that.
        names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        names
            .into_iter()
            .map(|(_, name)| Arc::clone(name))
            .collect()
    }

    /// Returns a resource of a group, whether or not it is visible to a node.
    #[must_use]
    pub fn get(
        &self,
        group: &str,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<&Arc<Resource>> {
        let key = (resource_type.clone(), Arc::from(name));
        self.groups.get(group)?.get(&key)
    }

    /// Returns the version of a resource of a group.
    #[must_use]
    pub fn version(&self, group: &str, key: &ResourceKey) -> Option<Version> {
        let resource = self.groups.get(group)?.get(key)?;
        Some(resource.version())
    }

    /// Returns all groups by name, with their matcher and number of resources.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Option<&NodeMatcher>, usize)> {
        let groups = self.groups.iter();
        groups.map(|(name, group)| (name, group.matcher.as_ref(), group.resources.len()))
    }

    /// Returns all groups by name, with the version of each: a hash of its matcher and its resources.
    pub fn versions(&self) -> impl Iterator<Item = (&Arc<str>, Version)> {
        let groups = self.groups.iter();
        groups.map(|(name, group)| (name, group.version()))
    }

    /// Returns the update after which a group has exactly these resources and these nodes; no nodes without a matcher.
    #[must_use]
    pub fn replacing<R: Into<Arc<Resource>>>(
        &self,
        name: &str,
        matcher: Option<NodeMatcher>,
        resources: impl IntoIterator<Item = R>,
    ) -> GroupUpdate {
        let mut changes: ChangeSet = resources.into_iter().collect();
        if let Some(group) = self.groups.get(name) {
            changes.removals = group.resources.iter().map(|held| held.key()).collect();
        }
        GroupUpdate {
            name: name.into(),
            definition: matcher.map_or(Definition::Unset, |matcher| {
                Definition::Set(Box::new(matcher))
            }),
            changes,
        }
    }

    /// Applies updates.
    pub fn update(&mut self, updates: Vec<GroupUpdate>) -> GroupChanges {
        let mut touched = GroupChanges::default();
        for update in updates {
            let name = update.name;
            let group = self.groups.entry(Arc::clone(&name)).or_default();
            let matcher = match update.definition {
                Definition::Unchanged => group.matcher.clone(),
                Definition::Set(matcher) => Some(*matcher),
                Definition::Unset => None,
            };
            if group.matcher != matcher {
                let before = std::mem::replace(&mut group.matcher, matcher);
                if let Some(before) = &before {
                    self.candidates.remove(before, &name);
                }
                if let Some(now) = &group.matcher {
                    self.candidates.insert(now, Arc::clone(&name));
                }
                let matchers = before.into_iter().chain(group.matcher.clone());
                touched.matchers.extend(matchers);
            }
            let keys = touched.keys.entry(Arc::clone(&name)).or_default();
            let mut changes: BTreeMap<ResourceKey, Option<Arc<Resource>>> = BTreeMap::new();
            for key in update.changes.removals {
                changes.insert(key, None);
            }
            for resource in update.changes.upserts {
                changes.insert(resource.key(), Some(self.shared.get(resource)));
            }
            keys.extend(changes.keys().cloned());
            group.apply(changes);
            if group.matcher.is_none() && group.resources.is_empty() {
                self.groups.remove(&name);
            }
        }
        touched
    }

    /// Returns the changes that make the view of a membership out of the root's snapshot.
    #[must_use]
    pub fn overlay(&self, members: &Membership) -> ChangeSet {
        // The most specific group comes last, since the last upsert of a name wins.
        let groups = members
            .iter()
            .rev()
            .filter_map(|name| self.groups.get(name));
        let resources = groups.flat_map(|group| group.resources.iter());
        ChangeSet {
            upserts: resources.cloned().collect(),
            removals: Vec::new(),
        }
    }

    /// Returns the changes of a view, after changes of the root and of groups. `root` is the new root, `changed` are
    /// the keys that changed in it.
    #[must_use]
    pub fn seen_by(
        &self,
        members: &Membership,
        root: &Snapshot,
        changed: &[ResourceKey],
        touched: &GroupChanges,
    ) -> ChangeSet {
        let own = members.iter().filter_map(|name| touched.keys.get(name));
        let keys: BTreeSet<&ResourceKey> = own.flatten().chain(changed).collect();
        let mut changes = ChangeSet::default();
        for key in keys {
            match self.effective(members, root, key) {
                Some(resource) => changes.upserts.push(Arc::clone(resource)),
                None => changes.removals.push(key.clone()),
            }
        }
        changes
    }

    /// Returns the resource that a membership sees under a key.
    fn effective<'a>(
        &'a self,
        members: &Membership,
        root: &'a Snapshot,
        key: &ResourceKey,
    ) -> Option<&'a Arc<Resource>> {
        let mut groups = members.iter().filter_map(|name| self.groups.get(name));
        groups
            .find_map(|group| group.get(key))
            .or_else(|| root.get(&key.0, &key.1))
    }
}
