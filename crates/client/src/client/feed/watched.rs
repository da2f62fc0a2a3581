//! When a file changed: the system's reports, and a look at it now and then.
//!
//! ```text
//!  report about its directory, or time to look ──► stamp ── as it was ──► wait on
//!                                                    └─ other ──► quiet for 50 ms ──► read it
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use oxds_types::file::Stamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::source::File;

/// How often to look where the system reports nothing: an update shows within a second (C-263).
const LOOK: Duration = Duration::from_millis(500);
/// And where it does: some file systems do not keep what it promises.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);
/// Whoever writes in place is given so long to go on …
const QUIET: Duration = Duration::from_millis(50);
/// … and no longer.
const AT_MOST: Duration = Duration::from_millis(500);

/// A watched file, which may be missing.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    directory: Option<PathBuf>,
    poll_interval: Option<Duration>,
    reports: Option<Reports>,
}

/// Reports until it is dropped.
#[derive(Debug)]
struct Reports {
    _watcher: RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
    arrived: Arc<Notify>,
}

impl Watched {
    pub(super) fn new(file: &File) -> Self {
        Self {
            path: file.path.clone(),
            directory: file.watched_directory.clone(),
            poll_interval: file.poll_interval,
            reports: None,
        }
    }

    /// Waits until there is a file in another state than this, and nobody writes to it. Cancel-safe.
    pub(super) async fn changed(&mut self, before: Stamp) -> Stamp {
        loop {
            // First of all: what happens from here on is reported.
            self.listen();
            let found = Stamp::of(&self.path);
            // A file that is gone, or yet to come, says nothing.
            if found != before && found != Stamp::default() {
                return self.quiet(found).await;
            }
            self.wait().await;
        }
    }

    async fn wait(&self) {
        match (&self.reports, self.poll_interval) {
            (_, Some(interval)) => sleep(interval).await,
            (None, None) => sleep(LOOK).await,
            // Late is as good as reported: it is looked at.
            (Some(reports), None) => drop(timeout(LOOK_ANYWAY, reports.arrived.notified()).await),
        }
    }

    async fn quiet(&self, mut found: Stamp) -> Stamp {
        let at_most = Instant::now() + AT_MOST;
        loop {
            sleep(QUIET).await;
            let now = Stamp::of(&self.path);
            if now == found || Instant::now() >= at_most {
                return now;
            }
            found = now;
        }
    }

    /// Has the directories reported that a change of the file shows in. They may have changed with it: where the path
    /// leads through links, the last of them counts, too.
    fn listen(&mut self) {
        if self.poll_interval.is_some() {
            return;
        }
        let directories = self.directories();
        let listening = self.reports.as_ref();
        if listening.is_none_or(|reports| reports.directories != directories) {
            self.reports = Reports::of(directories);
        }
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        let real = self.path.canonicalize().ok();
        let paths = [Some(self.path.as_path()), real.as_deref()];
        let parents = paths.into_iter().flatten().filter_map(Path::parent);
        let here = |parent: &Path| match parent.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => parent.to_owned(),
        };
        let parents = parents.map(here);
        parents.chain(self.directory.clone()).collect()
    }
}

impl Reports {
    /// None where one of them cannot be listened to.
    fn of(directories: BTreeSet<PathBuf>) -> Option<Self> {
        let arrived = Arc::new(Notify::new());
        let notified = Arc::clone(&arrived);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading is reported, too. What went wrong may have been a change.
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
