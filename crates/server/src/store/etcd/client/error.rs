//! Errors of etcd, sorted by who can do something about them.

use std::sync::Arc;
use std::time::Duration;

use tonic::Code;

/// First version of etcd with fragments and progress requests of watches (`CHANGELOG-3.4.md` of etcd).
pub(super) const OLDEST: (u64, u64) = (3, 4);

/// Reason why etcd has not done what was requested, and the member that was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("etcd {member}: {reason}")]
pub struct EtcdError {
    member: Arc<str>,
    reason: Reason,
}

/// Reason of an [`EtcdError`]. Its text contains the remedy, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The peer accepted the connection and closed it without a byte. So does a server for HTTP/1, but also a member
    /// that ends, a port for TLS, or a load balancer without a member: our choice is to retry (G-33).
    #[error(
        "the peer closed the connection before its HTTP/2 preface: the port may belong to another program than etcd, such as an HTTP/1 server, or expect https"
    )]
    NoPreface,
    /// The connection ended during the call.
    #[error("the connection failed: {0}")]
    Disconnected(String),
    /// The member did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The member knows no leader: it is cut off, or the cluster has no quorum.
    #[error("the member has no leader")]
    NoLeader,
    /// The cluster could not process the call now; etcd's text.
    #[error("not available: {0}")]
    Unavailable(String),
    /// The member has not joined the cluster completely.
    #[error("the member is a learner, which cannot be used yet")]
    Learner,

    /// The TLS handshake failed, or the files for it are invalid.
    #[error("TLS: {0}")]
    Security(String),
    /// Another program answers at the address.
    #[error("not an etcd: {0}")]
    NotEtcd(String),
    /// The etcd lacks features that oxds needs.
    #[error("etcd {0} is too old: expected {major}.{minor} or later", major = OLDEST.0, minor = OLDEST.1)]
    TooOld(String),
    /// User name or password are wrong.
    #[error("authentication failed: wrong name or password of user {0:?}")]
    WrongPassword(String),
    /// The call needs a user, and none is configured; or etcd accepts no token of the user.
    #[error("authentication required: {0}")]
    Unauthenticated(String),
    /// The user lacks a permission.
    #[error("permission denied: the user needs a role with {0}")]
    PermissionDenied(String),
    /// The database has reached its quota (alarm NOSPACE).
    #[error(
        "the database is full (alarm NOSPACE): compact the history, defragment each member, then disarm the alarm"
    )]
    NoSpace,
    /// The members have different data (alarm CORRUPT).
    #[error("the data of the members differ (alarm CORRUPT): replace the corrupt member")]
    Corrupt,

    /// The revision is not in the history any more. `first` is the first one that is, if etcd has reported it.
    #[error("the requested revision has been compacted")]
    Compacted {
        /// First revision that can be read.
        first: Option<i64>,
    },
    /// The revision is higher than that of the store.
    #[error("the requested revision is in the future")]
    FutureRevision,
    /// The request is larger than etcd's limit.
    #[error(
        "the request is too large: etcd's option --max-request-bytes raises the limit of 1.5 MiB"
    )]
    RequestTooLarge,
    /// A transaction has too many operations.
    #[error(
        "the transaction has too many operations: etcd's option --max-txn-ops raises the limit of 128"
    )]
    TooManyOperations,
    /// A transaction writes a key twice.
    #[error("the transaction writes a key twice")]
    DuplicateKey,
    /// The lease has ended, or never existed.
    #[error("the lease does not exist any more")]
    LeaseNotFound,
    /// The response is larger than this client accepts.
    #[error("the response is too large: read fewer keys at once")]
    ResponseTooLarge,

    /// Any other answer.
    #[error("{code:?}: {message}")]
    Other {
        /// Status of the call.
        code: Code,
        /// Text of the status.
        message: String,
    },
}

/// Party that can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The member or the network: another member may answer, or the same one later.
    Member,
    /// The operator: address, certificates, user, permissions, space.
    Operator,
    /// The caller: another request may succeed.
    Request,
    /// Unknown: an answer that this client does not know.
    Unknown,
}

impl EtcdError {
    /// Creates an error of a member.
    #[must_use]
    pub(super) fn new(member: &Arc<str>, reason: Reason) -> Self {
        Self {
            member: Arc::clone(member),
            reason,
        }
    }

    /// Returns the URL of the member.
    #[must_use]
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns who can do something about it.
    #[must_use]
    pub fn blame(&self) -> Blame {
        self.reason.blame()
    }

    /// Returns whether a write may have taken effect although it ended with this error (G-11).
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.reason.is_outcome_unknown()
    }
}

impl Reason {
    /// Returns who can do something about it.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Unreachable(_)
            | Self::NoPreface
            | Self::Disconnected(_)
            | Self::Timeout(_)
            | Self::NoLeader
            | Self::Unavailable(_)
            | Self::Learner => Blame::Member,
            Self::Security(_)
            | Self::NotEtcd(_)
            | Self::TooOld(_)
            | Self::WrongPassword(_)
            | Self::Unauthenticated(_)
            | Self::PermissionDenied(_)
            | Self::NoSpace
            | Self::Corrupt => Blame::Operator,
            Self::Compacted { .. }
            | Self::FutureRevision
            | Self::RequestTooLarge
            | Self::TooManyOperations
            | Self::DuplicateKey
            | Self::LeaseNotFound
            | Self::ResponseTooLarge => Blame::Request,
            Self::Other { .. } => Blame::Unknown,
        }
    }

    /// Returns whether a write may have taken effect although it ended with this reason (G-11).
    ///
    /// etcd answers NOSPACE, timeouts and changes of leader also for requests that it has put into its log.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Disconnected(_)
            | Self::Timeout(_)
            | Self::NoLeader
            | Self::Unavailable(_)
            | Self::NoSpace
            | Self::Corrupt
            | Self::ResponseTooLarge
            | Self::Other { .. } => true,
            Self::Unreachable(_)
            | Self::NoPreface
            | Self::Learner
            | Self::Security(_)
            | Self::NotEtcd(_)
            | Self::TooOld(_)
            | Self::WrongPassword(_)
            | Self::Unauthenticated(_)
            | Self::PermissionDenied(_)
            | Self::Compacted { .. }
            | Self::FutureRevision
            | Self::RequestTooLarge
            | Self::TooManyOperations
            | Self::DuplicateKey
            | Self::LeaseNotFound => false,
        }
    }
}
