//! Counts of the channel that no response has: attempts and ejections. They are metrics of the channel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_client::metrics::{
    ATTEMPT_STARTED, BACKEND_SERVICE, Bound, CALL_TRANSPARENT_RETRIES, EJECTIONS_ENFORCED,
    Instrument, Recorder,
};

/// Counts of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    attempts: AtomicU64,
    transparent_retries: AtomicU64,
    ejections: Mutex<Ejections>,
}

/// Number of ejections by cluster and detection method.
pub(super) type Ejections = BTreeMap<(String, String), u64>;

impl Counts {
    pub(super) fn attempts(&self) -> u64 {
        self.0.attempts.load(Ordering::Relaxed)
    }

    pub(super) fn transparent_retries(&self) -> u64 {
        self.0.transparent_retries.load(Ordering::Relaxed)
    }

    pub(super) fn ejections(&self) -> Ejections {
        self.0.ejections().clone()
    }
}

impl Totals {
    fn ejections(&self) -> MutexGuard<'_, Ejections> {
        // Every change is a single step.
        self.ejections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Counts {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        // The labels are the target, the method and the cluster.
        if let ([_, method, cluster], true) = (labels, counter.name == EJECTIONS_ENFORCED.name) {
            let key = ((*cluster).to_owned(), (*method).to_owned());
            *self.0.ejections().entry(key).or_default() += by;
        }
    }

    fn set(&self, _: &'static Instrument, _: &[&str], _: i64) {}

    fn end(&self, _: &'static Instrument, _: &[&str]) {}

    fn wants_label(&self, key: &str) -> bool {
        key == BACKEND_SERVICE
    }

    fn bind(&self, instrument: &'static Instrument, _: &[&str]) -> Option<Box<dyn Bound>> {
        Some(Box::new(BoundCount {
            state: Arc::clone(&self.0),
            instrument,
        }))
    }
}

/// A measurement of RPCs.
#[derive(Debug)]
struct BoundCount {
    state: Arc<Totals>,
    instrument: &'static Instrument,
}

impl Bound for BoundCount {
    fn add(&self, by: u64) {
        if self.instrument.name == ATTEMPT_STARTED.name {
            self.state.attempts.fetch_add(by, Ordering::Relaxed);
        }
    }

    fn record(&self, value: f64) {
        if self.instrument.name == CALL_TRANSPARENT_RETRIES.name {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of retries"
            )]
            let retries = value as u64;
            let counter = &self.state.transparent_retries;
            counter.fetch_add(retries, Ordering::Relaxed);
        }
    }
}
