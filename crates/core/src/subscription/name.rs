//! What is known of one name that a client asked for.

use std::sync::Arc;

use crate::snapshot::Resource;

/// What the client was told about a name, and what it accepted. Resets with the stream.
///
/// What it *rejected* is rare and is kept apart, with the session.
#[derive(Debug, Clone, Default)]
pub struct NameState {
    /// What was sent last.
    pub(crate) sent: Sent,
    /// What the client accepted last, and so uses, until it accepts something else.
    pub(crate) acked: Option<Arc<Resource>>,
}

/// The latest thing that a client was told about a name.
#[derive(Debug, Clone, Default)]
pub enum Sent {
    /// Nothing since it asked (again): whatever there is, it must be told (S-9, S-10, S-35).
    #[default]
    Nothing,
    /// That there is no such resource. (In SotW: nothing can be said, and nothing need be.)
    Absent,
    /// This resource.
    Resource(Arc<Resource>),
}

impl NameState {
    /// Whether the client was told nothing yet.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.sent, Sent::Nothing) && self.acked.is_none()
    }

    /// What was sent last.
    #[must_use]
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// What the client accepted last.
    #[must_use]
    pub fn acked(&self) -> Option<&Arc<Resource>> {
        self.acked.as_ref()
    }
}

impl Sent {
    /// The resource, if it is one.
    #[must_use]
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Nothing | Self::Absent => None,
        }
    }
}

impl From<Option<Arc<Resource>>> for Sent {
    fn from(resource: Option<Arc<Resource>>) -> Self {
        resource.map_or(Self::Absent, Self::Resource)
    }
}
