//! Requests of a publisher to its driver, and their answers.

use std::fmt;

use oxds_types::etcd::{
    KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest,
    RangeResponse, Response, TxnRequest, TxnResponse,
};

/// Next request. There is one at a time; the driver answers it by
/// [`handle_answer`](super::Publisher::handle_answer) or [`handle_failure`](super::Publisher::handle_failure).
#[derive(Clone, PartialEq)]
pub enum PublishRequest {
    /// Read keys.
    Range(RangeRequest),
    /// Do a transaction.
    Txn(TxnRequest),
    /// Make a lease.
    Grant(LeaseGrantRequest),
    /// Renew a lease, once.
    KeepAlive(LeaseKeepAliveRequest),
    /// End a lease.
    Revoke(LeaseRevokeRequest),
}

/// Answer to a request.
#[derive(Clone, PartialEq)]
pub enum PublishAnswer {
    /// Keys.
    Range(RangeResponse),
    /// Result of a transaction.
    Txn(TxnResponse),
    /// Id of the lease.
    Granted(i64),
    /// The lease was renewed, or does not exist any more.
    KeptAlive,
    /// The lease has ended, or had ended before.
    Revoked,
}

/// Without values, which may be secrets (G-15).
impl fmt::Debug for PublishRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => {
                let (key, revision) = (&range.key, range.revision);
                write!(f, "Range({key:?} at revision {revision})")
            }
            Self::Txn(txn) => write!(f, "Txn({} operations)", txn.success.len()),
            Self::Grant(grant) => write!(f, "Grant({} s)", grant.ttl),
            Self::KeepAlive(lease) => write!(f, "KeepAlive({})", lease.id),
            Self::Revoke(lease) => write!(f, "Revoke({})", lease.id),
        }
    }
}

/// Without values, which may be secrets (G-15).
impl fmt::Debug for PublishAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => write!(f, "Range({} keys)", range.kvs.len()),
            Self::Txn(txn) => write!(f, "Txn(succeeded: {})", txn.succeeded),
            Self::Granted(lease) => write!(f, "Granted({lease})"),
            Self::KeptAlive => f.write_str("KeptAlive"),
            Self::Revoked => f.write_str("Revoked"),
        }
    }
}

/// Kinds of failures of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// A timeout, a lost connection, a leader change, or any error that is not listed here. The request may have taken
    /// effect.
    Unknown,
    /// The database is full (alarm NOSPACE). The request may have taken effect.
    NoSpace,
    /// The revision of a read was compacted.
    Compacted,
    /// The response to a read is larger than the client accepts.
    ResponseTooLarge,
    /// The lease of a put has ended.
    LeaseEnded,
    /// etcd refused the request because of its size or its number of operations.
    TooLarge,
    /// etcd refused the user, or the request in itself. It had no effect and never will.
    Refused,
}

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Text for people, with the member and the remedy.
    pub reason: String,
}

impl RequestFailure {
    /// Makes a failure.
    #[must_use]
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { kind, reason }
    }
}

/// Returns the keys that the range at this position of a transaction found.
pub(super) fn range_of(response: &TxnResponse, at: usize) -> &[KeyValue] {
    match response
        .responses
        .get(at)
        .and_then(|op| op.response.as_ref())
    {
        Some(Response::Range(range)) => &range.kvs,
        _ => &[],
    }
}
