//! The `dir` store: a folder of resource files, watched (S-69, S-71 … S-73, S-75).
//!
//! ```text
//!  notify ──paths──▶ Watch ──quiet 50 ms──▶ scan ──stamps──▶ read, in parallel ──▶ Folder ──▶ Update
//!                    (debounce)             (walk)           (files that changed)  (merge)
//! ```
//!
//! What lies in `groups/<name>/` is for the nodes that `groups/<name>/group.yaml` names, all else for all nodes.
//!
//! Every `*.yaml, *.yml, *.json, *.pb_text, *.textproto, *.pb` below the folder is read; hidden files and folders are
//! not. A file that fails changes nothing of what it held before: its last good resources stay served until it is
//! mended or deleted, and the other files still apply.

mod file;
mod folder;
mod group;
mod owners;
mod references;
mod scan;
mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oxds_core::snapshot::Resource;
use oxds_types::codec;

use crate::store::{Finding, Severity, Store, Update};
use folder::Folder;
pub use watch::Reload;
use watch::{Dirty, Watch};

/// How a folder is read.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// How files are decoded and checked.
    pub codec: codec::Options,
    /// Whether a reference to nothing is an error instead of a warning (S-70).
    pub strict: bool,
    /// Told how far a long load is: files read, files in all (S-75).
    pub progress: Option<Progress>,
}

/// A listener to the progress of a load, called from many threads.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Why a folder cannot be served at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such folder, or it may not be entered.
    #[error("cannot read the folder {}: {reason}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is a file.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The system refuses to report changes.
    #[error("cannot watch the folder {}: {reason}", path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// What a folder holds, and what is wrong with it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The resources that would be served, be it to some nodes only.
    pub resources: Vec<Arc<Resource>>,
    /// How many files were read.
    pub files: usize,
    /// What is wrong, sorted by file and place.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// How many findings are this bad.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}

/// Reads a folder once, as `oxds validate` does.
pub fn load(path: &Path, options: &Options) -> Result<Report, Error> {
    check(path)?;
    let started = Instant::now();
    let mut folder = Folder::new(path, options.clone());
    let (changes, findings) = folder.refresh(&Dirty::Everything);
    let groups = changes.groups.into_values();
    let in_groups = groups.flat_map(|group| group.changes.upserts);
    let resources = changes.root.upserts.into_iter().chain(in_groups);
    Ok(Report {
        resources: resources.collect(),
        files: folder.files(),
        findings,
        took: started.elapsed(),
    })
}

fn check(path: &Path) -> Result<(), Error> {
    let unreadable = |error: std::io::Error| Error::Unreadable {
        path: path.into(),
        reason: error.to_string(),
    };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err(Error::NotAFolder(path.into()));
    }
    std::fs::read_dir(path).map(drop).map_err(unreadable)
}

/// A folder, watched.
#[derive(Debug)]
pub struct DirStore {
    root: PathBuf,
    folder: Arc<Mutex<Folder>>,
    watch: Watch,
}

impl DirStore {
    /// Begins to watch a folder. It is read by the first [`Store::next`].
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, Error> {
        let path = path.into();
        check(&path)?;
        // Watched before it is read: what changes in between is read again.
        let watch = Watch::start(&path)?;
        let folder = Arc::new(Mutex::new(Folder::new(&path, options)));
        Ok(Self {
            root: path,
            folder,
            watch,
        })
    }

    /// A handle that makes the store read all of the folder again, whatever the system reports (SIGHUP).
    #[must_use]
    pub fn reload(&self) -> Reload {
        self.watch.reload()
    }
}

impl Store for DirStore {
    async fn next(&mut self) -> Option<Update> {
        let dirty = self.watch.changed().await;
        let folder = Arc::clone(&self.folder);
        let refreshed = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let mut folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
            let (changes, findings) = folder.refresh(&dirty);
            Update {
                changes: changes.root,
                groups: changes.groups.into_values().collect(),
                findings,
                took: started.elapsed(),
            }
        });
        match refreshed.await {
            Ok(update) => {
                let found = !update.changes.is_empty() || !update.groups.is_empty();
                self.watch.scanned(update.took, found);
                Some(update)
            }
            // A bug, reported by the panic hook: the last good state stays, and the next change is another chance.
            Err(error) if error.is_panic() => Some(Update {
                findings: vec![file::finding(&self.root, "internal", "reading it panicked")],
                ..Update::default()
            }),
            // The runtime is shutting down.
            Err(_) => None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("codec", &self.codec)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}
