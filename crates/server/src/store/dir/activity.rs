//! Supervision of threads that may block.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The path that a thread is at, and since when. The thread writes it; the supervisor reads it.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity(Arc<Mutex<Option<(PathBuf, Instant)>>>);

impl Activity {
    /// Records that the thread begins with this path.
    pub(super) fn at(&self, path: &Path) {
        self.set(Some((path.into(), Instant::now())));
    }

    /// Records that the thread waits for nothing.
    pub(super) fn done(&self) {
        self.set(None);
    }

    /// Returns the path that the thread has been at for at least this time.
    pub(super) fn stuck_for(&self, limit: Duration) -> Option<PathBuf> {
        let at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = at.as_ref().filter(|(_, since)| since.elapsed() >= limit);
        stuck.map(|(path, _)| path.clone())
    }

    fn set(&self, at: Option<(PathBuf, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}
