//! Changes that break clients although every resource is valid.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use oxds_types::{Decode as _, ResourceType};

use super::change::{Change, ChangeKind, Changes};
use super::state::{Resources, State};
use crate::snapshot::{Resource, ResourceKey};

/// Number of resources of a type from which the removal of most of them is dangerous: below it, that is ordinary work.
const MANY: usize = 10;
/// Referrers that are named.
const NAMED: usize = 3;

/// A dangerous change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Danger {
    /// A type loses all of its resources.
    LosesAll {
        /// The group; `None`: all nodes.
        group: Option<Arc<str>>,
        /// The type.
        resource_type: ResourceType,
        /// Number of resources before.
        before: usize,
    },
    /// A type loses more than half of its resources, of ten at least.
    LosesMost {
        /// The group; `None`: all nodes.
        group: Option<Arc<str>>,
        /// The type.
        resource_type: ResourceType,
        /// Number of removed resources.
        removed: usize,
        /// Number of resources before.
        before: usize,
    },
    /// A resource is removed that others still refer to.
    StillNamed {
        /// The group; `None`: all nodes.
        group: Option<Arc<str>>,
        /// The removed resource.
        resource_type: ResourceType,
        /// Name of the removed resource.
        name: Arc<str>,
        /// The first of the resources that refer to it, as `rds shop`.
        by: Vec<String>,
        /// Number of these resources.
        total: usize,
    },
    /// An assignment loses all of its endpoints.
    NoEndpoints {
        /// The group; `None`: all nodes.
        group: Option<Arc<str>>,
        /// Name of the assignment.
        name: Arc<str>,
        /// Number of endpoints before.
        before: usize,
    },
    /// A group has no nodes any more.
    NoNodes {
        /// The group.
        group: Arc<str>,
    },
}

impl Danger {
    /// Returns the dangers of a change, sorted.
    #[must_use]
    pub fn of(old: &State, new: &State, changes: &Changes) -> Vec<Self> {
        let mut dangers = BTreeSet::new();
        dangers.extend(losses(old, new));
        for change in &changes.0 {
            dangers.extend(no_endpoints(change));
            if change.nodes.is_some() && change.kind() == ChangeKind::Removed {
                let group = Arc::clone(&change.name);
                dangers.insert(Self::NoNodes { group });
            }
        }
        dangers.extend(still_named(new, changes));
        dangers.into_iter().collect()
    }

    /// Returns the rule, as JSON has it.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::LosesAll { .. } => "loses-all",
            Self::LosesMost { .. } => "loses-most",
            Self::StillNamed { .. } => "still-named",
            Self::NoEndpoints { .. } => "no-endpoints",
            Self::NoNodes { .. } => "no-nodes",
        }
    }

    fn group(&self) -> Option<&Arc<str>> {
        match self {
            Self::LosesAll { group, .. }
            | Self::LosesMost { group, .. }
            | Self::StillNamed { group, .. }
            | Self::NoEndpoints { group, .. } => group.as_ref(),
            Self::NoNodes { .. } => None,
        }
    }
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LosesAll {
                resource_type,
                before,
                ..
            } => write!(f, "{resource_type} loses all of its {before} resources")?,
            Self::LosesMost {
                resource_type,
                removed,
                before,
                ..
            } => write!(
                f,
                "{resource_type} loses {removed} of its {before} resources"
            )?,
            Self::StillNamed {
                resource_type,
                name,
                by,
                total,
                ..
            } => {
                let names = by.join(", ");
                write!(
                    f,
                    "{resource_type} {name} is removed, but still named by {names}"
                )?;
                if *total > by.len() {
                    write!(f, " and {} more", total - by.len())?;
                }
            }
            Self::NoEndpoints { name, before, .. } => {
                write!(f, "eds {name} loses all of its {before} endpoints")?;
            }
            Self::NoNodes { group } => write!(f, "group {group} has no nodes any more")?,
        }
        match self.group() {
            Some(group) => write!(f, " (group {group})"),
            None => Ok(()),
        }
    }
}

/// Finds types that lose all or most of their resources.
fn losses(old: &State, new: &State) -> Vec<Danger> {
    let mut dangers = Vec::new();
    let groups = old.groups.keys().map(|name| Some(Arc::clone(name)));
    for group in std::iter::once(None).chain(groups) {
        let before = old.resources(group.as_deref());
        let after = new.resources(group.as_deref());
        let mut counts: BTreeMap<&ResourceType, (usize, usize)> = BTreeMap::new();
        for key in before.into_iter().flat_map(Resources::keys) {
            let of_type = counts.entry(&key.0).or_default();
            of_type.0 += 1;
            of_type.1 += usize::from(after.is_some_and(|after| after.contains_key(key)));
        }
        let left = after.into_iter().flat_map(Resources::keys);
        let left: HashSet<&ResourceType> = left.map(|key| &key.0).collect();
        for (resource_type, (before, kept)) in counts {
            let is_empty = !left.contains(resource_type);
            let removed = before - kept;
            if is_empty {
                dangers.push(Danger::LosesAll {
                    group: group.clone(),
                    resource_type: resource_type.clone(),
                    before,
                });
            } else if before >= MANY && removed > before / 2 {
                dangers.push(Danger::LosesMost {
                    group: group.clone(),
                    resource_type: resource_type.clone(),
                    removed,
                    before,
                });
            }
        }
    }
    dangers
}

/// Finds removed resources that others still refer to: for all nodes, and in what the nodes of each group see.
fn still_named(new: &State, changes: &Changes) -> Vec<Danger> {
    let of_all = gone(changes, None);
    let mut named = Named::default();
    named.scan(None, &new.of_all_nodes, |target| of_all.contains(target));
    for (name, group) in &new.groups {
        let own = &group.resources;
        let mut of_group = gone(changes, Some(name));
        // Without its own resource, a group sees that for all nodes.
        of_group.retain(|key| !new.of_all_nodes.contains_key(key));
        named.scan(Some(name), own, |target| {
            of_group.contains(target) || of_all.contains(target) && !own.contains_key(target)
        });
        if !of_group.is_empty() {
            let seen = new.of_all_nodes.iter();
            let seen = seen.filter(|(key, _)| !own.contains_key(*key));
            named.scan(Some(name), seen, |target| of_group.contains(target));
        }
    }
    named.dangers()
}

/// Returns the keys that are removed for all nodes, or for those of a group.
fn gone(changes: &Changes, group: Option<&str>) -> HashSet<ResourceKey> {
    let removed = changes
        .0
        .iter()
        .filter(|change| change.group.as_deref() == group && change.kind() == ChangeKind::Removed);
    removed.filter_map(Change::key).collect()
}

/// Removed resources with those that refer to them.
#[derive(Default)]
struct Named(BTreeMap<(Option<Arc<str>>, ResourceKey), Referrers>);

/// The resources that refer to one.
#[derive(Default)]
struct Referrers {
    /// The first of them, as `rds shop`.
    by: Vec<String>,
    total: usize,
}

impl Named {
    fn scan<'a>(
        &mut self,
        group: Option<&Arc<str>>,
        resources: impl IntoIterator<Item = (&'a ResourceKey, &'a Arc<Resource>)>,
        is_gone: impl Fn(&ResourceKey) -> bool,
    ) {
        for (key, resource) in resources {
            for needed in resource.references() {
                let target = (needed.resource_type.clone(), Arc::clone(&needed.name));
                if is_gone(&target) {
                    let named = self.0.entry((group.cloned(), target)).or_default();
                    named.total += 1;
                    if named.by.len() < NAMED {
                        named.by.push(format!("{} {}", key.0, key.1));
                    }
                }
            }
        }
    }

    fn dangers(self) -> Vec<Danger> {
        let named = self.0.into_iter();
        let danger = |((group, (resource_type, name)), named): (_, Referrers)| Danger::StillNamed {
            group,
            resource_type,
            name,
            by: named.by,
            total: named.total,
        };
        named.map(danger).collect()
    }
}

fn no_endpoints(change: &Change) -> Option<Danger> {
    if change.resource_type != Some(ResourceType::ENDPOINT) {
        return None;
    }
    let (before, after) = (
        endpoints(change.old.as_ref()?),
        endpoints(change.new.as_ref()?),
    );
    (before > 0 && after == 0).then(|| Danger::NoEndpoints {
        group: change.group.clone(),
        name: Arc::clone(&change.name),
        before,
    })
}

fn endpoints(assignment: &Resource) -> usize {
    let Ok(assignment) = ClusterLoadAssignment::from_bytes(&assignment.value()) else {
        return 0;
    };
    let localities = assignment.endpoints.iter();
    // Endpoints by LEDS are not in the assignment.
    let count = localities.map(|one| match one.lb_config {
        Some(_) => 1,
        None => one.lb_endpoints.len(),
    });
    count.sum()
}
