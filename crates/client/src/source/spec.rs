//! Description of a source.

use std::path::PathBuf;
use std::time::Duration;

use super::file::File;
use super::grpc::Grpc;
use super::rest::Rest;

/// Source of the resources of a type. Watches at equal sources share one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    pub(crate) specifier: SourceSpecifier,
    pub(crate) initial_fetch_timeout: Option<Duration>,
}

/// Kind of a source, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SourceSpecifier {
    Ads,
    Grpc(Grpc),
    Rest(Rest),
    File(File),
}

impl Source {
    /// Returns the source of the bootstrap's own servers.
    #[must_use]
    pub fn ads() -> Self {
        SourceSpecifier::Ads.into()
    }

    /// Returns the source that is a file of resources. See [`File`].
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        File::new(path).into()
    }

    /// Sets how long the source may be silent about a resource before the resource counts as missing. The default is
    /// the client's [`resource_timeout`](crate::Options::resource_timeout). Zero means without limit.
    #[must_use]
    pub fn with_initial_fetch_timeout(mut self, timeout: Duration) -> Self {
        self.initial_fetch_timeout = Some(timeout);
        self
    }

    /// Returns whether one stream to the source carries all resource types.
    pub(crate) fn is_aggregated(&self) -> bool {
        matches!(&self.specifier, SourceSpecifier::Grpc(grpc) if grpc.aggregated)
    }
}

impl From<SourceSpecifier> for Source {
    fn from(specifier: SourceSpecifier) -> Self {
        Self {
            specifier,
            initial_fetch_timeout: None,
        }
    }
}

impl From<Grpc> for Source {
    fn from(grpc: Grpc) -> Self {
        SourceSpecifier::Grpc(grpc).into()
    }
}

impl From<Rest> for Source {
    fn from(rest: Rest) -> Self {
        SourceSpecifier::Rest(rest).into()
    }
}

impl From<File> for Source {
    fn from(file: File) -> Self {
        SourceSpecifier::File(file).into()
    }
}
