//! Watchers of an endpoint's load reports.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxds_client::load::OrcaLoadReport;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Receiver of reports. Must not block.
pub(crate) trait ReportSink: fmt::Debug + Send + Sync {
    /// Handles a report.
    fn report(&self, report: &OrcaLoadReport);
}

/// Watchers of the reports of a subchannel.
#[derive(Debug, Default)]
pub(super) struct ReportWatchers {
    watchers: Mutex<Watchers>,
    /// Notified when the watchers or the connections have changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Watchers {
    all: Vec<Watcher>,
    next_id: u64,
    /// The task runs.
    is_running: bool,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    period: Duration,
    sink: Arc<dyn ReportSink>,
}

impl ReportWatchers {
    /// Adds a watcher. Returns its id, and whether the task must be started.
    pub(super) fn add(&self, period: Duration, sink: Arc<dyn ReportSink>) -> (u64, bool) {
        let mut watchers = self.lock();
        let id = watchers.next_id;
        watchers.next_id += 1;
        watchers.all.push(Watcher { id, period, sink });
        let must_start = !std::mem::replace(&mut watchers.is_running, true);
        drop(watchers);
        self.changed.notify_waiters();
        (id, must_start)
    }

    pub(super) fn remove(&self, id: u64) {
        self.lock().all.retain(|watcher| watcher.id != id);
        self.changed.notify_waiters();
    }

    /// Notifies the task of a change of the connections.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the first change after this call.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the shortest period. Without watchers, returns `None`.
    pub(super) fn period(&self) -> Option<Duration> {
        let watchers = self.lock();
        // gRFC A51: the shortest interval counts.
        watchers.all.iter().map(|watcher| watcher.period).min()
    }

    /// Records the end of the task, unless there is a watcher. Returns whether it ends.
    pub(super) fn end(&self) -> bool {
        let mut watchers = self.lock();
        watchers.is_running = !watchers.all.is_empty();
        !watchers.is_running
    }

    /// Gives a report to all watchers.
    pub(super) fn report(&self, report: &OrcaLoadReport) {
        for watcher in &self.lock().all {
            watcher.sink.report(report);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watchers> {
        // Every change is a single step.
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
