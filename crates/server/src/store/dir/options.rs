//! Options, errors and the report of the folder store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::group::GroupUpdate;
use oxds_core::snapshot::Resource;
use oxds_types::codec;

use crate::store::LastGood;
use crate::store::finding::{Finding, FindingCounts, Severity};
use crate::store::uses::DeprecatedUses;

/// How a folder is read.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How files are decoded and checked.
    pub codec: codec::Options,
    /// Whether a reference to nothing is an error instead of a warning (S-70). A change that would lead to one is then
    /// not served: its file keeps the last content without one.
    pub strict: bool,
    /// Whether a file that becomes empty removes its resources. By default that is an error, and they stay served: a
    /// program that truncates a file usually writes it later. The same holds for a folder that is replaced by an empty
    /// one.
    pub allow_empty: bool,
    /// The time without an event after which changes are read (S-72). Files that are written in one such period are
    /// served together. A writer that never pauses delays the read to at most ten times as long. Default: 50 ms.
    pub quiet: Duration,
    /// The state of an earlier process ([`SavedState::last_good`](crate::SavedState::last_good)). With it, a folder
    /// that cannot be read, or that is empty, is not an error: the store is unavailable until the folder is there. A
    /// file that is invalid at start keeps the content that it had in this state. Resources that were deleted since are
    /// removed.
    pub last_good: Option<Arc<LastGood>>,
    /// Receives the progress of a load: files read so far, and files in total (S-75).
    pub progress: Option<Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: codec::Options::default(),
            strict: false,
            allow_empty: false,
            // One save causes several events, which come within milliseconds.
            quiet: Duration::from_millis(50),
            last_good: None,
            progress: None,
        }
    }
}

/// A callback for the progress of a load. It is called from the thread of the folder.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("codec", &self.codec)
            .field("strict", &self.strict)
            .field("allow_empty", &self.allow_empty)
            .field("quiet", &self.quiet)
            .field("last_good", &self.last_good.is_some())
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
}

/// The content of a folder, and its errors and warnings.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The resources that would be served, to all nodes or to a group.
    pub resources: Vec<Arc<Resource>>,
    /// The groups with their matchers and resources, in the order of their names. The resources are those of
    /// `resources`, too.
    pub groups: Vec<GroupUpdate>,
    /// The number of files that were read.
    pub files: usize,
    /// Errors and warnings, sorted by file and position. Of one file at most a hundred.
    pub findings: Vec<Finding>,
    /// Errors and warnings beyond those in `findings`.
    pub more_findings: FindingCounts,
    /// Uses of deprecated elements.
    pub deprecated_uses: DeprecatedUses,
    /// How long the load took.
    pub took: Duration,
    /// The number of resources for all nodes, which come first.
    pub(super) of_all_nodes: usize,
}

impl Report {
    /// Returns the resources that are not in a group.
    #[must_use]
    pub fn of_all_nodes(&self) -> &[Arc<Resource>] {
        self.resources
            .get(..self.of_all_nodes)
            .unwrap_or(&self.resources)
    }

    /// Returns the number of findings of this severity, including those that are only counted.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        FindingCounts::of(&self.findings).of_severity(severity)
            + self.more_findings.of_severity(severity)
    }
}
