//! Options, errors and the report of the folder store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::snapshot::Resource;
use oxds_types::codec;

use crate::store::finding::{Finding, Severity};

/// How a folder is read.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// How files are decoded and checked.
    pub codec: codec::Options,
    /// Whether a reference to nothing is an error instead of a warning (S-70).
    pub strict: bool,
    /// Receives the progress of a load: files read so far, and files in total (S-75).
    pub progress: Option<Progress>,
}

/// A callback for the progress of a load. It is called from many threads.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("codec", &self.codec)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}

/// A folder that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder does not exist, or the process may not read it.
    #[error("cannot read the folder {}: {reason}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// The path leads to a file.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The operating system does not report changes of the folder.
    #[error("cannot watch the folder {}: {reason}", path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
}

/// The content of a folder, and its errors and warnings.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The resources that would be served, to all nodes or to a group.
    pub resources: Vec<Arc<Resource>>,
    /// The number of files that were read.
    pub files: usize,
    /// Errors and warnings, sorted by file and position.
    pub findings: Vec<Finding>,
    /// How long the load took.
    pub took: Duration,
}

impl Report {
    /// Returns the number of findings of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}
