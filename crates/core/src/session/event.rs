//! Events that a session reports to its driver.

use std::{sync::Arc, time::Duration};

use oxds_types::{ResourceType, Version};

use super::WaitsFor;

/// Event that the driver may act on, count or log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Changes that must wake the session from now on: entries for the server's reverse index. One request causes at
    /// most one such event, with its entries in order.
    Watched(ResourceType, Vec<Interest>),
    /// Changes that need not wake the session any more.
    Unwatched(ResourceType, Vec<Interest>),
    /// The client accepted a response.
    Acked {
        /// Resource type of the response.
        resource_type: ResourceType,
        /// Version of the response.
        version: Version,
        /// Time between the response and the ACK.
        after: Duration,
    },
    /// The client NACKed a response.
    Nacked {
        /// Resource type of the response.
        resource_type: ResourceType,
        /// Version of the response.
        version: Version,
        /// Message of the client, at most 4 KiB.
        reason: Arc<str>,
        /// Names of the resources that are shown to be rejected: those that the message names, or the only new one.
        resources: Vec<Arc<str>>,
        /// Number of resources of which at least one is invalid. They are sent again in parts.
        suspects: usize,
    },
    /// A request carried the nonce of no outstanding response: only its subscription counts (S-15, S-47).
    StaleNonce(ResourceType),
    /// The client subscribed to a type that the server does not know. It is answered with no resources (S-59).
    UnknownType(ResourceType),
    /// Make-before-break held a change for [`Config::hold`](super::Config::hold). It is sent now although the
    /// client's state does not allow it (S-53).
    HeldTooLong {
        /// Resource type of the change.
        resource_type: ResourceType,
        /// The change.
        held: OverdueChange,
    },
}

/// Change that a session wants to be woken for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interest {
    /// Any change of the type.
    All,
    /// A change of this name.
    Name(Arc<str>),
}

/// Change that make-before-break held for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverdueChange {
    /// New or changed resources whose dependencies the client has not accepted.
    Update {
        /// Name of one of these resources.
        name: Arc<str>,
        /// Dependency that it waited for.
        waits_for: WaitsFor,
    },
    /// Removal of a resource to which a copy at the client still refers.
    Removal(Arc<str>),
    /// First answer to a client that reconnected, which may remove a resource in use.
    Answer,
}
