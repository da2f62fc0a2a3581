//! A file as a source.

use std::path::PathBuf;
use std::time::Duration;

/// A file of resources: a `DiscoveryResponse`, a list of resources, or one, in the format that its name ends in: `.pb`,
/// `.json`, `.yaml` or `.yml`, `.pb_text` or `.textproto`.
///
/// It may come later. It is best replaced by a rename into its place, as Kubernetes does with what a ConfigMap's files
/// link to; that is seen at once where the system reports changes (inotify and its like), and within half a second where
/// it does not. A file that cannot be read changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct File {
    pub(crate) path: PathBuf,
    pub(crate) watched_directory: Option<PathBuf>,
    pub(crate) poll_interval: Option<Duration>,
}

impl File {
    /// The file at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            watched_directory: None,
            poll_interval: None,
        }
    }

    /// A change in this directory is one of the file, too: for paths that lead through links elsewhere.
    #[must_use]
    pub fn watched_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.watched_directory = Some(directory.into());
        self
    }

    /// Looks at the file this often, and does not count on the system's reports.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }
}
