//! When to look at the folder again: the system's reports, gathered until they pause.
//!
//! ```text
//!  ┌───────┐ report ┌─────────┐ quiet for 50 ms, or 500 ms after the first ┌──────┐
//!  │ Clean │ ─────▶ │ Dirtied │ ──────────────────────────────────────────▶ │ read │
//!  └───────┘        └─────────┘                                             └──────┘
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use oxds_types::codec::Format;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

use super::Error;
use super::scan::is_hidden;

/// A save is several reports; the last of them is followed by this much silence (S-72).
const QUIET: Duration = Duration::from_millis(50);
/// Somebody who never stops writing is read all the same (S-72).
const AT_MOST: Duration = Duration::from_millis(500);
/// File systems exist that report nothing (network mounts, targets of links outside): a walk that often finds what
/// was missed …
const RESCAN: Duration = Duration::from_secs(30);
/// … but takes at most this part of one core.
const RESCAN_SHARE: u32 = 200;
/// How often it is looked whether a folder that is gone is there again: nobody reports that.
const ABSENT: Duration = Duration::from_secs(1);
/// Paths remembered one by one; beyond, a walk over all is cheaper.
const PATHS: usize = 10_000;

/// What must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dirty {
    /// These files, and no others.
    Files(BTreeSet<PathBuf>),
    /// Files whose stamp differs.
    Stamps,
    /// All files, whatever their stamp.
    Everything,
}

/// A watched folder.
#[derive(Debug)]
pub(super) struct Watch {
    /// Reports until it is dropped.
    watcher: RecommendedWatcher,
    shared: Arc<Shared>,
    rescan: Duration,
    /// Nothing has been looked at yet.
    unread: bool,
    /// The latest look was not for a report.
    by_walk: bool,
    /// The latest look found no folder at all.
    absent: bool,
}

#[derive(Debug)]
struct Shared {
    /// As the operator named it, and as files below it are known.
    root: PathBuf,
    /// As the system reports it.
    absolute: PathBuf,
    dirty: Mutex<Option<Dirty>>,
    reported: Notify,
}

/// Makes a store read all of its folder again.
#[derive(Debug, Clone)]
pub struct Reload(Arc<Shared>);

impl Reload {
    /// Does so, soon.
    pub fn reload(&self) {
        self.0.report(Dirty::Everything);
    }
}

impl Watch {
    pub(super) fn start(root: &Path) -> Result<Self, Error> {
        let unwatchable = |error: notify::Error| Error::Unwatchable {
            path: root.into(),
            reason: error.to_string(),
        };
        let absolute = std::path::absolute(root).map_err(|error| unwatchable(error.into()))?;
        let shared = Arc::new(Shared {
            root: root.into(),
            absolute: absolute.clone(),
            dirty: Mutex::default(),
            reported: Notify::new(),
        });
        let reports = Arc::clone(&shared);
        let mut watcher =
            notify::recommended_watcher(move |event| reports.handle(event)).map_err(unwatchable)?;
        watcher
            .watch(&absolute, RecursiveMode::Recursive)
            .map_err(unwatchable)?;
        Ok(Self {
            watcher,
            shared,
            rescan: RESCAN,
            unread: true,
            by_walk: false,
            absent: false,
        })
    }

    pub(super) fn reload(&self) -> Reload {
        Reload(Arc::clone(&self.shared))
    }

    /// How long the last look took: the next walk waits in proportion. A walk that found what was not reported means
    /// that the system may watch what is not there any more; a folder that is there again certainly does.
    pub(super) fn scanned(&mut self, took: Duration, found: bool) {
        self.rescan = RESCAN.max(took * RESCAN_SHARE);
        let was_absent = std::mem::replace(&mut self.absent, !self.shared.absolute.is_dir());
        if self.absent {
            self.rescan = ABSENT;
        } else if was_absent || self.by_walk && found {
            self.renew();
            self.shared.report(Dirty::Stamps);
        }
    }

    /// Watches what is at the path now: another folder may have been put, or linked, in its place.
    fn renew(&mut self) {
        let absolute = &self.shared.absolute;
        // It fails where the old folder is gone.
        let _ = self.watcher.unwatch(absolute);
        if let Err(error) = self.watcher.watch(absolute, RecursiveMode::Recursive) {
            warn!(%error, folder = %self.shared.root.display(), "cannot be watched; looking at it now and then");
        }
    }

    /// Waits until something must be looked at, and the reports of it have paused. At first, that is everything, at
    /// once.
    pub(super) async fn changed(&mut self) -> Dirty {
        if std::mem::take(&mut self.unread) {
            self.shared.lock().take();
            return Dirty::Everything;
        }
        let rescan = Instant::now() + self.rescan;
        self.by_walk = false;
        loop {
            if timeout_at(rescan, self.shared.reported.notified())
                .await
                .is_err()
            {
                self.by_walk = true;
                return Dirty::Stamps;
            }
            self.quiet().await;
            // Empty if all that was reported had been looked at by then.
            let dirty = self.shared.lock().take();
            if let Some(dirty) = dirty {
                if dirty == Dirty::Everything {
                    self.renew();
                }
                return dirty;
            }
        }
    }

    /// Waits until the reports pause.
    async fn quiet(&self) {
        let at_most = Instant::now() + AT_MOST;
        loop {
            let quiet = (Instant::now() + QUIET).min(at_most);
            tokio::select! {
                () = self.shared.reported.notified() => {}
                () = sleep_until(quiet) => return,
            }
        }
    }
}

impl Shared {
    /// Called by the watcher's thread.
    fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if is_mere_reading(event.kind) => {}
            Ok(event) if event.need_rescan() => self.report(Dirty::Stamps),
            Ok(event) => event
                .paths
                .iter()
                .filter_map(|path| self.concerns(path))
                .for_each(|dirty| {
                    self.report(dirty);
                }),
            Err(error) => {
                warn!(%error, folder = %self.root.display(), "a change could not be seen; looking at all files");
                self.report(Dirty::Stamps);
            }
        }
    }

    /// What a report about a path makes dirty.
    fn concerns(&self, path: &Path) -> Option<Dirty> {
        // Kubernetes replaces what all files link to by renaming `..data`.
        if path.file_name().is_some_and(|name| name == "..data") {
            return Some(Dirty::Stamps);
        }
        let below = path.strip_prefix(&self.absolute).unwrap_or(path);
        if below.ancestors().any(is_hidden) {
            return None;
        }
        if Format::from_path(path).is_some() {
            return Some(Dirty::Files(BTreeSet::from([self.root.join(below)])));
        }
        // A folder that came or went, or something that is no more and may have been one.
        (!path.is_file()).then_some(Dirty::Stamps)
    }

    fn report(&self, more: Dirty) {
        let mut dirty = self.lock();
        *dirty = Some(match dirty.take() {
            None => more,
            Some(before) => before.and(more),
        });
        drop(dirty);
        self.reported.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Dirty>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dirty {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Files(mut files), Self::Files(more)) if files.len() + more.len() <= PATHS => {
                files.extend(more);
                Self::Files(files)
            }
            _ => Self::Stamps,
        }
    }
}

/// Our own reading is reported too, and must not lead to more of it.
fn is_mere_reading(resource_type: EventKind) -> bool {
    match resource_type {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s72_a_file_is_known_below_the_folder_as_it_was_named() {
        let shared = Shared {
            root: "config".into(),
            absolute: "/home/.me/config".into(),
            dirty: Mutex::default(),
            reported: Notify::new(),
        };
        let dirty = shared.concerns(Path::new("/home/.me/config/a/b.yaml"));
        let known = PathBuf::from("config/a/b.yaml");
        assert_eq!(dirty, Some(Dirty::Files(BTreeSet::from([known]))));
        assert_eq!(
            shared.concerns(Path::new("/home/.me/config/.b.yaml.swp")),
            None
        );
    }

    /// A folder that has been looked at, and a report of a file in it.
    async fn looked_at() -> (tempfile::TempDir, Watch, Dirty) {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::start(folder.path()).unwrap();
        assert_eq!(watch.changed().await, Dirty::Everything);
        let file = Dirty::Files(BTreeSet::from([folder.path().join("a.yaml")]));
        (folder, watch, file)
    }

    #[tokio::test]
    async fn s72_a_report_is_followed_by_a_pause() {
        let (_folder, mut watch, file) = looked_at().await;
        let begun = Instant::now();
        watch.shared.report(file.clone());
        assert_eq!(watch.changed().await, file);
        assert!(begun.elapsed() >= QUIET, "{:?}", begun.elapsed());
    }

    /// Given one who never stops writing; then it is read all the same.
    #[tokio::test]
    async fn s72_reports_without_a_pause_are_not_waited_for_for_ever() {
        let (_folder, mut watch, file) = looked_at().await;
        let shared = Arc::clone(&watch.shared);
        let writing = async {
            loop {
                shared.report(file.clone());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = writing => unreachable!("it never stops"),
            dirty = watch.changed() => assert_eq!(dirty, file),
            () = tokio::time::sleep(AT_MOST * 20) => panic!("not read"),
        }
    }
}
