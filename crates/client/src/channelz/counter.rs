//! Lock-free counters of calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of calls or streams at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Calls {
    /// Calls that have started.
    pub started: u64,
    /// Calls that ended with OK.
    pub succeeded: u64,
    /// Calls that ended with another status, or without one.
    pub failed: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// With status OK.
    Ok,
    /// With another status.
    NotOk,
    /// Without a status: the call was cancelled, or its connection broke.
    Broken,
}

/// Counter of calls. A call costs two atomic additions.
#[derive(Debug, Default)]
pub struct CallCounter {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl CallCounter {
    /// Counts the start of a call.
    pub fn begin(&self) {
        // Relaxed, as below: the counters synchronize no other data.
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a call.
    pub fn end(&self, outcome: CallOutcome) {
        let counter = match outcome {
            CallOutcome::Ok => &self.succeeded,
            CallOutcome::NotOk | CallOutcome::Broken => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        // Ended calls are read first, so that they never outnumber the started ones.
        let succeeded = self.succeeded.load(Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        Calls {
            started: self.started.load(Ordering::Relaxed),
            succeeded,
            failed,
        }
    }
}
