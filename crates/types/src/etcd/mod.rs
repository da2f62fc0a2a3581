//! Messages of etcd's v3 API that oxds uses.
//!
//! They are written by hand, because the published crate needs `protoc` at build time. Fields that oxds neither writes
//! nor reads are left out; etcd ignores what is absent, and a decoder skips what it does not know. `interop` compares
//! numbers and types with the `.proto` files of a released etcd.
//!
//! Source of all numbers: `etcdserverpb/rpc.proto`, `mvccpb/kv.proto` and `authpb/auth.proto` of etcd 3.7.

mod auth;
mod kv;
mod lease;
mod maintenance;
mod watch;

pub use auth::{AuthenticateRequest, AuthenticateResponse};
pub use kv::{
    CompactionRequest, CompactionResponse, Compare, CompareResult, CompareTarget, CompareValue,
    DeleteRangeRequest, DeleteRangeResponse, KeyValue, PutRequest, PutResponse, RangeRequest,
    RangeResponse, Request, RequestOp, Response, ResponseHeader, ResponseOp, TxnRequest,
    TxnResponse,
};
pub use lease::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseRevokeRequest, LeaseRevokeResponse,
};
pub use maintenance::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, StatusRequest, StatusResponse,
};
pub use watch::{
    Event, EventType, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest,
    WatchRequestUnion, WatchResponse,
};

/// Returns the end of the range that holds all keys with this prefix (etcd API, "Key ranges").
///
/// A prefix of only `0xff` bytes has no end: the result is then `"\0"`, which stands for "all keys from the start".
///
/// ```
/// assert_eq!(oxds_types::etcd::prefix_end(b"/oxds/a/"), b"/oxds/a0");
/// ```
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn prefix_end_skips_bytes_without_successor() {
        assert_eq!(prefix_end(&[b'a', 0xff]), b"b");
        assert_eq!(prefix_end(&[0xff, 0xff]), [0]);
        assert_eq!(prefix_end(b""), [0]);
    }
}
