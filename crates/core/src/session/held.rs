//! Changes that make-before-break holds back from a client, to be read (S-53).

use std::sync::Arc;

use oxds_types::ResourceType;

use crate::time::Instant;

/// A change that is not sent yet. It is sent at the latest when [`Config::hold`](super::Config::hold) is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// Effect that the change would have at the client.
    pub change: HeldChange,
    /// Name of the resource; of several updates that wait together, one. `None`: all resources of the type.
    pub name: Option<Arc<str>>,
    /// Cause of the hold. `None`: none any more, the change is sent with the next response.
    pub waits_for: Option<WaitsFor>,
    /// Start of the hold.
    pub since: Instant,
}

/// Category of a change that is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldChange {
    /// New or changed resources.
    Update,
    /// Removal of a resource.
    Removal,
    /// First answer to a client that reconnected, which would remove a resource.
    Answer,
}

/// Dependency of an update, or user of a resource that is to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitsFor {
    /// The resource type.
    pub resource_type: ResourceType,
    /// Name of a resource that the client has not accepted yet, where an update waits; of one that the client has and
    /// that refers to the removed one, where a removal waits. `None`: the first answer of the type.
    pub name: Option<Arc<str>>,
}

impl HeldChange {
    /// Returns the form that tools write: `update`, `removal`, `answer`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Removal => "removal",
            Self::Answer => "answer",
        }
    }
}
