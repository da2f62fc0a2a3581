//! The folder store itself, and the load of a folder without watching it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oxds_types::lifecycle::Policy;
use tokio::sync::mpsc;

use super::STORE;
use super::disk::{Disk, Machine};
use super::folder::{Folder, NO_RESPONSE, Setup};
use super::message::Message;
use super::options::{Error, Options, Report};
use super::replacement::{self, Before};
use crate::store::finding::Finding;
use crate::store::update::{Origin, Store, Update};
use crate::watches::Identity;

/// The largest number of findings of an update. Every update carries all of them.
const MAX_FINDINGS: usize = 1_000;

/// Reads a folder once, as `oxds validate` does.
///
/// # Errors
/// When the folder cannot be read. Errors in files become findings of the report.
pub fn load(path: &Path, options: &Options) -> Result<Report, Error> {
    check(path)?;
    let started = Instant::now();
    let first = Arc::new(Mutex::new(Update::default()));
    let sink = {
        let first = Arc::clone(&first);
        Box::new(move |update| {
            *first.lock().unwrap_or_else(PoisonError::into_inner) = update;
            false
        })
    };
    let (mut folder, _) = Folder::new(Setup {
        root: path.into(),
        options: options.clone(),
        disk: Arc::new(Machine),
        watch: false,
        max_findings: usize::MAX,
        no_response: NO_RESPONSE,
        sink,
    });
    folder.run();
    let update = std::mem::take(&mut *first.lock().unwrap_or_else(PoisonError::into_inner));
    let of_all_nodes = update.changes.upserts.len();
    let in_groups = update.groups.iter();
    let in_groups = in_groups.flat_map(|group| group.changes.upserts.iter().cloned());
    let resources = update.changes.upserts.into_iter().chain(in_groups);
    Ok(Report {
        resources: resources.collect(),
        groups: update.groups,
        files: folder.files(),
        findings: update.findings,
        more_findings: update.more_findings,
        deprecated_uses: update.deprecated_uses,
        took: started.elapsed(),
        of_all_nodes,
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

/// A folder of resource files, followed by a thread of its own.
#[derive(Debug)]
pub struct DirStore {
    root: PathBuf,
    updates: mpsc::Receiver<Update>,
    inbox: Sender<Message>,
    /// The thread, until it was found to have ended.
    thread: Option<JoinHandle<()>>,
    /// Alive as long as the store is.
    _alive: Arc<()>,
}

/// A handle that makes a folder store read all of its files again.
#[derive(Debug, Clone)]
pub struct Reload(Sender<Message>);

impl Reload {
    /// Makes the store read all files again, soon. Does not wait for it.
    pub fn reload(&self) {
        // Nothing is left to do if the store was dropped.
        let _ = self.0.send(Message::Reload);
    }
}

/// A handle that sets the policy of a folder store for deprecated elements.
#[derive(Debug, Clone)]
pub struct SetPolicy(Sender<Message>);

impl SetPolicy {
    /// Sets the policy. The store soon reads the files again that it decides about differently, and no others. Does not
    /// wait for it.
    pub fn set(&self, policy: Policy) {
        // Nothing is left to do if the store was dropped.
        let _ = self.0.send(Message::Policy(Box::new(policy)));
    }
}

impl DirStore {
    /// Begins to read and to follow a folder. The first [`Store::next`] returns all of its resources.
    ///
    /// A part of the folder that cannot be read or watched does not matter: it becomes a finding, and is polled.
    ///
    /// # Errors
    /// When the folder itself cannot be read, and there is no [`Options::last_good`].
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, Error> {
        Self::open_on(Arc::new(Machine), NO_RESPONSE, path.into(), options)
    }

    /// Opens a folder whose files are read by `disk`, for tests of file systems that do not respond.
    pub(super) fn open_on(
        disk: Arc<dyn Disk>,
        no_response: Duration,
        root: PathBuf,
        options: Options,
    ) -> Result<Self, Error> {
        // With a last good state, a folder that does not answer delays nothing.
        let before = match options.last_good {
            Some(_) => Before::Unknown,
            None => {
                check(&root)?;
                // Before the first walk: a link that is turned over from now on is noticed.
                Before::Folder(Identity::of(&root).ok())
            }
        };
        // One update may wait. The thread then pauses, and later changes are merged.
        let (sender, updates) = mpsc::channel(1);
        let (mut folder, inbox) = Folder::new(Setup {
            root: root.clone(),
            options,
            disk,
            watch: true,
            max_findings: MAX_FINDINGS,
            no_response,
            sink: Box::new(move |update| sender.blocking_send(update).is_ok()),
        });
        let unstarted = |error: std::io::Error| Error::Unreadable {
            path: root.clone(),
            reason: error.to_string(),
        };
        let builder = std::thread::Builder::new().name("oxds-dir".into());
        let thread = builder.spawn(move || folder.run()).map_err(unstarted)?;
        let alive = Arc::new(());
        let (weak, messages, name) = (Arc::downgrade(&alive), inbox.clone(), root.clone());
        let builder = std::thread::Builder::new().name("oxds-dir-look".into());
        let look = move || replacement::look(&name, before, &weak, &messages);
        builder.spawn(look).map_err(unstarted)?;
        Ok(Self {
            root,
            updates,
            inbox,
            thread: Some(thread),
            _alive: alive,
        })
    }

    /// Returns a handle that makes the store read the whole folder again (on SIGHUP, for example).
    #[must_use]
    pub fn reload(&self) -> Reload {
        Reload(self.inbox.clone())
    }

    /// Returns a handle that sets the policy for deprecated elements, which is that of the options before.
    #[must_use]
    pub fn policy(&self) -> SetPolicy {
        SetPolicy(self.inbox.clone())
    }
}

impl Store for DirStore {
    async fn next(&mut self) -> Option<Update> {
        if let Some(update) = self.updates.recv().await {
            return Some(update);
        }
        // The thread ends only by a bug, which the panic hook reports. The last good state stays served.
        self.thread.take()?.join().err()?;
        let message =
            "internal error: a panic while the folder was read; changes are not followed any more";
        Some(Update {
            findings: vec![Finding::for_file(&self.root, "internal", message)],
            origin: Origin::new(STORE),
            ..Update::default()
        })
    }
}

impl Drop for DirStore {
    fn drop(&mut self) {
        // The thread is not waited for: it may have ended, or be about to send an update.
        let _ = self.inbox.send(Message::Stop);
    }
}
