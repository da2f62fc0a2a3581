//! The thread that saves the state, beside the path of updates.
//!
//! ```text
//!              changes                                  saved
//!  ┌──────┐ ────────────▶ ┌────────┐ ───────────────────────────────▶ ┌───────┐ 100 ms
//!  │ idle │               │ saving │ ──── error ────▶ ┌────────┐      │ pause │ ──────▶ idle
//!  └──────┘               └────────┘ ◀─ 1 s … 1 min ─ │ failed │      └───────┘
//!                                                     └────────┘
//! ```
//!
//! Changes that come during a save are merged, so they take at most as much memory as the content. At the end of the
//! process there is a last save, whatever the state.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tracing::{info, warn};

use super::changes::Changes;
use super::file::StateFile;
use super::last_good::LastGood;
use crate::durable::Disk;
use crate::durable::lock::Lock;
use crate::store::state_status::StateStatus;
use crate::store::{Finding, Reporter, Severity, Update};

/// Times of the thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time after a save in which changes are collected. A disk takes milliseconds for a sync; ten of them per second
    /// are enough for a state that must be durable within a second.
    pub(super) pause: Duration,
    /// Time after the first error until the next try. It doubles with each error.
    pub(super) retry: Duration,
    pub(super) longest_retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            pause: Duration::from_millis(100),
            retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(60),
        }
    }
}

/// Time for the last save when the server ends: a dead disk must not keep the process.
const LAST_SAVE: Duration = Duration::from_secs(5);

/// Handle of the thread, for the one that applies updates. Dropping it ends the thread after a last save.
#[derive(Debug)]
pub(crate) struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pending: Mutex<Pending>,
    /// Notified when something pends, and when the thread has ended.
    changed: Condvar,
    status: Arc<StateStatus>,
}

#[derive(Debug, Default)]
struct Pending {
    changes: Changes,
    since: Option<Instant>,
    closing: bool,
    ended: bool,
}

/// Everything that the thread owns.
pub(super) struct Saver<D> {
    pub(super) file: StateFile<D>,
    pub(super) last_good: LastGood,
    pub(super) keeps_secrets: bool,
    /// Whether to save although nothing has changed.
    pub(super) is_due: bool,
    pub(super) pace: Pace,
    /// Findings about the file itself, which stay.
    pub(super) findings: Vec<Finding>,
    pub(super) reporter: Reporter,
    /// Lock of the folder, until the last save.
    pub(super) _lock: Option<Lock>,
}

impl Recorder {
    /// Records an update that was applied. Costs what the update costs, and never waits for the disk.
    pub(crate) fn record(&self, update: &Update) {
        let mut pending = self.0.lock();
        pending.changes.add_update(update);
        pending.since.get_or_insert_with(Instant::now);
        self.0.status.note_unsaved();
        self.0.changed.notify_all();
    }

    /// Ends the thread after a last save, and waits for it, for a limited time. Blocks.
    pub(crate) fn close(&self) {
        let mut pending = self.0.lock();
        pending.closing = true;
        self.0.changed.notify_all();
        let waited = self
            .0
            .changed
            .wait_timeout_while(pending, LAST_SAVE, |pending| !pending.ended);
        let (pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !pending.ended {
            warn!("the last changes of the state are not saved: the disk does not respond");
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        // Merged changes are complete after each call.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for changes; if some wait to be saved again, at most until `retry`. Returns `None` at the end.
    fn wait(&self, not_before: Option<Instant>, retry: Option<Instant>) -> Option<Changes> {
        let mut pending = self.lock();
        loop {
            let now = Instant::now();
            let is_early = not_before.is_some_and(|at| at > now);
            let has_any = !pending.changes.is_empty() && retry.is_none();
            let is_due = has_any || retry.is_some_and(|at| at <= now);
            if pending.closing || is_due && !is_early {
                let changes = std::mem::take(&mut pending.changes);
                pending.since = None;
                let is_last = pending.closing && changes.is_empty() && retry.is_none();
                return (!is_last).then_some(changes);
            }
            let until = [not_before.filter(|_| is_due), retry];
            let until = until.into_iter().flatten().max();
            let wait = until.map_or(Duration::from_secs(3600), |at| {
                at.saturating_duration_since(now)
            });
            let waited = self.changed.wait_timeout(pending, wait);
            (pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Marks the thread as ended, however it ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl<D: Disk + 'static> Saver<D> {
    /// Starts the thread.
    pub(super) fn start(mut self, status: Arc<StateStatus>) -> Recorder {
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            changed: Condvar::new(),
            status,
        });
        self.reporter.report(self.findings.clone());
        let ending = Ending(Arc::clone(&shared));
        let builder = std::thread::Builder::new().name("oxds-state".into());
        let started = builder.spawn(move || {
            self.run(&ending.0);
            // The lock first: one that waits for the end may take it.
            drop(self);
            drop(ending);
        });
        if let Err(error) = started {
            warn!(%error, "the state is not saved: no thread");
        }
        Recorder(shared)
    }

    fn run(&mut self, shared: &Shared) {
        let mut unsaved = Changes::default();
        let (mut not_before, mut retry) = (None, self.is_due.then(Instant::now));
        let (mut delay, mut has_failed) = (self.pace.retry, false);
        while let Some(changes) = shared.wait(not_before, retry) {
            unsaved.add(self.last_good.apply(changes, self.keeps_secrets));
            let is_closing = shared.lock().closing;
            if unsaved.is_empty() && !self.is_due {
                shared.status.note_same(shared.lock().since);
                continue;
            }
            let saved_at = SystemTime::now();
            let before = self.last_good.saved_at.replace(saved_at);
            match self.file.save(&self.last_good, &unsaved) {
                Ok(bytes) => {
                    (unsaved, self.is_due) = (Changes::default(), false);
                    shared
                        .status
                        .note_saved(bytes, Some(saved_at), shared.lock().since);
                    (not_before, retry) = (Some(Instant::now() + self.pace.pause), None);
                    if std::mem::take(&mut has_failed) {
                        info!("the state is saved again");
                        self.reporter.report(self.findings.clone());
                    }
                    delay = self.pace.retry;
                }
                Err(error) => {
                    self.last_good.saved_at = before;
                    shared.status.note_error(error.to_string());
                    self.failed(&error, shared);
                    if is_closing {
                        return;
                    }
                    has_failed = true;
                    retry = Some(Instant::now() + delay);
                    delay = (delay * 2).min(self.pace.longest_retry);
                }
            }
        }
    }

    fn failed(&self, error: &std::io::Error, shared: &Shared) {
        let message = format!(
            "the state is not saved: {error}; changes are served, and after a restart the state is that of the last save"
        );
        let finding = Finding {
            severity: Severity::Warning,
            ..Finding::for_file(shared.status.file(), "state", &message)
        };
        let mut findings = self.findings.clone();
        findings.push(finding);
        self.reporter.report(findings);
    }
}
