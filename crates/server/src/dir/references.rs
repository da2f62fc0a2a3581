//! References that lead to nothing (S-70), found at the cost of what changed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::snapshot::ResourceKey;
use oxds_types::Reference;

use super::file::{Item, finding};
use crate::store::{Finding, Severity};

/// Which files refer to a resource, be it there or not.
#[derive(Debug, Default)]
pub(super) struct Referrers(HashMap<ResourceKey, BTreeSet<Arc<Path>>>);

impl Referrers {
    /// A file serves this resource from now on.
    pub(super) fn add(&mut self, path: &Arc<Path>, item: &Item) {
        for to in item.resource.references() {
            self.0
                .entry(target(to))
                .or_default()
                .insert(Arc::clone(path));
        }
    }

    /// It does not any more. If another resource of it refers to the same, that one must be added again.
    pub(super) fn remove(&mut self, path: &Path, item: &Item) {
        for to in item.resource.references() {
            let target = target(to);
            if let Some(paths) = self.0.get_mut(&target) {
                paths.remove(path);
                if paths.is_empty() {
                    self.0.remove(&target);
                }
            }
        }
    }

    /// The files whose references must be looked at again, now that this resource came or went.
    pub(super) fn of(&self, key: &ResourceKey) -> impl Iterator<Item = &Arc<Path>> {
        self.0.get(key).into_iter().flatten()
    }
}

/// A finding per reference of the resource for which `exists` says no.
pub(super) fn dangling(
    path: &Path,
    item: &Item,
    severity: Severity,
    exists: impl Fn(&ResourceKey) -> bool,
) -> impl Iterator<Item = Finding> {
    let resource = &item.resource;
    let missing = resource
        .references()
        .iter()
        .filter(move |to| !exists(&target(to)));
    missing.map(move |to| {
        let (resource_type, name) = (resource.resource_type(), resource.name());
        let message = format!(
            "{resource_type} {name:?} refers to {} {:?}, which is not here",
            to.resource_type, to.name
        );
        Finding {
            severity,
            position: item.position,
            resource_type: Some(resource_type.clone()),
            resource: Some(name.to_string()),
            ..finding(path, "dangling", &message)
        }
    })
}

fn target(reference: &Reference) -> ResourceKey {
    (reference.resource_type.clone(), Arc::clone(&reference.name))
}
