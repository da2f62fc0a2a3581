//! References between resources: which documents refer to a resource, and which references lead to nothing (S-70).
//!
//! The cost of a check follows the size of the change, not of the configuration.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::snapshot::ResourceKey;
use oxds_types::Reference;

use super::document::{DocumentId, PlacedResource};
use crate::store::finding::{Finding, Severity};

/// The documents that refer to a resource, whether or not the resource exists.
#[derive(Debug, Default)]
pub(super) struct Referrers(HashMap<ResourceKey, BTreeSet<DocumentId>>);

impl Referrers {
    /// Adds the references of a resource that a document serves.
    pub(super) fn add(&mut self, id: &DocumentId, placed: &PlacedResource) {
        for reference in placed.resource.references() {
            self.0
                .entry(target(reference))
                .or_default()
                .insert(Arc::clone(id));
        }
    }

    /// Removes the references of a resource that a document no longer serves.
    ///
    /// If another resource of the document has the same reference, the caller must add that one again.
    pub(super) fn remove(&mut self, id: &Path, placed: &PlacedResource) {
        for reference in placed.resource.references() {
            let target = target(reference);
            if let Some(ids) = self.0.get_mut(&target) {
                ids.remove(id);
                if ids.is_empty() {
                    self.0.remove(&target);
                }
            }
        }
    }

    /// Returns the documents whose references must be checked when this resource is added or removed.
    pub(super) fn of(&self, key: &ResourceKey) -> impl Iterator<Item = &DocumentId> {
        self.0.get(key).into_iter().flatten()
    }
}

/// Returns one finding for each reference of the resource that leads to nothing. `problem` returns `None` for a
/// resource that exists, and otherwise what is wrong with it.
pub(super) fn dangling(
    id: &Path,
    placed: &PlacedResource,
    severity: Severity,
    problem: impl Fn(&ResourceKey) -> Option<String>,
) -> impl Iterator<Item = Finding> {
    let resource = &placed.resource;
    let references = resource.references().iter();
    let missing =
        references.filter_map(move |reference| Some((reference, problem(&target(reference))?)));
    missing.map(move |(missing, problem)| {
        let (resource_type, name) = (resource.resource_type(), resource.name());
        let message = format!(
            "{resource_type} {name:?} refers to {} {:?}, which {problem}",
            missing.resource_type, missing.name
        );
        Finding {
            severity,
            position: placed.position(),
            resource_type: Some(resource_type.clone()),
            resource: Some(name.to_string()),
            ..Finding::for_file(id, "dangling", &message)
        }
    })
}

/// The problem of a resource that is in no document.
pub(super) const MISSING: &str = "does not exist";

fn target(reference: &Reference) -> ResourceKey {
    (reference.resource_type.clone(), Arc::clone(&reference.name))
}
