//! Counting calls without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls, or streams, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Calls {
    /// They began.
    pub started: u64,
    /// They ended well.
    pub succeeded: u64,
    /// They ended otherwise.
    pub failed: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// With OK.
    Ok,
    /// The other end said something else.
    NotOk,
    /// Without a word of the other end: it was cancelled, or its connection broke.
    Broken,
}

/// Counts calls. Each costs two atomic additions.
#[derive(Debug, Default)]
pub struct CallCounter {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl CallCounter {
    /// A call begins.
    pub fn begin(&self) {
        // Relaxed, as below: only the numbers matter.
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// A call that began has ended.
    pub fn end(&self, ended: Ended) {
        let counter = match ended {
            Ended::Ok => &self.succeeded,
            Ended::NotOk | Ended::Broken => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// So far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        // What has ended is read first: it has begun, too.
        let succeeded = self.succeeded.load(Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        Calls {
            started: self.started.load(Ordering::Relaxed),
            succeeded,
            failed,
        }
    }
}
