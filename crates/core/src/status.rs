//! Status of a client, per type and per resource (S-68), and changes that make-before-break holds back (S-53).

use std::{fmt, sync::Arc};

use oxds_types::{ApiVersion, ResourceType, Version};

use crate::{
    nack::{Nack, NackedResource},
    time::Instant,
};

/// State of a client's copy of a type, compared with the current snapshot. Greater is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Progress {
    /// The client accepted everything that it subscribed to.
    Synced,
    /// The client subscribed, and no response was sent yet.
    NotSent,
    /// The client has, or was sent, other content than the current one, and has not accepted that yet.
    Stale,
    /// The client NACKed the latest response, or a resource or removal since when it accepted no other content.
    Nacked,
}

impl Progress {
    /// Returns the form that tools write: `SYNCED`, `NOT_SENT`, `STALE`, `NACKED`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "SYNCED",
            Self::NotSent => "NOT_SENT",
            Self::Stale => "STALE",
            Self::Nacked => "NACKED",
        }
    }
}

/// Status of one resource type on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    /// The resource type.
    pub resource_type: ResourceType,
    /// API version of the client's requests.
    pub api: ApiVersion,
    /// Whether the client has a wildcard subscription.
    pub wildcard: bool,
    /// Number of subscribed names.
    pub names: usize,
    /// Version of the latest response.
    pub sent: Option<Version>,
    /// Version of the latest accepted response.
    pub acked: Option<Version>,
    /// Time of the latest ACK.
    pub acked_at: Option<Instant>,
    /// Time at which the oldest response without an answer was sent.
    pub waiting_since: Option<Instant>,
    /// Number of changes that make-before-break holds back (S-53): removals, each counted; updates and a first answer
    /// count once each. [`Session::held_back`](crate::session::Session::held_back) lists them.
    pub held: usize,
    /// The latest NACK, unless an ACK followed it.
    pub nack: Option<Nack>,
    /// Present while it is searched for what a NACK is about.
    pub isolating: Option<Isolating>,
    /// Number of ACKs on this stream.
    pub acks: u64,
    /// Number of NACKs on this stream.
    pub nacks: u64,
}

impl TypeStatus {
    /// Returns since when the client has been in this state; `None` if that is unknown.
    #[must_use]
    pub fn since(&self, progress: Progress) -> Option<Instant> {
        match progress {
            Progress::Synced => self.acked_at,
            Progress::NotSent => None,
            Progress::Stale => self.waiting_since,
            Progress::Nacked => self.nack.as_ref().map(|nack| nack.at),
        }
    }
}

/// Search for the invalid ones among the resources of a NACK that names none: they are sent again in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolating {
    /// Number of resources that may be invalid. [`Session::suspects`](crate::session::Session::suspects) lists them.
    pub suspects: usize,
    /// Number of responses that were sent for the search.
    pub rounds: u32,
}

/// Versions of one resource at the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceStatus {
    /// Version that was sent last; `None`: none was, or its absence was.
    pub sent: Option<Version>,
    /// Version that the client accepted last and that was not removed since.
    pub acked: Option<Version>,
    /// Present if the client NACKed the content that was sent last, and if it is not one of several suspects that are
    /// isolated.
    pub nacked: Option<NackedResource>,
}

/// A change that is not sent yet. It is sent at the latest when [`Config::hold`](crate::session::Config::hold) is over.
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
    /// Whether it is a dependency that is not served: a secret of a cluster.
    pub missing: bool,
}

/// Writes the type and the name: `cds blue`, `sds key, which does not exist`, `rds`.
impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource_type)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        if self.missing {
            f.write_str(", which does not exist")
        } else {
            Ok(())
        }
    }
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
