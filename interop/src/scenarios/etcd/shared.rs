//! Requests and checks of all scenarios with etcd.

use oxds_server::store::etcd::client::{EtcdError, Reason};
use oxds_types::etcd::{
    PutRequest, RangeRequest, Request, RequestOp, TxnRequest, WatchCreateRequest, prefix_end,
};

use crate::Fallible;

pub(super) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

/// All keys with a prefix.
pub(super) fn read(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        ..RangeRequest::default()
    }
}

/// A watch of all keys with a prefix, from a revision on.
pub(super) fn watch(prefix: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        start_revision,
        progress_notify: true,
        fragment: true,
        ..WatchCreateRequest::default()
    }
}

pub(super) fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

pub(super) fn transaction(operations: impl IntoIterator<Item = Request>) -> TxnRequest {
    TxnRequest {
        success: operations.into_iter().map(operation).collect(),
        ..TxnRequest::default()
    }
}

/// Fails unless the call ended with this reason.
pub(super) fn refused<T>(answer: Result<T, EtcdError>, what: &str, expected: &Reason) -> Fallible {
    match answer {
        Ok(_) => Err(format!("{what}: succeeded, expected {expected}").into()),
        Err(error) if error.reason() == expected => Ok(()),
        Err(error) => Err(format!("{what}: {error}, expected {expected}").into()),
    }
}

/// Fails unless both are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "most callers have temporary values"
)]
pub(super) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Fallible {
    match seen == expected {
        true => Ok(()),
        false => Err(format!("{what}: {seen:?}, expected {expected:?}").into()),
    }
}
