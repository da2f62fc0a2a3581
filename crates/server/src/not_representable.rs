//! Resources that API v2 cannot express: they are served to v3 clients only, and reported (S-63). The same for older
//! majors of resource types of one's own (V-54).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use oxds_core::snapshot::{Obstacles, Snapshot};
use oxds_types::{ResourceType, Version};
use tracing::warn;

use crate::cache::Cache;

/// The number of logged resources to remember. Beyond it the memory is cleared, and each resource is logged once more.
const MAX_LOGGED: usize = 10_000;

/// Logs each resource version that v2 cannot express once.
#[derive(Debug, Default)]
pub(crate) struct NotRepresentableLog(Mutex<HashSet<(ResourceType, Arc<str>, Version)>>);

impl NotRepresentableLog {
    /// Logs the resources of a type that a v2 client has subscribed to and does not get.
    pub(crate) fn log(&self, snapshot: &Snapshot, resource_type: &ResourceType) {
        let published = snapshot.of_type(resource_type);
        let mut resources = published.not_representable().peekable();
        if resources.peek().is_none() {
            return;
        }
        // Each insertion is complete in itself, so the set stays valid after a panic.
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, obstacles) in resources {
            let Some(resource) = published.collection().get(name) else {
                continue;
            };
            if logged.len() >= MAX_LOGGED {
                logged.clear();
            }
            if logged.insert((resource_type.clone(), Arc::clone(name), resource.version())) {
                let reasons = reasons(obstacles).collect::<Vec<_>>().join("; ");
                warn!(%resource_type, %name, %reasons, "resource not representable in v2, not sent to v2 clients");
            }
        }
    }
}

/// A resource that v2, or an older major, cannot express.
#[derive(Debug)]
pub(crate) struct NotRepresentableResource {
    /// The group that has the resource, unless it is for all nodes.
    pub(crate) group: Option<Arc<str>>,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    /// The field paths that the other version lacks.
    pub(crate) reasons: Vec<String>,
}

/// Returns the resources that v2 or an older major cannot express and that connected clients could see, each once.
pub(crate) fn all(cache: &Cache) -> Vec<NotRepresentableResource> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for view in cache.views() {
        let snapshot = view.snapshot();
        for (resource_type, published) in snapshot.types() {
            for (name, obstacles) in published.not_representable() {
                let Some(resource) = published.collection().get(name) else {
                    continue;
                };
                let mut members = view.members().iter();
                let group = members.find(|group| {
                    let of_group = cache.of_group(group, resource_type, name);
                    of_group.is_some_and(|other| Arc::ptr_eq(&other, resource))
                });
                let group = group.cloned();
                if known.insert((group.clone(), resource_type.clone(), Arc::clone(name))) {
                    all.push(NotRepresentableResource {
                        group,
                        resource_type: resource_type.clone(),
                        name: Arc::clone(name),
                        reasons: reasons(obstacles).collect(),
                    });
                }
            }
        }
    }
    let of_majors = cache.majors().not_representable().into_iter();
    all.extend(of_majors.map(
        |((resource_type, name), reasons)| NotRepresentableResource {
            group: None,
            resource_type,
            name,
            reasons: reasons.to_vec(),
        },
    ));
    all
}

/// Returns what v2 lacks, each with its field path.
fn reasons(obstacles: &Obstacles) -> impl Iterator<Item = String> {
    obstacles.iter().map(ToString::to_string)
}
