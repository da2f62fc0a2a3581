//! Errors of the client as failures of a publish.

use oxds_etcd::publisher::{FailureKind, RequestFailure};

use super::super::client::{Blame, EtcdError, Reason};

/// Returns the failure that the machine decides about.
pub(super) fn of(error: &EtcdError) -> RequestFailure {
    let kind = match error.reason() {
        Reason::NoSpace => FailureKind::NoSpace,
        Reason::Compacted { .. } => FailureKind::Compacted,
        Reason::ResponseTooLarge => FailureKind::ResponseTooLarge,
        Reason::LeaseNotFound => FailureKind::LeaseEnded,
        Reason::RequestTooLarge | Reason::TooManyOperations => FailureKind::TooLarge,
        _ if error.is_outcome_unknown() || error.blame() == Blame::Member => FailureKind::Unknown,
        _ => FailureKind::Refused,
    };
    RequestFailure::new(kind, error.to_string())
}
