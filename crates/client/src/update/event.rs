//! Updates of watched resources.

use std::sync::Arc;

use oxds_core::ads::WatchError;
use oxds_types::ResourceType;

use super::resource::RawResource;

/// Update of a watched resource (gRFC A88).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update<T> {
    /// Replaces the previous state: the new resource, or the error that prevents one.
    Changed(Result<T, WatchError>),
    /// The last resource stays in use. An error means that it may be outdated; `None` means that it is current again.
    Ambient(Option<WatchError>),
}

/// An update, with the resource that it is about.
#[derive(Debug, Clone)]
pub(crate) enum WatchEvent {
    Changed {
        resource_type: ResourceType,
        name: Arc<str>,
        resource: Result<RawResource, WatchError>,
    },
    Ambient {
        resource_type: ResourceType,
        name: Arc<str>,
        error: Option<WatchError>,
    },
}

impl WatchEvent {
    pub(crate) fn into_update(self) -> (Arc<str>, Update<RawResource>) {
        match self {
            Self::Changed { name, resource, .. } => (name, Update::Changed(resource)),
            Self::Ambient { name, error, .. } => (name, Update::Ambient(error)),
        }
    }

    /// Returns the same update under another name.
    pub(crate) fn with_name(mut self, new: &Arc<str>) -> Self {
        let (Self::Changed { name, .. } | Self::Ambient { name, .. }) = &mut self;
        name.clone_from(new);
        self
    }
}
