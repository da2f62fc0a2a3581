//! Description of a file source.

use std::path::PathBuf;
use std::time::Duration;

/// A file of resources: a `DiscoveryResponse`, a list of resources, or a single resource.
///
/// The extension selects the format: `.pb`, `.json`, `.yaml` or `.yml`, `.pb_text` or `.textproto`. The file need not
/// exist yet. Replace it by a rename, as Kubernetes does with the files of a ConfigMap: a rename is seen at once where
/// the operating system reports changes (inotify, for example), and within half a second elsewhere. An invalid file
/// changes nothing.
///
/// Reading needs the feature `file`: without it, watches of the source are
/// [`SourceError::FeatureOff`](crate::source::SourceError::FeatureOff).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct File {
    pub(crate) path: PathBuf,
    pub(crate) watched_directory: Option<PathBuf>,
    pub(crate) poll_interval: Option<Duration>,
}

impl File {
    /// Describes the file at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            watched_directory: None,
            poll_interval: None,
        }
    }

    /// Also reads the file again when this directory changes. Use it for paths that contain symbolic links.
    #[must_use]
    pub fn watched_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.watched_directory = Some(directory.into());
        self
    }

    /// Checks the file at this interval instead of relying on change reports of the operating system.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }
}
