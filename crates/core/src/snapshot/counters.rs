//! Counts of expensive work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of the work done for one lineage of snapshots, for metrics and for tests of cost (P-1, P-2).
///
/// No decision depends on them, so their atomic operations are relaxed.
#[derive(Debug, Default)]
pub struct WorkCounters {
    pub(super) hashes: AtomicU64,
    pub(super) encodes: AtomicU64,
    pub(super) visits: AtomicU64,
}

/// Values of [`WorkCounters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkCounts {
    /// Resources hashed: one per applied upsert, however many sessions get it.
    pub hashes: u64,
    /// Shared bodies encoded.
    pub encodes: u64,
    /// Log entries, map entries and resources visited to find or to encode changes.
    pub visits: u64,
}

impl WorkCounters {
    /// Returns the counts so far.
    #[must_use]
    pub fn read(&self) -> WorkCounts {
        WorkCounts {
            hashes: self.hashes.load(Relaxed),
            encodes: self.encodes.load(Relaxed),
            visits: self.visits.load(Relaxed),
        }
    }

    pub(super) fn hashed(&self, resources: usize) {
        self.hashes.fetch_add(resources as u64, Relaxed);
    }

    pub(super) fn encoded(&self) {
        self.encodes.fetch_add(1, Relaxed);
    }

    pub(super) fn visited(&self, entries: usize) {
        self.visits.fetch_add(entries as u64, Relaxed);
    }
}

impl std::ops::Sub for WorkCounts {
    type Output = Self;

    /// Returns the work between two readings.
    fn sub(self, earlier: Self) -> Self {
        Self {
            hashes: self.hashes - earlier.hashes,
            encodes: self.encodes - earlier.encodes,
            visits: self.visits - earlier.visits,
        }
    }
}
