//! The events of the file system that were not handled yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind};
use oxds_types::codec::Format;
use tracing::warn;

use super::message::Message;
use super::scan::is_hidden;
use super::settling::Writer;

/// The largest number of paths to remember. For more, a walk over all files is cheaper.
const MAX_PATHS: usize = 10_000;

/// The files that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dirty {
    /// These files, and no others, with the state of their writers.
    Files(BTreeMap<PathBuf, Writer>),
    /// All files with a changed stamp.
    Stamps,
    /// All files, whatever their stamp.
    Everything,
}

impl Dirty {
    pub(super) fn and(self, newer: Self) -> Self {
        match (self, newer) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Files(mut files), Self::Files(more))
                if files.len() + more.len() <= MAX_PATHS =>
            {
                for (path, writer) in more {
                    let before = files.get(&path).copied().unwrap_or_default();
                    files.insert(path, before.then(writer));
                }
                Self::Files(files)
            }
            _ => Self::Stamps,
        }
    }
}

/// Events that were not handled yet, shared with the thread of the watcher.
#[derive(Debug)]
pub(super) struct Events {
    /// The folder as the operator named it. The ids of files begin with it.
    root: PathBuf,
    pending: Mutex<Pending>,
    inbox: Sender<Message>,
}

/// The sum of some events.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) dirty: Option<Dirty>,
    /// Folders that were deleted or moved away.
    pub(super) lost: Vec<PathBuf>,
    /// The time of the latest deletion.
    pub(super) deletion: Option<Instant>,
    /// The folder behind the name, as the system reports it.
    real: PathBuf,
}

impl Pending {
    pub(super) fn of(dirty: Dirty) -> Self {
        Self {
            dirty: Some(dirty),
            ..Self::default()
        }
    }
}

impl Events {
    pub(super) fn new(root: &Path, inbox: Sender<Message>) -> Self {
        Self {
            root: root.into(),
            pending: Mutex::default(),
            inbox,
        }
    }

    /// Sets the folder that the name leads to. Events about other folders are ignored from now on.
    pub(super) fn set_real(&self, real: &Path) {
        self.lock().real = real.into();
    }

    /// Takes the events that were not handled yet.
    pub(super) fn take(&self) -> Pending {
        let mut pending = self.lock();
        let real = pending.real.clone();
        std::mem::replace(
            &mut *pending,
            Pending {
                real,
                ..Pending::default()
            },
        )
    }

    /// Handles an event, on the thread of the watcher.
    pub(super) fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.add(Dirty::Stamps),
            Ok(event) => {
                let Some(writer) = writer(event.kind) else {
                    return;
                };
                let deletion = is_deletion(event.kind);
                for path in &event.paths {
                    self.path(path, writer, deletion);
                }
            }
            Err(error) => {
                warn!(%error, folder = %self.root.display(), "watch error, looking at all files");
                self.add(Dirty::Stamps);
            }
        }
    }

    fn path(&self, path: &Path, writer: Writer, deletion: bool) {
        let mut pending = self.lock();
        let dirty = self.concerns(&pending.real, path, writer);
        if deletion {
            pending.deletion = Some(Instant::now());
            // Files are not watched themselves.
            if dirty == Some(Dirty::Stamps) && pending.lost.len() < MAX_PATHS {
                pending.lost.push(path.into());
            }
        }
        drop(pending);
        if let Some(dirty) = dirty {
            self.add(dirty);
        }
    }

    /// Returns the files that an event about this path makes dirty.
    fn concerns(&self, real: &Path, path: &Path, writer: Writer) -> Option<Dirty> {
        // Before the first walk has ended, and after the folder was replaced, only a walk knows the files.
        let below = match path.strip_prefix(real) {
            Ok(below) if !real.as_os_str().is_empty() => below,
            _ => return Some(Dirty::Stamps),
        };
        // Kubernetes updates a ConfigMap by renaming the link `..data`, which all its files lead through.
        if below.file_name().is_some_and(|name| name == "..data") {
            return Some(Dirty::Stamps);
        }
        if below.ancestors().any(is_hidden) {
            return None;
        }
        if Format::from_path(path).is_some() {
            let file = self.root.join(below);
            return Some(Dirty::Files(BTreeMap::from([(file, writer)])));
        }
        // A folder, or a deleted path that may have been a folder.
        (!path.is_file()).then_some(Dirty::Stamps)
    }

    fn add(&self, more: Dirty) {
        let mut pending = self.lock();
        let is_first = pending.dirty.is_none();
        pending.dirty = Some(match pending.dirty.take() {
            None => more,
            Some(before) => before.and(more),
        });
        drop(pending);
        if is_first {
            // The store was dropped with the receiver, so this event is not needed.
            let _ = self.inbox.send(Message::Events);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what an event shows about the writer of the file. `None` for a read: the store's own reads cause such
/// events, and must not cause more reads.
fn writer(kind: EventKind) -> Option<Writer> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Writer::Closed),
        EventKind::Access(_) => None,
        EventKind::Modify(ModifyKind::Data(_)) => Some(Writer::Open),
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Writer::Replaced),
        // The two names of a rename, after an event for each of them.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(Writer::Unchanged),
        _ => Some(Writer::Unknown),
    }
}

fn is_deletion(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From))
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn s72_file_ids_begin_with_the_folder_as_named() {
        let (inbox, _messages) = mpsc::channel();
        let events = Events::new("config".as_ref(), inbox);
        let real = Path::new("/home/.me/config");
        let dirty = |path: &str| events.concerns(real, Path::new(path), Writer::Closed);
        let id = PathBuf::from("config/a/b.yaml");
        assert_eq!(
            dirty("/home/.me/config/a/b.yaml"),
            Some(Dirty::Files(BTreeMap::from([(id, Writer::Closed)])))
        );
        assert_eq!(dirty("/home/.me/config/.b.yaml.swp"), None);
        assert_eq!(dirty("/home/.me/other/b.yaml"), Some(Dirty::Stamps));
    }

    /// Given events about one file, then the latest one decides who writes it, and metadata alone changes nothing.
    #[test]
    fn latest_event_decides_about_the_writer() {
        let file = |writer| Dirty::Files(BTreeMap::from([(PathBuf::from("a.yaml"), writer)]));
        let sum = file(Writer::Open).and(file(Writer::Closed));
        assert_eq!(sum.clone().and(file(Writer::Unchanged)), sum);
        assert_eq!(sum.and(file(Writer::Open)), file(Writer::Open));
    }
}
