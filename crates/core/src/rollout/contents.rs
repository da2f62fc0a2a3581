//! Contents of a change: resources that it adds, changes and removes. They are counted, and the first ones have their
//! names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::snapshot::{ChangeSet, ResourceKey};

/// Names of a type that are kept of each sort.
const MAX_NAMES: usize = 50;
/// Longest name that is kept, in bytes: longer ones are only counted.
const MAX_NAME: usize = 1024;

/// Effect of a change on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeSort {
    /// A new resource.
    Added,
    /// Another content.
    Changed,
    /// The end of the resource.
    Removed,
}

/// Resources that a change adds, changes and removes, by type.
///
/// `Display` lists the first ten names, as `[cds/blue, rds/shop, and 3 more]`: those that are added, then changed, then
/// removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutContents {
    types: BTreeMap<ResourceType, TypeContents>,
}

/// The part of one resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeContents {
    /// New resources.
    pub added: ChangedNames,
    /// Resources with another content.
    pub changed: ChangedNames,
    /// Resources that do not exist any more.
    pub removed: ChangedNames,
}

/// Names of one sort.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedNames {
    /// The number of all.
    pub count: usize,
    /// The first ones in their order.
    pub first: BTreeSet<ChangedName>,
}

/// Name of a changed resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedName {
    /// The name.
    pub name: Arc<str>,
    /// The group of nodes that sees it; `None` for all nodes.
    pub group: Option<Arc<str>>,
}

impl RolloutContents {
    /// Adds one resource, which must not be added twice.
    pub fn add(&mut self, sort: ChangeSort, (of, name): &ResourceKey, group: Option<&Arc<str>>) {
        // Not by `entry`: a change may have a hundred thousand resources of a few types.
        if !self.types.contains_key(of) {
            self.types.insert(of.clone(), TypeContents::default());
        }
        let Some(contents) = self.types.get_mut(of) else {
            return;
        };
        match sort {
            ChangeSort::Added => contents.added.add(name, group),
            ChangeSort::Changed => contents.changed.add(name, group),
            ChangeSort::Removed => contents.removed.add(name, group),
        }
    }

    /// Adds the effects of a change set, if `before` returns the versions of the resources before it.
    pub fn add_changes(
        &mut self,
        changes: &ChangeSet,
        group: Option<&Arc<str>>,
        before: impl Fn(&ResourceKey) -> Option<Version>,
    ) {
        // The last upsert of a name wins. A store that moves a resource between its documents removes and adds it.
        let mut seen: HashSet<ResourceKey> = HashSet::new();
        for resource in changes.upserts.iter().rev() {
            let key = resource.key();
            if seen.contains(&key) {
                continue;
            }
            match before(&key) {
                None => self.add(ChangeSort::Added, &key, group),
                Some(version) if version == resource.version() => {}
                Some(_) => self.add(ChangeSort::Changed, &key, group),
            }
            seen.insert(key);
        }
        for key in &changes.removals {
            if before(key).is_some() && !seen.contains(key) {
                seen.insert(key.clone());
                self.add(ChangeSort::Removed, key, group);
            }
        }
    }

    /// Returns whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the types that change.
    pub fn types(&self) -> impl Iterator<Item = (&ResourceType, &TypeContents)> {
        self.types.iter()
    }

    /// Returns the number of resources that are added, changed and removed.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for contents in self.types.values() {
            for (count, names) in counts.iter_mut().zip(contents.sorts()) {
                *count += names.count;
            }
        }
        counts
    }

    /// Returns whether it has one of these names of a type. A name that was only counted may be any; without names, any
    /// resource of the type counts.
    pub(super) fn may_have(&self, resource_type: &ResourceType, names: &[Arc<str>]) -> bool {
        let Some(contents) = self.types.get(resource_type) else {
            return false;
        };
        let has = |of: &ChangedNames, name: &Arc<str>| {
            of.first.len() < of.count || of.first.iter().any(|one| one.name == *name)
        };
        names.is_empty()
            || names
                .iter()
                .any(|name| contents.sorts().into_iter().any(|of| has(of, name)))
    }

    pub(super) fn bytes(&self) -> usize {
        let of_name = |one: &ChangedName| {
            64 + one.name.len() + one.group.as_ref().map_or(0, |group| group.len())
        };
        let sorts = self.types.values().flat_map(TypeContents::sorts);
        let names: usize = sorts.flat_map(|of| &of.first).map(of_name).sum();
        names + 256 * self.types.len()
    }
}

impl TypeContents {
    /// Returns the names that are added, changed and removed.
    #[must_use]
    pub fn sorts(&self) -> [&ChangedNames; 3] {
        [&self.added, &self.changed, &self.removed]
    }
}

impl ChangedNames {
    fn add(&mut self, name: &Arc<str>, group: Option<&Arc<str>>) {
        self.count += 1;
        let is_after_all = || self.first.last().is_some_and(|last| *last.name < **name);
        if name.len() > MAX_NAME || self.first.len() >= MAX_NAMES && is_after_all() {
            return;
        }
        self.first.insert(ChangedName {
            name: Arc::clone(name),
            group: group.cloned(),
        });
        if self.first.len() > MAX_NAMES {
            self.first.pop_last();
        }
    }
}

/// Names that `Display` lists.
const LISTED: usize = 10;

impl fmt::Display for RolloutContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.counts().iter().sum::<usize>();
        let (mut room, mut separator) = (LISTED, "");
        f.write_str("[")?;
        for sort in 0..3 {
            for (resource_type, contents) in &self.types {
                for one in contents.sorts()[sort].first.iter().take(room) {
                    write!(f, "{separator}{resource_type}/{}", quoted(&one.name))?;
                    (room, left, separator) = (room - 1, left - 1, ", ");
                }
            }
        }
        if left > 0 {
            write!(f, "{separator}and {left} more")?;
        }
        f.write_str("]")
    }
}

/// Returns a name as a list shows it: in quotes if it has characters that could be taken for the list's own.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains([' ', ',', '[', ']', '"']) {
        format!("{name:?}").into()
    } else {
        name.into()
    }
}
