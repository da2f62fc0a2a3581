//! Groups of nodes (S-74): resources that only some nodes see, beside those that all see.
//!
//! ```text
//!  node ──matchers──▶ membership: the groups it is in, the most specific first
//!                          │
//!   groups   [ edge-eu: a ]   [ edge: a b ]          what each group has
//!   root     [ a b c d e ]                           what all nodes see
//!                          ▼
//!   view     a of edge-eu, b of edge, c d e of the root
//! ```
//!
//! Nodes of one membership see one view: a snapshot of its own, that shares with the root's whatever the groups do not
//! replace. A change is passed on to the views it concerns; what a more specific group hides is not.
//!
//! Everything in here is pure. Who holds the views, and wakes their sessions, is the server's cache.

mod candidates;
mod matcher;
mod resources;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::discovery::Node;

pub use matcher::{NodeMatcher, Specificity};
pub use shared::ResourceInterner;

use candidates::Candidates;
use resources::Group;

use crate::snapshot::{ChangeSet, Resource, ResourceKey, Snapshot};

/// The groups that a node is in, by name, the most specific first.
pub type Membership = Arc<[Arc<str>]>;

/// What changed in one group.
#[derive(Debug, Clone, Default)]
pub struct GroupUpdate {
    /// The group.
    pub name: Arc<str>,
    /// Whom it is for, if that changed.
    pub definition: Definition,
    /// What changed of its resources.
    pub changes: ChangeSet,
}

impl GroupUpdate {
    /// From now on this group is for these nodes, and has what these changes make of what it had.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, matcher: NodeMatcher, changes: ChangeSet) -> Self {
        Self {
            name: name.into(),
            definition: Definition::Set(Box::new(matcher)),
            changes,
        }
    }

    /// Changes what this group has, and not whom it is for.
    #[must_use]
    pub fn of_resources(name: impl Into<Arc<str>>, changes: ChangeSet) -> Self {
        Self {
            name: name.into(),
            definition: Definition::Unchanged,
            changes,
        }
    }
}

/// Whom a group is for, as an update says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Definition {
    /// As before: nobody, where nothing was said before.
    #[default]
    Unchanged,
    /// These nodes, from now on.
    Set(Box<NodeMatcher>),
    /// Nobody, from now on. Its resources stay, in case it is set again.
    Unset,
}

/// What an update of groups touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// What changed in each group.
    keys: BTreeMap<Arc<str>, BTreeSet<ResourceKey>>,
    /// Which nodes may be in other groups than before: those that one of these matches.
    pub matchers: Vec<NodeMatcher>,
}

/// All groups, and what each has.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<Arc<str>, Group>,
    candidates: Candidates<Arc<str>>,
    shared: ResourceInterner,
}

impl Groups {
    /// The groups that a node is in.
    #[must_use]
    pub fn of(&self, node: &Node) -> Membership {
        let matching = self.candidates.of(node).filter_map(|name| {
            let matcher = self.groups.get(name)?.matcher.as_ref()?;
            Some((matcher, name)).filter(|(matcher, _)| matcher.matches(node))
        });
        let mut names: Vec<(Specificity, &Arc<str>)> = matching
            .map(|(matcher, name)| (matcher.specificity(), name))
            .collect();
        // Of two that are equally specific, no name is in both: stores refuse that.
        names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        names
            .into_iter()
            .map(|(_, name)| Arc::clone(name))
            .collect()
    }

    /// A resource that a group has, whoever sees it.
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

    /// The groups with whom they are for, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Option<&NodeMatcher>, usize)> {
        let groups = self.groups.iter();
        groups.map(|(name, group)| (name, group.matcher.as_ref(), group.resources.len()))
    }

    /// The update after which a group has exactly these, and is for these nodes; for nobody, without a matcher.
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

    /// Takes updates in.
    pub fn update(&mut self, updates: Vec<GroupUpdate>) -> Touched {
        let mut touched = Touched::default();
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

    /// What members see otherwise than the root has it: to be applied to the root's snapshot.
    #[must_use]
    pub fn overlay(&self, members: &Membership) -> ChangeSet {
        // Of two upserts of one name the later counts.
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

    /// What a change of the root and of groups changes for members. `root` is what the root has now, `changed` what
    /// changed in it.
    #[must_use]
    pub fn seen_by(
        &self,
        members: &Membership,
        root: &Snapshot,
        changed: &[ResourceKey],
        touched: &Touched,
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
