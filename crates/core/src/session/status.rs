//! Everything a session knows, to be read: for CSDS, the status page and "is my change live everywhere?" (S-68).

use std::sync::Arc;

use oxds_types::{ApiVersion, Kind, Version};

use crate::time::Instant;

/// What one kind's part of a stream looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindStatus {
    /// The kind.
    pub kind: Kind,
    /// The version in which the client asks for it.
    pub api: ApiVersion,
    /// Whether it subscribed to everything.
    pub wildcard: bool,
    /// How many names it subscribed to.
    pub names: usize,
    /// The version of the latest response.
    pub sent: Option<Version>,
    /// The version of the latest response that was accepted.
    pub acked: Option<Version>,
    /// Since when a response has been without an answer.
    pub waiting_since: Option<Instant>,
    /// The latest rejection that nothing accepted came after.
    pub nack: Option<Nack>,
    /// Responses accepted, and rejected, on this stream.
    pub acks: u64,
    /// Responses rejected on this stream.
    pub nacks: u64,
}

/// A rejected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Its version.
    pub version: Version,
    /// What the client said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

/// A resource that the client rejected, as far as its message tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The version of the content.
    pub version: Version,
    /// What the client said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

/// What the client has of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceStatus {
    /// The version sent last; `None`: never sent, or told that it does not exist.
    pub sent: Option<Version>,
    /// The version that the client accepted last and was not told to drop.
    pub acked: Option<Version>,
    /// Present if what was sent last was rejected.
    pub rejected: Option<Rejection>,
}
