//! Status of a client's resources at one moment, for CSDS.

use std::sync::Arc;
use std::time::SystemTime;

use oxds_core::ads::{CacheState, CachedResource, Client, FailedUpdate, WatchError};
use oxds_core::time::Instant;
/// Status of a watched resource. The bytes are shared with the cache, not copied.
#[derive(Debug)]
pub(crate) struct ResourceStatus {
    pub(crate) name: Arc<str>,
    pub(crate) state: CacheState,
    pub(crate) cached: Option<CachedResource>,
    /// Type URL with which the resource came, or the usual one of its type.
    pub(crate) type_url: String,
    pub(crate) error: Option<WatchError>,
    /// The last update, if it was rejected or was an error.
    pub(crate) attempt: Option<FailedUpdate>,
    /// Time of this copy, on the state machine's clock and as wall-clock time.
    taken: (Instant, SystemTime),
}

impl ResourceStatus {
    /// Converts a time of the state machine into wall-clock time.
    pub(crate) fn wall_clock(&self, instant: Instant) -> SystemTime {
        let (now, wall) = self.taken;
        wall.checked_sub(now - instant).unwrap_or(wall)
    }
}

/// Copies the status of all watched resources.
pub(super) fn dump(machine: &Client, now: Instant) -> Vec<ResourceStatus> {
    let taken = (now, SystemTime::now());
    let resources = machine
        .resources()
        .map(|(resource_type, name, cached)| ResourceStatus {
            name: Arc::clone(name),
            state: cached.state,
            cached: cached.held.cloned(),
            type_url: cached
                .type_url(resource_type)
                .unwrap_or_else(|| resource_type.type_url())
                .to_owned(),
            error: cached.error.cloned(),
            attempt: cached.attempt.cloned(),
            taken,
        });
    resources.collect()
}
