//! A client's resources at one moment, for who wants to look.

use std::sync::Arc;
use std::time::SystemTime;

use oxds_core::ads::{CacheState, CachedResource, Client, FailedUpdate, WatchError};
use oxds_core::time::Instant;
use oxds_types::ResourceType;

/// A watched resource. Its bytes are shared with the client, not copied.
#[derive(Debug)]
pub(crate) struct Dumped {
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) state: CacheState,
    pub(crate) held: Option<CachedResource>,
    pub(crate) error: Option<WatchError>,
    /// The last update, if nothing came of it.
    pub(crate) attempt: Option<FailedUpdate>,
    /// The same moment on the machine's clock and on the wall's.
    taken: (Instant, SystemTime),
}

impl Dumped {
    /// When this was on the wall's clock.
    pub(crate) fn at(&self, instant: Instant) -> SystemTime {
        let (now, wall) = self.taken;
        wall.checked_sub(now - instant).unwrap_or(wall)
    }
}

pub(super) fn dump(machine: &Client, now: Instant) -> Vec<Dumped> {
    let taken = (now, SystemTime::now());
    let resources = machine
        .resources()
        .map(|(resource_type, name, cached)| Dumped {
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
            state: cached.state,
            held: cached.held.cloned(),
            error: cached.error.cloned(),
            attempt: cached.attempt.cloned(),
            taken,
        });
    resources.collect()
}
