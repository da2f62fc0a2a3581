//! The feed: from a store to the cache.
//!
//! ```text
//!  Store::next ──▶ Update ──▶ rollback ──▶ cache ──▶ sessions
//!                    └ findings ──▶ store health, log
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use oxds_core::snapshot::{ChangeSet, Resource, ResourceKey, Snapshot};
use oxds_types::{ResourceType, Version};
use tracing::{info, warn};

use crate::discovery::Context;
use crate::store::{Demand, Finding, Findings, Health, Severity, Store, Update};

/// A future that feeds the cache until the store ends.
pub(super) type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a feed, once the server's state exists.
pub(super) type StartFeed = dyn FnOnce(Arc<Context>, Arc<Health>) -> Feed + Send;

/// Returns the feed of a store.
pub(super) fn of(store: impl Store) -> Box<StartFeed> {
    Box::new(|context, health| Box::pin(run(store, context, health)))
}

async fn run(mut store: impl Store, context: Arc<Context>, health: Arc<Health>) {
    store.watch_demand(Demand::new(context.cache.clone()));
    while let Some(update) = store.next().await {
        apply(update, &context, &health);
    }
    health.end();
    context.cache.notifier().notify();
}

/// Applies one update: errors of resources, then resources, then findings.
fn apply(update: Update, context: &Context, health: &Health) {
    let before = context.cache.snapshot();
    log_changes(&update, &before);
    // Before the resources: a session that the change wakes reads the errors of its names.
    let errors = resource_errors(&update.findings);
    before.set_resource_errors(errors);
    let review = context
        .rollback
        .review(&context.clients, update.changes, update.groups);
    context.cache.update(review.changes, review.groups);
    // Unlocked after the cache has the update, so that a rollback cannot overtake it.
    drop(review.lock);
    let now = Findings {
        listed: update.findings,
        more: update.more_findings,
    };
    context.server.metrics.notices(update.notices);
    health.record_uses(update.deprecated_uses);
    let before = health.record(now.clone(), update.took);
    context.cache.notifier().notify();
    now.log(&before);
}

/// Logs which resources an update adds, changes and removes. A resource that stays the same is none of these, although the
/// update has it.
fn log_changes(update: &Update, before: &Snapshot) {
    let mut difference = Difference::default();
    difference.add(&update.changes, |key| {
        let resource = before.get(&key.0, &key.1);
        resource.map(|resource| resource.version())
    });
    let origin = &update.origin;
    for (resource_type, removed) in &difference.removed_by_type {
        let of = before.of_type(resource_type).collection().len();
        // Rarely what an operator intends, and hard to undo for clients without a fallback.
        if *removed > MANY_REMOVALS && *removed * 2 > of {
            warn!(%resource_type, removed, of, %origin, "many resources removed at once");
        }
    }
    let mut in_groups = Difference::default();
    for group in &update.groups {
        // A group has no snapshot of its own here, so each of its resources counts as changed.
        in_groups.group(&group.changes);
    }
    difference.merge(in_groups);
    let Difference {
        added,
        changed,
        removed,
        ..
    } = &difference;
    let (added, changed, removed) = (added.len(), changed.len(), removed.len());
    if added + changed + removed > 0 || !update.groups.is_empty() {
        let (types, names) = (difference.types(), difference.names());
        info!(added, changed, removed, types, names, %origin, took = ?update.took, "config updated");
    }
}

/// The number of removals of a type in one update above which a removal of more than half of them is logged as a warning.
const MANY_REMOVALS: usize = 10;
/// The number of names in a log line.
const MAX_NAMES: usize = 10;

/// The resources that an update adds, changes and removes.
#[derive(Debug, Default)]
struct Difference {
    added: BTreeSet<ResourceKey>,
    changed: BTreeSet<ResourceKey>,
    removed: BTreeSet<ResourceKey>,
    removed_by_type: BTreeMap<ResourceType, usize>,
}

impl Difference {
    /// Adds changes of resources whose versions `before` returns.
    fn add(&mut self, changes: &ChangeSet, before: impl Fn(&ResourceKey) -> Option<Version>) {
        let mut upserted = HashSet::new();
        for resource in &changes.upserts {
            let key = (
                resource.resource_type().clone(),
                Arc::clone(resource.name()),
            );
            match before(&key) {
                None => drop(self.added.insert(key.clone())),
                Some(version) if version == resource.version() => {}
                Some(_) => drop(self.changed.insert(key.clone())),
            }
            upserted.insert(key);
        }
        for key in &changes.removals {
            // A store removes and adds a resource that moves between its documents.
            if !upserted.contains(key) && before(key).is_some() && self.removed.insert(key.clone())
            {
                *self.removed_by_type.entry(key.0.clone()).or_default() += 1;
            }
        }
    }

    /// Adds changes of a group.
    fn group(&mut self, changes: &ChangeSet) {
        let upserts = changes.upserts.iter();
        let key = |resource: &Arc<Resource>| {
            (
                resource.resource_type().clone(),
                Arc::clone(resource.name()),
            )
        };
        self.changed.extend(upserts.map(key));
        let removals = changes.removals.iter().cloned();
        self.removed
            .extend(removals.filter(|key| !self.changed.contains(key)));
    }

    fn merge(&mut self, other: Self) {
        self.added.extend(other.added);
        self.changed.extend(other.changed);
        self.removed.extend(other.removed);
    }

    /// Returns the sorts of changes, each with its name.
    fn sorts(&self) -> [(&'static str, &BTreeSet<ResourceKey>); 3] {
        [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
        ]
    }

    /// Returns the types of all resources, as `cds,eds`.
    fn types(&self) -> String {
        let keys = self.sorts().into_iter().flat_map(|(_, keys)| keys);
        let types: BTreeSet<&ResourceType> = keys.map(|(resource_type, _)| resource_type).collect();
        let names: Vec<String> = types.into_iter().map(ToString::to_string).collect();
        names.join(",")
    }

    /// Returns the first names, as `added cds blue, removed cds green, and 3 more`.
    fn names(&self) -> String {
        let all = self.sorts().into_iter();
        let mut all = all.flat_map(|(sort, keys)| keys.iter().map(move |key| (sort, key)));
        let first = all.by_ref().take(MAX_NAMES);
        let mut names: Vec<String> = first
            .map(|(sort, (resource_type, name))| format!("{sort} {resource_type} {name}"))
            .collect();
        match all.count() {
            0 => {}
            more => names.push(format!("and {more} more")),
        }
        names.join(", ")
    }
}

/// Returns the errors of resources by type and name, as sessions report them (S-73).
fn resource_errors(
    findings: &[Finding],
) -> impl Iterator<Item = (ResourceType, Arc<str>, Arc<str>)> {
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    errors.filter_map(|error| {
        let (resource_type, name) = (error.resource_type.clone()?, error.resource.as_deref()?);
        Some((resource_type, name.into(), error.to_string().into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, content: &[u8]) -> Arc<Resource> {
        Arc::new(Resource::new(ResourceType::CLUSTER, name, content))
    }

    fn key(name: &str) -> ResourceKey {
        (ResourceType::CLUSTER, name.into())
    }

    /// Given an edited, an unchanged, a new and a deleted resource, as a store reports them, then each counts once.
    #[test]
    fn b7_edited_resource_is_one_change() {
        let served = [
            cluster("edited", b"1"),
            cluster("same", b"1"),
            cluster("gone", b"1"),
        ];
        let before = |key: &ResourceKey| {
            let same = served.iter().find(|resource| resource.name() == &key.1);
            same.map(|resource| resource.version())
        };
        let changes = ChangeSet {
            upserts: vec![
                cluster("edited", b"2"),
                cluster("same", b"1"),
                cluster("new", b"1"),
            ],
            removals: ["edited", "same", "gone", "never"].map(key).to_vec(),
        };
        let mut difference = Difference::default();
        difference.add(&changes, before);
        assert_eq!(
            difference.names(),
            "added cds new, changed cds edited, removed cds gone"
        );
        assert_eq!(difference.types(), "cds");
    }

    #[test]
    fn b7_names_are_bounded() {
        let names: Vec<_> = (10..30).map(|i| cluster(&format!("c{i}"), b"")).collect();
        let mut difference = Difference::default();
        let changes = ChangeSet {
            upserts: names,
            ..ChangeSet::default()
        };
        difference.add(&changes, |_| None);
        let names = difference.names();
        assert!(
            names.starts_with("added cds c10, added cds c11, "),
            "{names}"
        );
        assert!(names.ends_with("added cds c19, and 10 more"), "{names}");
    }
}
