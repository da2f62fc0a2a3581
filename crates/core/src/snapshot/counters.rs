//! How often the expensive things happened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// WorkCounts of work done for one lineage of snapshots, for metrics and for tests of cost (P-1, P-2).
///
/// Each is a statistic that nothing is decided by, hence the relaxed order.
#[derive(Debug, Default)]
pub struct WorkCounters {
    pub(super) hashes: AtomicU64,
    pub(super) encodes: AtomicU64,
    pub(super) visits: AtomicU64,
}

/// [`WorkCounters`], read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkCounts {
    /// Resources hashed: one for each upsert that was applied, however many sessions it goes to.
    pub hashes: u64,
    /// Shared bodies encoded.
    pub encodes: u64,
    /// Log entries, map entries and resources visited to find or to encode what changed.
    pub visits: u64,
}

impl WorkCounters {
    /// The counts so far.
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

    /// What was done between two readings.
    fn sub(self, earlier: Self) -> Self {
        Self {
            hashes: self.hashes - earlier.hashes,
            encodes: self.encodes - earlier.encodes,
            visits: self.visits - earlier.visits,
        }
    }
}
