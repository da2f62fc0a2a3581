//! Detects changes of a file, by reports of the operating system and by checks at intervals.
//!
//! ```text
//!  report about its directory, or end of the interval ──► stamp ── unchanged ──► wait again
//!                                                           └─ changed ──► no change for 50 ms ──► read the file
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use oxds_types::file::Stamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::spec::File;

/// Interval of checks where the operating system reports no changes: an update must show within a second (C-263).
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of checks where it does report them: on some file systems, reports get lost.
const BACKSTOP_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a change after which a file that is written in place counts as complete.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// Limit of the wait for [`QUIET_TIME`].
const MAX_QUIET_WAIT: Duration = Duration::from_millis(500);

/// Change detector of a file, which may be missing.
#[derive(Debug)]
pub(super) struct FileChanges {
    path: PathBuf,
    directory: Option<PathBuf>,
    poll_interval: Option<Duration>,
    /// Reports of the operating system, where they are available.
    reports: Option<ChangeReports>,
}

/// Subscription to change reports of directories, until dropped.
#[derive(Debug)]
struct ChangeReports {
    _watcher: RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
    arrived: Arc<Notify>,
}

impl FileChanges {
    pub(super) fn new(file: &File) -> Self {
        Self {
            path: file.path.clone(),
            directory: file.watched_directory.clone(),
            poll_interval: file.poll_interval,
            reports: None,
        }
    }

    /// Waits until the file has another stamp than `before` and is complete. Cancel-safe.
    pub(super) async fn changed(&mut self, before: Stamp) -> Stamp {
        loop {
            // Subscribe before the check, so that no change between the two is missed.
            self.subscribe();
            let found = Stamp::of(&self.path);
            // A missing file changes nothing: it may be in the middle of a replacement.
            if found != before && found != Stamp::default() {
                return self.until_quiet(found).await;
            }
            self.wait().await;
        }
    }

    async fn wait(&self) {
        match (&self.reports, self.poll_interval) {
            (_, Some(interval)) => sleep(interval).await,
            (None, None) => sleep(CHECK_INTERVAL).await,
            // A timeout leads to a check, as a report does.
            (Some(reports), None) => {
                drop(timeout(BACKSTOP_INTERVAL, reports.arrived.notified()).await);
            }
        }
    }

    async fn until_quiet(&self, mut found: Stamp) -> Stamp {
        let deadline = Instant::now() + MAX_QUIET_WAIT;
        loop {
            sleep(QUIET_TIME).await;
            let now = Stamp::of(&self.path);
            if now == found || Instant::now() >= deadline {
                return now;
            }
            found = now;
        }
    }

    /// Subscribes to the directories of the file. They may change with the file: if the path contains symbolic links,
    /// the directory of the link target counts too.
    fn subscribe(&mut self) {
        if self.poll_interval.is_some() {
            return;
        }
        let directories = self.directories();
        let current = self.reports.as_ref();
        if current.is_none_or(|reports| reports.directories != directories) {
            self.reports = ChangeReports::new(directories);
        }
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        let real = self.path.canonicalize().ok();
        let paths = [Some(self.path.as_path()), real.as_deref()];
        let parents = paths.into_iter().flatten().filter_map(Path::parent);
        let or_current = |parent: &Path| {
            if parent.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                parent.to_owned()
            }
        };
        let parents = parents.map(or_current);
        parents.chain(self.directory.clone()).collect()
    }
}

impl ChangeReports {
    /// Subscribes to directories; `None` if one of them cannot be watched.
    fn new(directories: BTreeSet<PathBuf>) -> Option<Self> {
        let arrived = Arc::new(Notify::new());
        let notified = Arc::clone(&arrived);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reads of this process are reported too, and are skipped. An error counts as a change, because one may be
            // lost.
            let is_reading = |event: notify::Event| matches!(event.kind, EventKind::Access(access) if !is_written(access));
            if !event.is_ok_and(is_reading) {
                notified.notify_one();
            }
        });
        let mut watcher = watcher.ok()?;
        for directory in &directories {
            watcher.watch(directory, RecursiveMode::NonRecursive).ok()?;
        }
        Some(Self {
            _watcher: watcher,
            directories,
            arrived,
        })
    }
}

fn is_written(access: notify::event::AccessKind) -> bool {
    use notify::event::{AccessKind, AccessMode};
    access == AccessKind::Close(AccessMode::Write)
}
