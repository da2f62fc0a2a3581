//! Requests that tests make of an etcd, scripted or real.

use oxds_types::etcd::{
    PutRequest, RangeRequest, Request, RequestOp, TxnRequest, WatchCreateRequest, prefix_end,
};

/// Returns a write of one key.
#[must_use]
pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

/// Returns a read of all keys with a prefix.
#[must_use]
pub fn read(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        ..RangeRequest::default()
    }
}

/// Returns a watch of all keys with a prefix, from a revision on.
#[must_use]
pub fn watch(prefix: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        start_revision,
        progress_notify: true,
        fragment: true,
        ..WatchCreateRequest::default()
    }
}

/// Returns an operation of a transaction.
#[must_use]
pub fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// Returns a transaction without a condition.
#[must_use]
pub fn transaction(operations: impl IntoIterator<Item = Request>) -> TxnRequest {
    TxnRequest {
        success: operations.into_iter().map(operation).collect(),
        ..TxnRequest::default()
    }
}
