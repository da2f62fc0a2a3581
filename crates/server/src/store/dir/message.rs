//! Messages to the thread of a folder.

use oxds_types::file::Stamp;
use oxds_types::lifecycle::Policy;

use super::scan::Scan;
use crate::store::documents::{Document, DocumentId};

/// A message to the thread of a folder. All of its input comes by them, so that it never waits for a disk.
#[derive(Debug)]
pub(super) enum Message {
    /// Events of the file system arrived.
    Events,
    /// All files must be read again.
    Reload,
    /// Deprecated elements must be decided about by this policy.
    Policy(Box<Policy>),
    /// The name of the folder leads to another folder, or to none.
    FolderChanged,
    /// A walk ended.
    Walked { walk: u64, scan: Scan },
    /// A file was read, or could not be.
    Read { id: DocumentId, outcome: Outcome },
    /// The store was dropped.
    Stop,
}

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The file exists. Its stamp is from before the read.
    Document(Stamp, Box<Document>),
    /// The file does not exist, and its folder does.
    Deleted,
    /// The folder of the file does not exist, so only a walk can say what was deleted.
    FolderGone,
}
