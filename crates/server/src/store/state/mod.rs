//! The last good state of a store, on disk (G-25): a server that starts while its store is broken or away serves it.
//!
//! ```text
//!  start:    file ──▶ LastGood ──▶ cache, marked as stale, if the store does not deliver at once
//!                        └─ first update of the store ──▶ the difference ──▶ cache
//!
//!  running:  store ──▶ Update ──▶ cache
//!                        └──▶ Recorder ──▶ thread ──▶ file: checkpoint and log
//! ```
//!
//! The state is that of one source, and one process uses it at a time. A file that is damaged, of another format or of
//! another source is never used, not even in part: it is kept under another name, and the server starts as without a
//! state.
//!
//! The file has everything that the store yields: resources with groups, TTLs, references and origins, the matchers of
//! groups, and the position of the store. Versions are hashes of the content, so they are the same after a restart, and
//! clients get only what differs. Secrets are kept only on request; without them, clients that ask for secrets wait for
//! the store.

mod changes;
mod file;
mod last_good;
mod path;
mod record;
mod saver;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::info;

pub use last_good::LastGood;
pub(crate) use saver::Recorder;

use super::state_status::StateStatus;
use super::{Finding, Reporter, Severity};
use crate::durable::lock::{Lock, LockError};
use crate::durable::{Disk as _, Folder};
use file::{Invalid, NAME, Source, StateFile};
use saver::{Pace, Saver};

/// The last good state of a store, in a folder of the disk. Give it to [`Builder::state`](crate::Builder::state).
///
/// ```no_run
/// use oxds_server::{DirStore, Server, SavedState, StateOptions, dir};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let state = SavedState::open("/var/lib/oxds", StateOptions::of_folder("/etc/oxds"))?;
/// let mut options = dir::Options::default();
/// options.last_good = state.last_good();
/// let store = DirStore::open("/etc/oxds", options)?;
/// let server = Server::builder().store(store).state(state).bind().await?;
/// # Ok(())
/// # }
/// ```
pub struct SavedState {
    file: StateFile<Folder>,
    path: PathBuf,
    keeps_secrets: bool,
    /// Whether the file has something that must not stay in it.
    is_due: bool,
    last_good: Option<Arc<LastGood>>,
    findings: Vec<Finding>,
    lock: Lock,
}

/// Source and content of a state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StateOptions {
    /// Source of the store. A state of another source is not used.
    pub identity: String,
    /// Root of all documents ([`ResourceOrigin`](crate::ResourceOrigin)): their paths are kept below it. Default:
    /// empty.
    pub root: PathBuf,
    /// Whether resources of type `Secret` are kept. Default: they are not, and clients that ask for them wait for the
    /// store.
    pub keep_secrets: bool,
}

impl StateOptions {
    /// Returns the options for a store of your own. `identity` names its source: `consul:10.0.0.1/shop`, for example.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            root: PathBuf::new(),
            keep_secrets: false,
        }
    }

    /// Returns the options for a [`DirStore`](crate::DirStore) of this folder. Its source is the path, with links as
    /// they are: a link that leads to another folder by now is the same source.
    #[must_use]
    pub fn of_folder(folder: impl Into<PathBuf>) -> Self {
        let root = folder.into();
        let absolute = std::path::absolute(&root).unwrap_or_else(|_| root.clone());
        // Without a slash at the end.
        let absolute: PathBuf = absolute.components().collect();
        let identity = format!("dir:{}", absolute.display());
        Self {
            root,
            ..Self::new(identity)
        }
    }

    /// Sets whether resources of type `Secret` are kept.
    #[must_use]
    pub fn keep_secrets(mut self, keep: bool) -> Self {
        self.keep_secrets = keep;
        self
    }
}

/// A folder that cannot be used for the state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process uses the folder.
    #[error("{} is in use by {holder}: expected a folder of its own for each server", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process.
        holder: String,
    },
    /// The folder or a file in it cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl SavedState {
    /// Takes a folder, which is made if it does not exist, and reads the state in it. Blocks.
    ///
    /// A state that is damaged, of another format or of another source is renamed and reported, without an error.
    ///
    /// # Errors
    /// Another process uses the folder, or it cannot be read.
    pub fn open(folder: impl AsRef<Path>, options: StateOptions) -> Result<Self, StateError> {
        let folder = folder.as_ref();
        let failed = |path: &Path, source: io::Error| StateError::Io {
            path: path.to_owned(),
            source,
        };
        let disk = Folder::open(folder).map_err(|error| failed(folder, error))?;
        let lock = Lock::take(folder).map_err(|error| match error {
            LockError::Io(error) => failed(folder, error),
            LockError::InUse(holder) => StateError::InUse {
                folder: folder.to_owned(),
                holder,
            },
        })?;
        let StateOptions {
            identity,
            root,
            keep_secrets,
        } = options;
        let (source, path) = (Source { identity, root }, disk.path(NAME));
        let bytes = disk.read(NAME).map_err(|error| failed(&path, error))?;
        let (mut findings, mut is_due) = (Vec::new(), false);
        let read = match bytes.map(|bytes| file::read(&bytes.into(), &source)) {
            None => None,
            Some(Ok(read)) => Some(read),
            Some(Err(invalid)) => {
                let kept = file::aside(Path::exists, folder);
                let renamed = disk.rename(NAME, &kept);
                renamed.map_err(|error| failed(&path, error))?;
                findings.push(not_used(&path, &invalid, &disk.path(&kept)));
                None
            }
        };
        let (mut last_good, mut log) = (None, None);
        if let Some(mut read) = read {
            is_due = !keep_secrets && read.last_good.omit_secrets();
            if read.unfinished > 0 {
                let (file, bytes) = (path.display(), read.unfinished);
                info!(%file, bytes, "unfinished record of the state ignored: it was never reported as saved");
            }
            // Secrets leave the disk by a new checkpoint.
            log = read.log.filter(|_| !is_due);
            last_good = Some(Arc::new(read.last_good));
        }
        Ok(Self {
            file: StateFile::new(disk, source, log),
            path,
            keeps_secrets: keep_secrets,
            is_due,
            last_good,
            findings,
            lock,
        })
    }

    /// Returns the state that an earlier process kept.
    #[must_use]
    pub fn last_good(&self) -> Option<Arc<LastGood>> {
        self.last_good.clone()
    }

    /// Starts to save. Returns the state to serve until the store delivers, too.
    pub(crate) fn start(self, reporter: Reporter) -> Started {
        let saved_at = self.last_good.as_ref().and_then(|known| known.saved_at());
        let status = StateStatus::new(self.path, self.keeps_secrets, saved_at);
        let status = Arc::new(status);
        let saver = Saver {
            file: self.file,
            last_good: self.last_good.as_deref().cloned().unwrap_or_default(),
            keeps_secrets: self.keeps_secrets,
            is_due: self.is_due,
            pace: Pace::default(),
            findings: self.findings,
            reporter,
            _lock: Some(self.lock),
        };
        Started {
            recorder: Arc::new(saver.start(Arc::clone(&status))),
            status,
            last_good: self.last_good,
        }
    }
}

/// A state that is being saved.
pub(crate) struct Started {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) status: Arc<StateStatus>,
    /// The state of an earlier process.
    pub(crate) last_good: Option<Arc<LastGood>>,
}

fn not_used(path: &Path, invalid: &Invalid, kept: &Path) -> Finding {
    let message = format!(
        "the state of an earlier process is not used: {invalid}; it is kept as {}",
        kept.display()
    );
    Finding {
        severity: Severity::Warning,
        ..Finding::for_file(path, "state", &message)
    }
}

impl fmt::Debug for SavedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedState")
            .field("path", &self.path)
            .field("keeps_secrets", &self.keeps_secrets)
            .field(
                "last_good",
                &self.last_good.as_ref().map(|known| known.len()),
            )
            .finish_non_exhaustive()
    }
}
