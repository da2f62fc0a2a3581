//! The watches of folders: one for each folder, so that a folder that cannot be watched does not concern the others.
//! The folder store and the layers of the runtime on disk have them.

mod identity;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

pub(crate) use self::identity::Identity;

/// The watches of a folder and of all folders below it.
#[derive(Debug)]
pub(crate) struct Watches(Mutex<WatchState>);

#[derive(Debug)]
struct WatchState {
    /// The source of events, until it is dropped; or the error of the system that has no watches to give.
    watcher: Result<RecommendedWatcher, String>,
    watched: HashMap<PathBuf, Option<Identity>>,
    /// Folders that cannot be watched, with the reason.
    unwatched: BTreeMap<PathBuf, String>,
}

/// Folders that are not watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unwatched {
    pub(crate) count: usize,
    /// One of them, and the error of the system.
    pub(crate) first: PathBuf,
    pub(crate) reason: String,
}

/// Whether an event may be a change. Reads are reported, too, and those of this process must not cause more of them. An
/// error counts as a change, because one may be lost.
pub(crate) fn is_change(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        },
        Err(_) => true,
    }
}

impl Watches {
    /// Prepares to watch. If the system has no watches to give, all folders are unwatched.
    pub(crate) fn start(watcher: notify::Result<RecommendedWatcher>) -> Self {
        Self(Mutex::new(WatchState {
            watcher: watcher.map_err(|error| error.to_string()),
            watched: HashMap::new(),
            unwatched: BTreeMap::new(),
        }))
    }

    /// Watches a folder, unless it is watched. Must be called before the folder is read. Returns whether the watch is
    /// new.
    pub(crate) fn visit(&self, folder: &Path) -> bool {
        let identity = Identity::of(folder).ok();
        let mut state = self.lock();
        let state = &mut *state;
        let watcher = match &mut state.watcher {
            Ok(watcher) => watcher,
            Err(reason) => {
                state.unwatched.insert(folder.into(), reason.clone());
                return false;
            }
        };
        match state.watched.get(folder) {
            Some(known) if *known == identity => return false,
            // Another folder is at the path now. If the former one was deleted, its watch has ended, too.
            Some(_) => drop(watcher.unwatch(folder)),
            None => {}
        }
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                state.unwatched.remove(folder);
                state.watched.insert(folder.into(), identity);
                true
            }
            Err(error) => {
                state.watched.remove(folder);
                let reason = error.to_string();
                state.unwatched.insert(folder.into(), reason);
                false
            }
        }
    }

    /// Forgets the watches of a folder that was deleted or moved, and of those below it: the next visit watches what is
    /// there then.
    pub(crate) fn forget(&self, folder: &Path) {
        self.retain(|path| !path.starts_with(folder));
    }

    /// Drops the watches outside of a folder: it has replaced another one.
    pub(crate) fn retain_below(&self, folder: &Path) {
        self.retain(|path| path.starts_with(folder));
    }

    /// Begins a walk: which folders cannot be watched will be known after it.
    pub(crate) fn begin_walk(&self) {
        self.lock().unwatched.clear();
    }

    /// Returns the folders that are not watched, if there are any. Folders for which `known` holds do not count.
    pub(crate) fn unwatched(&self, known: impl Fn(&Path) -> bool) -> Option<Unwatched> {
        let state = self.lock();
        let mut unwatched = state.unwatched.iter().filter(|(path, _)| !known(path));
        let (first, reason) = unwatched.next()?;
        Some(Unwatched {
            first: first.clone(),
            reason: reason.clone(),
            count: 1 + unwatched.count(),
        })
    }

    /// Watches these folders and no others. Returns whether the watches of one of them are new: changes before that are
    /// not reported.
    pub(crate) fn only<'f>(&self, folders: impl Iterator<Item = &'f Path>) -> bool {
        let folders: BTreeSet<&Path> = folders.collect();
        self.retain(|path| folders.contains(path));
        self.begin_walk();
        // Each folder is visited, whether another one is new or not.
        folders
            .into_iter()
            .filter(|folder| self.visit(folder))
            .count()
            > 0
    }

    fn retain(&self, keep: impl Fn(&Path) -> bool) {
        let mut state = self.lock();
        let WatchState {
            watcher, watched, ..
        } = &mut *state;
        watched.retain(|path, _| {
            let keep = keep(path);
            if let (false, Ok(watcher)) = (keep, watcher.as_mut()) {
                // The system has usually removed it already.
                let _ = watcher.unwatch(path);
            }
            keep
        });
    }

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
