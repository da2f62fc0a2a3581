//! The folder behind a name, and its replacement by another one: by a rename, by a link that is turned over, or by
//! deleting and creating it.
//!
//! ```text
//!              another folder, nothing is lost
//!  ┌──────┐ ─────────────────────────────────────▶ ┌─────────┐
//!  │ same │                                        │ applied │
//!  └──────┘ ──▶ ┌─────────┐ ─────────────────────▶ └─────────┘
//!     files are │ compare │  two equal walks, and at least one file
//!     missing   └─────────┘ ◀─┐ files appear
//!                    └────────┘
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use oxds_types::file::Stamp;

use super::message::Message;
use super::scan::{RealFolder, Scan};
use crate::store::documents::DocumentId;
use crate::store::finding::Finding;
use crate::watches::Identity;

/// The time between two looks at the name. It costs one call of the system, and works on every file system; no event is
/// reported for a link somewhere in the path.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the result of a walk is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Apply,
    /// Another walk follows.
    Wait,
}

/// The folder that is served, and one that may replace it.
#[derive(Debug)]
pub(super) struct Replacement {
    allow_empty: bool,
    /// Whether files of an earlier process are served, whose folder is unknown.
    is_restored: bool,
    served: Option<RealFolder>,
    /// The folder that was read last.
    read: Option<PathBuf>,
    candidate: Option<Scan>,
    is_held: bool,
    due: Option<Instant>,
}

impl Replacement {
    pub(super) fn new(allow_empty: bool, is_restored: bool) -> Self {
        Self {
            allow_empty,
            is_restored,
            served: None,
            read: None,
            candidate: None,
            is_held: false,
            due: None,
        }
    }

    /// Sets the folder, without a comparison.
    pub(super) fn begin(&mut self, folder: &RealFolder) {
        self.read = Some(folder.path.clone());
        self.served = Some(folder.clone());
    }

    /// Whether another folder is at the path that may not replace the served one yet.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Returns the time of the next look at a replacement.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Records that a walk begins.
    pub(super) fn looked(&mut self) {
        self.due = None;
    }

    /// Returns the path of a file, without links above the folder.
    pub(super) fn real(&self, root: &Path, id: &Path) -> PathBuf {
        match (&self.read, id.strip_prefix(root)) {
            (Some(real), Ok(below)) => real.join(below),
            _ => id.into(),
        }
    }

    /// Decides whether a scan is applied. Adds a finding to it if the folder must not replace the served one.
    pub(super) fn decide(
        &mut self,
        scan: &mut Scan,
        root: &Path,
        files: &BTreeMap<DocumentId, Stamp>,
        quiet: Duration,
    ) -> Decision {
        // Without a folder the scan has a finding, which hides all files.
        let Some(folder) = scan.folder.clone() else {
            return Decision::Apply;
        };
        let served = self.served.as_ref();
        let replaced = served.map_or(self.is_restored, |served| *served != folder);
        let lost = files
            .keys()
            .filter(|id| !scan.files.contains_key(&***id) && !scan.hides(id));
        let lost = lost.count();
        if replaced && lost > 0 {
            self.is_held = true;
            if scan.files.is_empty() && !self.allow_empty {
                let event = match served {
                    Some(_) => "the folder was replaced by an empty one",
                    None => "the folder is empty, and it was not in an earlier process",
                };
                let message = format!(
                    "{event}: the resources of {lost} files stay served; to remove them, delete them in the folder, or \
                     use --allow-empty"
                );
                let finding = Finding::for_file(root, "empty", &message);
                scan.findings.push(finding);
                self.candidate = None;
                return Decision::Apply;
            }
            // A folder that is created and then filled has few files at first.
            if self.candidate.as_ref() != Some(&*scan) {
                self.candidate = Some(scan.clone());
                self.due = Some(Instant::now() + quiet);
                return Decision::Wait;
            }
        }
        self.candidate = None;
        self.is_held = false;
        self.begin(&folder);
        Decision::Apply
    }
}

/// The folder that a name led to before the first walk.
#[derive(Debug)]
pub(super) enum Before {
    /// This one, or none.
    Folder(Option<Identity>),
    /// Unknown, because a look could block. The first one counts as a change: the walk may have seen another folder.
    Unknown,
}

/// Looks at the name of a folder until `alive` is dropped, and sends a message when it leads to another folder or to
/// none. Runs on a thread of its own, because a look may block.
pub(super) fn look(root: &Path, mut before: Before, alive: &Weak<()>, inbox: &Sender<Message>) {
    while alive.strong_count() > 0 {
        let now = Identity::of(root).ok();
        let is_same = matches!(&before, Before::Folder(before) if *before == now);
        before = Before::Folder(now);
        if !is_same && inbox.send(Message::FolderChanged).is_err() {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    /// given a folder behind a link that is turned over after the store was opened / when the thread that looks at it
    /// starts late / then the change is noticed.
    #[test]
    fn s72_link_turned_before_the_first_look_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("current");
        for name in ["1", "2"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        symlink("1", &root).unwrap();
        let before = Before::Folder(Identity::of(&root).ok());
        symlink("2", dir.path().join("new")).unwrap();
        std::fs::rename(dir.path().join("new"), &root).unwrap();
        let (sender, inbox) = channel();
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let thread = std::thread::spawn(move || look(&root, before, &weak, &sender));
        let noticed = inbox.recv_timeout(Duration::from_secs(30));
        assert!(matches!(noticed, Ok(Message::FolderChanged)));
        drop(alive);
        thread.join().unwrap();
        assert!(inbox.try_recv().is_err(), "it is noticed once");
    }
}
