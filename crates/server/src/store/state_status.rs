//! How far the state is saved, for the status page and the metrics.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How far the state is saved.
#[derive(Debug)]
pub(crate) struct StateStatus {
    file: PathBuf,
    keeps_secrets: bool,
    saves: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    latest: Mutex<Latest>,
}

/// The part that changes together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest {
    /// When the latest change was saved, by this process or an earlier one.
    pub(crate) saved_at: Option<SystemTime>,
    /// Since when there are changes that are not saved.
    pub(crate) unsaved_since: Option<Instant>,
    /// The error of the latest save.
    pub(crate) error: Option<String>,
}

impl StateStatus {
    pub(super) fn new(file: PathBuf, keeps_secrets: bool, saved_at: Option<SystemTime>) -> Self {
        Self {
            file,
            keeps_secrets,
            saves: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            latest: Mutex::new(Latest {
                saved_at,
                ..Latest::default()
            }),
        }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn keeps_secrets(&self) -> bool {
        self.keeps_secrets
    }

    /// Returns the number of saves.
    pub(crate) fn saves(&self) -> u64 {
        self.saves.load(Relaxed)
    }

    /// Returns the number of bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the number of saves that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    pub(crate) fn latest(&self) -> Latest {
        self.lock().clone()
    }

    /// Returns for how long changes have been unsaved; zero if all are saved.
    pub(crate) fn unsaved_for(&self) -> Duration {
        let since = self.lock().unsaved_since;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn note_unsaved(&self) {
        self.lock().unsaved_since.get_or_insert_with(Instant::now);
    }

    /// Records a save. `unsaved_since` is the time of the first change since it began.
    pub(super) fn note_saved(
        &self,
        bytes: u64,
        saved_at: Option<SystemTime>,
        unsaved_since: Option<Instant>,
    ) {
        self.saves.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        *self.lock() = Latest {
            saved_at,
            unsaved_since,
            error: None,
        };
    }

    /// Records that the changes make no difference to what is saved.
    pub(super) fn note_same(&self, unsaved_since: Option<Instant>) {
        self.lock().unsaved_since = unsaved_since;
    }

    pub(super) fn note_error(&self, error: String) {
        self.errors.fetch_add(1, Relaxed);
        self.lock().error = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        // Values are replaced as a whole, so a panic cannot leave half of a change.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
