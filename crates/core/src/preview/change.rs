//! The differences of two states, by group and type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::ResourceType;

use super::state::{Resources, State};
use crate::group::NodeMatcher;
use crate::snapshot::{Resource, ResourceKey};

/// A resource, or the nodes of a group, that differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The group; `None`: all nodes.
    pub group: Option<Arc<str>>,
    /// The type of the resource; `None`: the nodes of the group changed.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource, or of the group.
    pub name: Arc<str>,
    /// The resource before.
    pub old: Option<Arc<Resource>>,
    /// The resource after.
    pub new: Option<Arc<Resource>>,
    /// The nodes of the group before and after; `None` for resources.
    pub nodes: Option<Box<(Option<NodeMatcher>, Option<NodeMatcher>)>>,
}

/// Sort of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// The resource is new.
    Added,
    /// The content is another one.
    Changed,
    /// The resource is removed.
    Removed,
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// New ones.
    pub added: usize,
    /// Those with another content.
    pub changed: usize,
    /// Those that are gone.
    pub removed: usize,
}

/// The differences of two states: first those for all nodes, then by group; each by type in the order of sending, then
/// by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes(pub Vec<Change>);

impl Changes {
    /// Compares two states. Contents are compared by their versions, so the cost is that of a walk over all names.
    #[must_use]
    pub fn between(old: &State, new: &State) -> Self {
        let mut changes = Vec::new();
        add(&mut changes, None, &old.of_all_nodes, &new.of_all_nodes);
        let names: BTreeSet<_> = old.groups.keys().chain(new.groups.keys()).collect();
        for name in names {
            let (before, after) = (old.groups.get(name), new.groups.get(name));
            let matcher = |state: &State| state.groups.get(name).and_then(|g| g.matcher.clone());
            let nodes = (matcher(old), matcher(new));
            if nodes.0 != nodes.1 {
                changes.push(Change {
                    group: Some(Arc::clone(name)),
                    resource_type: None,
                    name: Arc::clone(name),
                    old: None,
                    new: None,
                    nodes: Some(Box::new(nodes)),
                });
            }
            let none = Resources::new();
            let before = before.map_or(&none, |group| &group.resources);
            let after = after.map_or(&none, |group| &group.resources);
            add(&mut changes, Some(name), before, after);
        }
        Self(changes)
    }

    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys of the resources that differ for all nodes, or for those of a group.
    #[must_use]
    pub fn keys(&self, group: Option<&str>) -> BTreeSet<ResourceKey> {
        let of_group = self.0.iter().filter(|one| one.group.as_deref() == group);
        of_group.filter_map(Change::key).collect()
    }

    /// Returns the groups with changes; those for all nodes first.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<Option<Arc<str>>> {
        self.0.iter().map(|change| change.group.clone()).collect()
    }

    /// Returns the numbers of all changes.
    #[must_use]
    pub fn counts(&self) -> ChangeCounts {
        ChangeCounts::of(self.0.iter().map(Change::kind))
    }

    /// Returns the numbers by group and type; without a type, those of the nodes of groups.
    #[must_use]
    pub fn counts_by_type(
        &self,
    ) -> BTreeMap<(Option<Arc<str>>, Option<ResourceType>), ChangeCounts> {
        let mut counts: BTreeMap<_, ChangeCounts> = BTreeMap::new();
        for change in &self.0 {
            let key = (change.group.clone(), change.resource_type.clone());
            counts.entry(key).or_default().add(change.kind());
        }
        counts
    }
}

fn add(changes: &mut Vec<Change>, group: Option<&Arc<str>>, old: &Resources, new: &Resources) {
    let keys: BTreeSet<&ResourceKey> = old
        .iter()
        .filter(|(key, resource)| new.get(*key) != Some(*resource))
        .map(|(key, _)| key)
        .chain(new.keys().filter(|key| !old.contains_key(*key)))
        .collect();
    changes.extend(keys.into_iter().map(|key| Change {
        group: group.cloned(),
        resource_type: Some(key.0.clone()),
        name: Arc::clone(&key.1),
        old: old.get(key).cloned(),
        new: new.get(key).cloned(),
        nodes: None,
    }));
}

impl Change {
    /// Returns the sort of the change.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        let (before, after) = match &self.nodes {
            Some(nodes) => (nodes.0.is_some(), nodes.1.is_some()),
            None => (self.old.is_some(), self.new.is_some()),
        };
        match (before, after) {
            (false, _) => ChangeKind::Added,
            (true, true) => ChangeKind::Changed,
            (true, false) => ChangeKind::Removed,
        }
    }

    /// Returns type and name of the resource; `None` for the nodes of a group.
    #[must_use]
    pub fn key(&self) -> Option<ResourceKey> {
        Some((self.resource_type.clone()?, Arc::clone(&self.name)))
    }
}

impl ChangeCounts {
    /// Counts changes.
    pub fn of(kinds: impl IntoIterator<Item = ChangeKind>) -> Self {
        let mut counts = Self::default();
        kinds.into_iter().for_each(|kind| counts.add(kind));
        counts
    }

    /// Adds a change.
    pub fn add(&mut self, kind: ChangeKind) {
        match kind {
            ChangeKind::Added => self.added += 1,
            ChangeKind::Changed => self.changed += 1,
            ChangeKind::Removed => self.removed += 1,
        }
    }
}
