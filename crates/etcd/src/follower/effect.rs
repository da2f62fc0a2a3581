//! Requests of a follower to its driver, and failures that the driver reports.

use std::fmt;

use oxds_types::etcd::{RangeRequest, WatchCreateRequest};

/// Number of a connection to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(super) u64);

/// Number of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u64);

/// Number of a stream of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u64);

/// Next action of the driver.
///
/// Answers carry the number of their request. The machine ignores late ones, so the driver need not wait for the end of
/// requests that it gives up.
#[derive(Debug, Clone, PartialEq)]
pub enum FollowerTransmit {
    /// Give up the connection, its reads and its stream, and connect to a member; then call
    /// [`handle_connected`](super::Follower::handle_connected) or [`handle_failed`](super::Follower::handle_failed).
    Connect {
        /// Number of the new connection.
        connection: ConnectionId,
        /// Use the next member, not the one before.
        another: bool,
    },
    /// Give up the connection, its reads and its stream.
    Disconnect,
    /// Read keys; then call [`handle_range`](super::Follower::handle_range). Several reads may be open at a time.
    Range {
        /// Number of the read.
        id: RequestId,
        /// The read: linearizable, or at a revision.
        request: RangeRequest,
    },
    /// Open a stream of watches with the metadata `hasleader: true`, and write this request. Then call
    /// [`handle_watch`](super::Follower::handle_watch) for each response, and
    /// [`handle_watch_closed`](super::Follower::handle_watch_closed) at its end.
    OpenWatch {
        /// Number of the stream.
        stream: StreamId,
        /// First request.
        request: WatchCreateRequest,
    },
    /// Write a progress request to the stream.
    RequestProgress {
        /// Number of the stream.
        stream: StreamId,
    },
    /// Close the stream, and not the connection.
    CloseWatch {
        /// Number of the stream.
        stream: StreamId,
    },
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The member cannot be reached, or the connection broke.
    Unreachable,
    /// The member does not answer.
    Silent,
    /// The cluster has no leader, or the member lost it.
    NoLeader,
    /// The credentials are invalid, also after another authentication.
    Unauthenticated,
    /// The user may not read the prefix.
    PermissionDenied,
    /// The revision was compacted.
    Compacted,
    /// The response to a read is larger than the client accepts.
    ResponseTooLarge,
    /// The answers of the member contradict each other, or what is known.
    Inconsistent,
    /// Any other error.
    Other,
}

/// Failure of a connection, a read or a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Text for people, with the member.
    pub reason: String,
}

impl Failure {
    /// Makes a failure.
    #[must_use]
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { kind, reason }
    }

    /// Makes a failure of a watch that etcd canceled.
    pub(super) fn canceled(reason: &str) -> Self {
        // etcd reports the reason as text only.
        let kind = if reason.contains("permission denied") {
            FailureKind::PermissionDenied
        } else if reason.contains("no leader") {
            FailureKind::NoLeader
        } else if reason.contains("invalid auth token") {
            FailureKind::Unauthenticated
        } else {
            FailureKind::Other
        };
        let reason = match reason {
            "" => "etcd canceled the watch without a reason",
            reason => reason,
        };
        Self::new(kind, reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
