//! Errors of the client as failures of the follower.

use oxds_etcd::follower::{Failure, FailureKind};

use super::client::{EtcdError, Reason};

/// Returns the failure that the machine decides about.
pub(super) fn of(error: &EtcdError) -> Failure {
    let kind = match error.reason() {
        Reason::Unreachable(_) | Reason::NoPreface | Reason::Disconnected(_) => {
            FailureKind::Unreachable
        }
        Reason::Timeout(_) => FailureKind::Silent,
        Reason::NoLeader => FailureKind::NoLeader,
        Reason::WrongPassword(_) | Reason::Unauthenticated(_) => FailureKind::Unauthenticated,
        Reason::PermissionDenied(_) => FailureKind::PermissionDenied,
        Reason::Compacted { .. } => FailureKind::Compacted,
        Reason::ResponseTooLarge => FailureKind::ResponseTooLarge,
        // A linearizable answer was newer than this member.
        Reason::FutureRevision => FailureKind::Inconsistent,
        _ => FailureKind::Other,
    };
    Failure::new(kind, error.to_string())
}

/// Returns whether the program at the address is not an etcd that can be used: no later attempt helps (G-33).
pub(super) fn is_wrong_program(error: &EtcdError) -> bool {
    matches!(error.reason(), Reason::NotEtcd(_) | Reason::TooOld(_))
}
