//! Resources that clients of v2 do not get, since they say what v2 cannot (S-63).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use oxds_core::snapshot::{Obstacles, Snapshot};
use oxds_types::{ResourceType, Version};
use tracing::warn;

use crate::cache::Cache;

/// So many resources are remembered as told; then all are told again. A server that withholds more has one trouble, not
/// many.
const REMEMBERED: usize = 10_000;

/// Logs each of them once.
#[derive(Debug, Default)]
pub(crate) struct Withheld(Mutex<HashSet<(ResourceType, Arc<str>, Version)>>);

impl Withheld {
    /// A client of v2 was told of this kind.
    pub(crate) fn tell(&self, snapshot: &Snapshot, resource_type: &ResourceType) {
        let published = snapshot.of_type(resource_type);
        let mut withheld = published.withheld().peekable();
        if withheld.peek().is_none() {
            return;
        }
        // A set that a panic left is a set still.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, obstacles) in withheld {
            let Some(resource) = published.collection().get(name) else {
                continue;
            };
            if told.len() >= REMEMBERED {
                told.clear();
            }
            if told.insert((resource_type.clone(), Arc::clone(name), resource.version())) {
                let why = reasons(obstacles).collect::<Vec<_>>().join("; ");
                warn!(%resource_type, %name, %why, "withheld from clients of API v2");
            }
        }
    }
}

/// A resource that is served, and not to clients of v2.
#[derive(Debug)]
pub(crate) struct Unsaid {
    /// Whose it is, if not everybody's.
    pub(crate) group: Option<Arc<str>>,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    /// What v2 lacks.
    pub(crate) reasons: Vec<String>,
}

/// Those that are withheld from anybody who is connected, whatever groups they are in: each once.
pub(crate) fn everywhere(cache: &Cache) -> Vec<Unsaid> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for view in cache.views() {
        let snapshot = view.snapshot();
        for (resource_type, published) in snapshot.types() {
            for (name, obstacles) in published.withheld() {
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
                    all.push(Unsaid {
                        group,
                        resource_type: resource_type.clone(),
                        name: Arc::clone(name),
                        reasons: reasons(obstacles).collect(),
                    });
                }
            }
        }
    }
    all
}

/// What v2 lacks, each with its field path.
fn reasons(obstacles: &Obstacles) -> impl Iterator<Item = String> {
    obstacles.iter().map(ToString::to_string)
}
