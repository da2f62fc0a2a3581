//! Service `etcdserverpb.KV`: reads, writes and transactions.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// State of the member and its cluster that answered.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ResponseHeader {
    /// The cluster; a restored backup has the same one.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The member.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// Revision of the key-value store when the request was applied.
    #[prost(int64, tag = "3")]
    pub revision: i64,
    /// Raft term of the member.
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The key; it is never empty.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Revision of the last creation of the key.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Revision of the last change of the key; of a deleted key, revision of its deletion.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// Number of changes since the creation; 0 for a deleted key.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The lease that the key is attached to, or 0.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Reads a range of keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeRequest {
    /// First key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// First key after the range; empty for one key alone, see [`prefix_end`](super::prefix_end).
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// Greatest number of keys in the response; 0 for no limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// Revision to read at; 0 for the latest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Read from the member alone, which may be behind.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Leave out the values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Return only the number of keys.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// Answer to [`RangeRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys, sorted.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// More keys follow after the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// Number of keys in the range, whatever the limit.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// Writes a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    /// Lease to attach the key to, or 0.
    #[prost(int64, tag = "3")]
    pub lease: i64,
    /// Keep the value that the key has; an error if the key does not exist.
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
}

/// Answer to [`PutRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Deletes a range of keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRangeRequest {
    /// First key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// First key after the range; empty for one key alone.
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
}

/// Answer to [`DeleteRangeRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRangeResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Number of deleted keys.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RequestOp {
    /// The operation; etcd refuses a transaction with an absent one.
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub request: Option<Request>,
}

/// See [`RequestOp`].
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Request {
    /// Reads keys.
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    /// Writes a key.
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// Deletes keys.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
    /// A nested transaction.
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

/// Result of one operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ResponseOp {
    /// The result, of the kind of the operation.
    #[prost(oneof = "Response", tags = "1, 2, 3, 4")]
    pub response: Option<Response>,
}

/// See [`ResponseOp`].
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Response {
    /// Keys that were read.
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    /// A written key.
    #[prost(message, tag = "2")]
    Put(PutResponse),
    /// Deleted keys.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
    /// A nested transaction.
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

/// How the value in the store compares to the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CompareResult {
    /// They are equal.
    Equal = 0,
    /// The store's is greater.
    Greater = 1,
    /// The store's is less.
    Less = 2,
    /// They differ.
    NotEqual = 3,
}

/// Property of a key that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CompareTarget {
    /// [`KeyValue::version`]; 0 for a key that does not exist.
    Version = 0,
    /// [`KeyValue::create_revision`]; 0 for a key that does not exist.
    Create = 1,
    /// [`KeyValue::mod_revision`]; 0 for a key that does not exist.
    Mod = 2,
    /// [`KeyValue::value`].
    Value = 3,
    /// [`KeyValue::lease`].
    Lease = 4,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Compare {
    /// The comparison.
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub result: i32,
    /// The compared property.
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub target: i32,
    /// The key.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// The given value, of the kind of the target.
    #[prost(oneof = "CompareValue", tags = "4, 5, 6, 7, 8")]
    pub value: Option<CompareValue>,
    /// If not empty, the condition must hold for all keys from `key` to here.
    #[prost(bytes = "bytes", tag = "64")]
    pub range_end: Bytes,
}

/// See [`Compare`].
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum CompareValue {
    /// For [`CompareTarget::Version`].
    #[prost(int64, tag = "4")]
    Version(i64),
    /// For [`CompareTarget::Create`].
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    /// For [`CompareTarget::Mod`].
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    /// For [`CompareTarget::Value`].
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
    /// For [`CompareTarget::Lease`].
    #[prost(int64, tag = "8")]
    Lease(i64),
}

/// Does one of two lists of operations atomically. All its writes have one revision.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnRequest {
    /// All must hold for `success`.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// Done if all conditions hold. No key may be written twice.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// Done otherwise.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// Answer to [`TxnRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// Results of the operations that were done, in their order.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// Discards the history before a revision.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionRequest {
    /// First revision that can still be read.
    #[prost(int64, tag = "1")]
    pub revision: i64,
    /// Answer only after the history was removed from the disk.
    #[prost(bool, tag = "2")]
    pub physical: bool,
}

/// Answer to [`CompactionRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
