//! The folder store itself, and the load of a folder without watching it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::folder::Folder;
use super::options::{Error, Options, Report};
use super::watch::{Dirty, Reload, Watch};
use crate::store::finding::Finding;
use crate::store::update::{Origin, Store, Update};

/// The name of this store in [`Origin::store`].
const STORE: &str = "dir";

/// Reads a folder once, as `oxds validate` does.
///
/// # Errors
/// When the folder cannot be read. Errors in files become findings of the report.
pub fn load(path: &Path, options: &Options) -> Result<Report, Error> {
    check(path)?;
    let started = Instant::now();
    let mut folder = Folder::new(path, options.clone());
    let update = folder.refresh(&Dirty::Everything);
    let in_groups = update.groups.into_iter();
    let in_groups = in_groups.flat_map(|group| group.changes.upserts);
    let resources = update.changes.upserts.into_iter().chain(in_groups);
    Ok(Report {
        resources: resources.collect(),
        files: folder.files(),
        findings: update.findings,
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

/// A folder of resource files, watched.
#[derive(Debug)]
pub struct DirStore {
    root: PathBuf,
    folder: Arc<Mutex<Folder>>,
    watch: Watch,
}

impl DirStore {
    /// Begins to watch a folder. The first [`Store::next`] reads it.
    ///
    /// # Errors
    /// When the folder cannot be read or watched.
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, Error> {
        let path = path.into();
        check(&path)?;
        // Watch before reading: a change in between is then read again.
        let watch = Watch::start(&path)?;
        let folder = Arc::new(Mutex::new(Folder::new(&path, options)));
        Ok(Self {
            root: path,
            folder,
            watch,
        })
    }

    /// Returns a handle that makes the store read the whole folder again (on SIGHUP, for example).
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
            let mut update = folder.refresh(&dirty);
            update.origin.store = STORE.into();
            update.took = started.elapsed();
            update
        });
        match refreshed.await {
            Ok(update) => {
                let changed = !update.changes.is_empty() || !update.groups.is_empty();
                self.watch.refreshed(update.took, changed);
                Some(update)
            }
            // A bug, and the panic hook reports it. The last good state stays served; the next change is another try.
            Err(error) if error.is_panic() => Some(Update {
                findings: vec![Finding::of_rule(
                    &self.root,
                    "internal",
                    "internal error: a panic while the folder was read",
                )],
                origin: Origin::new(STORE),
                ..Update::default()
            }),
            // The runtime shuts down.
            Err(_) => None,
        }
    }
}
