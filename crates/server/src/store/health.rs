//! The state of a store, for the status page and the metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::finding::{Finding, Severity};

/// The state of a store: its findings, and how many updates it yielded.
#[derive(Debug, Default)]
pub(crate) struct Health {
    latest: Mutex<Latest>,
    updates: AtomicU64,
    ended: AtomicBool,
}

/// The part of the latest update that is shown.
#[derive(Debug, Default)]
struct Latest {
    findings: Vec<Finding>,
    took: Duration,
}

impl Health {
    /// Records an update and returns the findings of the previous one.
    pub(crate) fn record(&self, findings: Vec<Finding>, took: Duration) -> Vec<Finding> {
        self.updates.fetch_add(1, Relaxed);
        std::mem::replace(&mut *self.lock(), Latest { findings, took }).findings
    }

    /// Records that the store yields no more updates.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }

    /// Returns the numbers of errors and of warnings.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let latest = self.lock();
        let errors = latest
            .findings
            .iter()
            .filter(|f| f.severity == Severity::Error)
            .count();
        (errors, latest.findings.len() - errors)
    }

    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Relaxed)
    }

    /// Returns how long the store took to make the latest update.
    pub(crate) fn load_time(&self) -> Duration {
        self.lock().took
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        // The value is replaced as a whole, so a panic cannot leave half of a change.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
