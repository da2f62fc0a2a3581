//! The folder behind a name, and its replacement by another one: by a rename, by a link that is turned over, or by deleting
//! and creating it.
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

/// Looks at the name of a folder until `alive` is dropped, and sends a message when it leads to another folder or to none. Runs
/// on a thread of its own, because a look may block.
pub(super) fn look(root: &Path, alive: &Weak<()>, inbox: &Sender<Message>) {
    let mut before = Identity::of(root).ok();
    while alive.strong_count() > 0 {
        std::thread::sleep(LOOK);
        let now = Identity::of(root).ok();
        if now != std::mem::replace(&mut before, now) && inbox.send(Message::FolderChanged).is_err()
        {
            return;
        }
    }
}
