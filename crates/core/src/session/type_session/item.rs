//! Entries of a response that belong to one stream, as opposed to bodies that streams share.

use std::sync::Arc;

use crate::snapshot::Resource;

/// One resource or name of a response.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// Current content of a resource.
    Resource(Arc<Resource>),
    /// Subscribed name of a resource that does not exist.
    Absent(Arc<str>),
    /// Name of a resource that a wildcard does not cover any more.
    Removed(Arc<str>),
    /// Name that the store has in a form that is not served (S-73), and the reason.
    Invalid(Arc<str>, Arc<str>),
    /// Content that the client has already: repeated since a SotW full state without it would remove it.
    Copy(Arc<Resource>),
}

impl Item {
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Resource(resource) | Self::Copy(resource) => resource.name(),
            Self::Absent(name) | Self::Removed(name) | Self::Invalid(name, _) => name,
        }
    }

    /// The content that the client learns, if it is new to it.
    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Absent(_) | Self::Removed(_) | Self::Invalid(..) | Self::Copy(_) => None,
        }
    }

    /// Whether the item changes the state of its name, so that an ACK matters.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(self, Self::Copy(_))
    }
}
