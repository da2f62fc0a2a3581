//! Leases: keys that are deleted when their owner is silent.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;

use super::refusal;

/// The shortest time to live that etcd grants with its default election timeout.
const SHORTEST: i64 = 2;

/// Leases by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases {
    leases: BTreeMap<i64, Lease>,
    granted: i64,
}

#[derive(Debug, Clone)]
struct Lease {
    ttl: i64,
    ends: Instant,
}

impl Leases {
    /// Makes a lease, and returns its id and its time to live in seconds.
    ///
    /// # Errors
    /// The id is in use.
    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: Instant) -> Result<(i64, i64), Status> {
        let id = if id == 0 {
            self.granted += 1;
            0x1000_0000 + self.granted
        } else {
            id
        };
        if self.leases.contains_key(&id) {
            return Err(refusal::lease_exists());
        }
        let ttl = ttl.max(SHORTEST);
        let ends = now + Duration::from_secs(ttl.unsigned_abs());
        self.leases.insert(id, Lease { ttl, ends });
        Ok((id, ttl))
    }

    /// Returns whether a lease exists.
    pub(super) fn exists(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Renews a lease, and returns its time to live in seconds; 0 if it does not exist.
    pub(super) fn renew(&mut self, id: i64, now: Instant) -> i64 {
        let Some(lease) = self.leases.get_mut(&id) else {
            return 0;
        };
        lease.ends = now + Duration::from_secs(lease.ttl.unsigned_abs());
        lease.ttl
    }

    /// Removes a lease, and returns whether it existed.
    pub(super) fn remove(&mut self, id: i64) -> bool {
        self.leases.remove(&id).is_some()
    }

    /// Returns the first lease that ends, with its time.
    pub(super) fn next_end(&self) -> Option<(i64, Instant)> {
        let ends = self.leases.iter().map(|(id, lease)| (*id, lease.ends));
        ends.min_by_key(|(_, ends)| *ends)
    }
}
