//! Resources that clients of v2 do not get, since they say what v2 cannot (S-63).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use oxds_core::snapshot::{Obstacles, Snapshot};
use oxds_types::{Kind, Version};
use tracing::warn;

/// So many resources are remembered as told; then all are told again. A server that withholds more has one trouble, not
/// many.
const REMEMBERED: usize = 10_000;

/// Logs each of them once.
#[derive(Debug, Default)]
pub(crate) struct Withheld(Mutex<HashSet<(Kind, Arc<str>, Version)>>);

impl Withheld {
    /// A client of v2 was told of this kind.
    pub(crate) fn tell(&self, snapshot: &Snapshot, kind: &Kind) {
        let published = snapshot.kind(kind);
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
            if told.insert((kind.clone(), Arc::clone(name), resource.version())) {
                let why = reasons(obstacles).collect::<Vec<_>>().join("; ");
                warn!(%kind, %name, %why, "withheld from clients of API v2");
            }
        }
    }
}

/// What v2 lacks, each with its field path.
pub(crate) fn reasons(obstacles: &Obstacles) -> impl Iterator<Item = String> {
    obstacles.iter().map(ToString::to_string)
}
