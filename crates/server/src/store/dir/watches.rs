//! The watches of folders: one for each folder, so that a folder that cannot be watched does not concern the others.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::identity::Identity;
use crate::store::finding::{Finding, Severity};

/// The watches of a folder and of all folders below it.
#[derive(Debug)]
pub(super) struct Watches(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The source of events, until it is dropped; or the error of the system that has no watches to give.
    watcher: Result<RecommendedWatcher, String>,
    watched: HashMap<PathBuf, Option<Identity>>,
    /// Folders that cannot be watched, with the reason.
    unwatched: BTreeMap<PathBuf, String>,
}

impl Watches {
    /// Prepares to watch. If the system has no watches to give, all folders are unwatched.
    pub(super) fn start(watcher: notify::Result<RecommendedWatcher>) -> Self {
        Self(Mutex::new(State {
            watcher: watcher.map_err(|error| error.to_string()),
            watched: HashMap::new(),
            unwatched: BTreeMap::new(),
        }))
    }

    /// Watches a folder, unless it is watched. Must be called before the folder is read.
    pub(super) fn visit(&self, folder: &Path) {
        let identity = Identity::of(folder).ok();
        let mut state = self.lock();
        let state = &mut *state;
        let watcher = match &mut state.watcher {
            Ok(watcher) => watcher,
            Err(reason) => {
                state.unwatched.insert(folder.into(), reason.clone());
                return;
            }
        };
        match state.watched.get(folder) {
            Some(known) if *known == identity => return,
            // Another folder is at the path now. Its predecessor may be gone, then there is nothing to undo.
            Some(_) => drop(watcher.unwatch(folder)),
            None => {}
        }
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                state.unwatched.remove(folder);
                state.watched.insert(folder.into(), identity);
            }
            Err(error) => {
                state.watched.remove(folder);
                let reason = error.to_string();
                state.unwatched.insert(folder.into(), reason);
            }
        }
    }

    /// Forgets the watches of a folder that was deleted or moved, and of those below it: the next visit watches what is
    /// there then.
    pub(super) fn forget(&self, folder: &Path) {
        self.retain(|path| !path.starts_with(folder));
    }

    /// Drops the watches outside of a folder: it has replaced another one.
    pub(super) fn retain_below(&self, folder: &Path) {
        self.retain(|path| path.starts_with(folder));
    }

    /// Begins a walk: which folders cannot be watched will be known after it.
    pub(super) fn begin_walk(&self) {
        self.lock().unwatched.clear();
    }

    /// Returns a finding if folders are not watched. Folders for which `known` holds have a finding already.
    pub(super) fn finding(&self, root: &Path, known: impl Fn(&Path) -> bool) -> Option<Finding> {
        let state = self.lock();
        let mut unwatched = state.unwatched.iter().filter(|(path, _)| !known(path));
        let (first, reason) = unwatched.next()?;
        let count = 1 + unwatched.count();
        let folders = if count == 1 {
            "folder is"
        } else {
            "folders are"
        };
        let message = format!(
            "{count} {folders} not watched, but polled every second: {}: {reason}",
            first.display()
        );
        Some(Finding {
            severity: Severity::Warning,
            ..Finding::for_file(root, "unwatched", &message)
        })
    }

    fn retain(&self, keep: impl Fn(&Path) -> bool) {
        let mut state = self.lock();
        let State {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
