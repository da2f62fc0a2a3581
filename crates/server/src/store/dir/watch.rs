//! The watch of a folder: collects the events of the file system until they pause.
//!
//! ```text
//!  ┌───────┐ event  ┌───────┐ quiet for 50 ms, or 500 ms after the first ┌──────┐
//!  │ clean │ ─────▶ │ dirty │ ─────────────────────────────────────────▶ │ read │
//!  └───────┘        └───────┘                                            └──────┘
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

use super::options::Error;
use super::scan::is_hidden;

/// The pause after which changes are read (S-72). One save causes several events.
const QUIET: Duration = Duration::from_millis(50);
/// The longest time from the first event to the read, for files that are written all the time (S-72).
const MAX_DELAY: Duration = Duration::from_millis(500);
/// The time between two walks over all files. Some file systems report nothing (network mounts, targets of links that
/// lie outside of the folder), so a walk finds what was missed.
const RESCAN: Duration = Duration::from_secs(30);
/// A walk takes at most this part of one core: 1/200.
const RESCAN_SHARE: u32 = 200;
/// The time between two checks for a folder that was deleted. The system does not report that it exists again.
const RETRY_ABSENT: Duration = Duration::from_secs(1);
/// The largest number of paths to remember. For more, a walk over all files is cheaper.
const MAX_PATHS: usize = 10_000;

/// The files that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dirty {
    /// These files, and no others.
    Files(BTreeSet<PathBuf>),
    /// All files with a changed stamp.
    Stamps,
    /// All files, whatever their stamp.
    Everything,
}

/// A watched folder.
#[derive(Debug)]
pub(super) struct Watch {
    /// The source of events, until it is dropped.
    watcher: RecommendedWatcher,
    events: Arc<Events>,
    /// The time until the next walk.
    rescan: Duration,
    /// Whether nothing has been read yet.
    unread: bool,
    /// Whether the latest read was for the timer, not for an event.
    by_timer: bool,
    /// Whether the folder did not exist at the latest read.
    absent: bool,
}

/// Events that were not read yet, shared with the thread of the watcher.
#[derive(Debug)]
struct Events {
    /// The folder as the operator named it. The ids of files begin with it.
    root: PathBuf,
    /// The folder as the system reports it.
    absolute: PathBuf,
    dirty: Mutex<Option<Dirty>>,
    arrived: Notify,
}

/// A handle that makes a folder store read all of its files again.
#[derive(Debug, Clone)]
pub struct Reload(Arc<Events>);

impl Reload {
    /// Makes the store read all files again, soon. Does not wait for it.
    pub fn reload(&self) {
        self.0.add(Dirty::Everything);
    }
}

impl Watch {
    pub(super) fn start(root: &Path) -> Result<Self, Error> {
        let unwatchable = |error: notify::Error| Error::Unwatchable {
            path: root.into(),
            reason: error.to_string(),
        };
        let absolute = std::path::absolute(root).map_err(|error| unwatchable(error.into()))?;
        let events = Arc::new(Events {
            root: root.into(),
            absolute: absolute.clone(),
            dirty: Mutex::default(),
            arrived: Notify::new(),
        });
        let handler = Arc::clone(&events);
        let mut watcher =
            notify::recommended_watcher(move |event| handler.handle(event)).map_err(unwatchable)?;
        watcher
            .watch(&absolute, RecursiveMode::Recursive)
            .map_err(unwatchable)?;
        Ok(Self {
            watcher,
            events,
            rescan: RESCAN,
            unread: true,
            by_timer: false,
            absent: false,
        })
    }

    pub(super) fn reload(&self) -> Reload {
        Reload(Arc::clone(&self.events))
    }

    /// Records how long the latest read took, and whether it changed anything. The time until the next walk follows from
    /// the duration.
    pub(super) fn refreshed(&mut self, took: Duration, changed: bool) {
        self.rescan = RESCAN.max(took * RESCAN_SHARE);
        let was_absent = std::mem::replace(&mut self.absent, !self.events.absolute.is_dir());
        if self.absent {
            self.rescan = RETRY_ABSENT;
        } else if was_absent || self.by_timer && changed {
            // A change without an event: the system may watch a folder that is no longer at this path.
            self.renew();
            self.events.add(Dirty::Stamps);
        }
    }

    /// Watches the folder that is at the path now: it may have been replaced, or a link to it changed.
    fn renew(&mut self) {
        let absolute = &self.events.absolute;
        // Fails if the previous folder was deleted; then there is nothing to undo.
        let _ = self.watcher.unwatch(absolute);
        if let Err(error) = self.watcher.watch(absolute, RecursiveMode::Recursive) {
            warn!(%error, folder = %self.events.root.display(), "folder cannot be watched, will be polled");
        }
    }

    /// Waits until files must be read and their events pause. The first call returns at once, with all files.
    pub(super) async fn changed(&mut self) -> Dirty {
        if std::mem::take(&mut self.unread) {
            self.events.lock().take();
            return Dirty::Everything;
        }
        let rescan = Instant::now() + self.rescan;
        self.by_timer = false;
        loop {
            if timeout_at(rescan, self.events.arrived.notified())
                .await
                .is_err()
            {
                self.by_timer = true;
                return Dirty::Stamps;
            }
            self.quiet().await;
            // Empty if an earlier call returned these events already.
            let dirty = self.events.lock().take();
            if let Some(dirty) = dirty {
                if dirty == Dirty::Everything {
                    self.renew();
                }
                return dirty;
            }
        }
    }

    /// Waits until the events pause.
    async fn quiet(&self) {
        let latest = Instant::now() + MAX_DELAY;
        loop {
            let quiet = (Instant::now() + QUIET).min(latest);
            tokio::select! {
                () = self.events.arrived.notified() => {}
                () = sleep_until(quiet) => return,
            }
        }
    }
}

impl Events {
    /// Handles an event, on the thread of the watcher.
    fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if is_only_a_read(event.kind) => {}
            Ok(event) if event.need_rescan() => self.add(Dirty::Stamps),
            Ok(event) => event
                .paths
                .iter()
                .filter_map(|path| self.concerns(path))
                .for_each(|dirty| {
                    self.add(dirty);
                }),
            Err(error) => {
                warn!(%error, folder = %self.root.display(), "watch error, looking at all files");
                self.add(Dirty::Stamps);
            }
        }
    }

    /// Returns the files that an event about this path makes dirty.
    fn concerns(&self, path: &Path) -> Option<Dirty> {
        // Kubernetes updates a ConfigMap by renaming the link `..data`, which all its files lead through.
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
        // A folder, or a deleted path that may have been a folder.
        (!path.is_file()).then_some(Dirty::Stamps)
    }

    fn add(&self, more: Dirty) {
        let mut dirty = self.lock();
        *dirty = Some(match dirty.take() {
            None => more,
            Some(before) => before.and(more),
        });
        drop(dirty);
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Dirty>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dirty {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Files(mut files), Self::Files(more))
                if files.len() + more.len() <= MAX_PATHS =>
            {
                files.extend(more);
                Self::Files(files)
            }
            _ => Self::Stamps,
        }
    }
}

/// Whether an event is only a read. The store's own reads cause such events, and must not cause more reads.
fn is_only_a_read(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s72_file_ids_begin_with_the_folder_as_named() {
        let events = Events {
            root: "config".into(),
            absolute: "/home/.me/config".into(),
            dirty: Mutex::default(),
            arrived: Notify::new(),
        };
        let dirty = events.concerns(Path::new("/home/.me/config/a/b.yaml"));
        let id = PathBuf::from("config/a/b.yaml");
        assert_eq!(dirty, Some(Dirty::Files(BTreeSet::from([id]))));
        assert_eq!(
            events.concerns(Path::new("/home/.me/config/.b.yaml.swp")),
            None
        );
    }

    /// Returns a folder that was read once, and an event about a file in it.
    async fn folder_after_first_read() -> (tempfile::TempDir, Watch, Dirty) {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::start(folder.path()).unwrap();
        assert_eq!(watch.changed().await, Dirty::Everything);
        let file = Dirty::Files(BTreeSet::from([folder.path().join("a.yaml")]));
        (folder, watch, file)
    }

    #[tokio::test]
    async fn s72_change_is_read_after_a_pause() {
        let (_folder, mut watch, file) = folder_after_first_read().await;
        let begun = Instant::now();
        watch.events.add(file.clone());
        assert_eq!(watch.changed().await, file);
        assert!(begun.elapsed() >= QUIET, "{:?}", begun.elapsed());
    }

    /// Given a writer that never pauses, then the changes are read all the same.
    #[tokio::test]
    async fn s72_events_without_a_pause_are_read_in_time() {
        let (_folder, mut watch, file) = folder_after_first_read().await;
        let events = Arc::clone(&watch.events);
        let writing = async {
            loop {
                events.add(file.clone());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = writing => unreachable!("the writer never stops"),
            dirty = watch.changed() => assert_eq!(dirty, file),
            () = tokio::time::sleep(MAX_DELAY * 20) => panic!("not read"),
        }
    }
}
