//! What a session tells its driver besides what it sends.

use std::{sync::Arc, time::Duration};

use oxds_types::{ResourceType, Version};

/// Something happened that the driver may have to act on, count or log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// From now on a change of these must wake the session: entries of the server's reverse index. All that one request
    /// brings, in order.
    Watched(ResourceType, Vec<Interest>),
    /// A change of these need not wake the session any more.
    Unwatched(ResourceType, Vec<Interest>),
    /// The client accepted a response.
    Acked {
        /// The kind of the response.
        resource_type: ResourceType,
        /// The version of the response.
        version: Version,
        /// How long the client took.
        after: Duration,
    },
    /// The client rejected a response.
    Nacked {
        /// The kind of the response.
        resource_type: ResourceType,
        /// The version of the response.
        version: Version,
        /// What the client said, at most 4 KiB of it.
        reason: Arc<str>,
        /// The resources the client meant, as far as one can tell: those its message names, or else all that were in
        /// the response. Empty if they were too many to tell.
        resources: Vec<Arc<str>>,
    },
    /// A request answered no response that is outstanding: it counts as a subscription only (S-15, S-47).
    StaleNonce(ResourceType),
    /// The client asked for a kind that is not known here, and will be told that there is nothing of it (S-59).
    UnknownType(ResourceType),
    /// The client's state did not allow a change within [`Config::hold`](super::Config::hold), and it was sent
    /// nevertheless (S-53).
    HeldTooLong {
        /// The kind of what was held.
        resource_type: ResourceType,
        /// What was held.
        held: OverdueChange,
    },
}

/// What a session wants to be woken for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interest {
    /// Any change of the kind.
    All,
    /// A change of this name.
    Name(Arc<str>),
}

/// What make-before-break held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverdueChange {
    /// New or changed resources, whose dependencies the client had not accepted.
    Update,
    /// The removal of a resource to which something at the client still referred.
    Removal(Arc<str>),
}
