//! Service `etcdserverpb.Watch`: events of a range of keys, in the order of their revisions.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

use super::kv::{KeyValue, ResponseHeader};

/// A message of the client in a stream of watches.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchRequest {
    /// The message.
    #[prost(oneof = "WatchRequestUnion", tags = "1, 2, 3")]
    pub union: Option<WatchRequestUnion>,
}

/// See [`WatchRequest`].
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum WatchRequestUnion {
    /// Begins a watch.
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    /// Ends a watch.
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
    /// Asks how far the watches of the stream are.
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

/// Begins a watch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchCreateRequest {
    /// First key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// First key after the range; empty for one key alone.
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// First revision whose events are sent; 0 for "from now on".
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Send a response without events now and then, with the revision that the watch has reached.
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    /// Id of the watch in its stream; 0 for one that etcd chooses.
    #[prost(int64, tag = "7")]
    pub watch_id: i64,
    /// Split large responses.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// Ends a watch.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct WatchCancelRequest {
    /// Id of the watch.
    #[prost(int64, tag = "1")]
    pub watch_id: i64,
}

/// Asks for a response with the revision that the watches of the stream have reached.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct WatchProgressRequest {}

/// A message of etcd in a stream of watches.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchResponse {
    /// State of the member. Its revision is the progress of the watch only in a response without events.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Id of the watch; -1 for progress of all watches of the stream.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// The watch has begun.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// The watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// If the start revision was compacted, the first revision that can be read.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why the watch has ended.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// The next response continues this one.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    /// Changes, in the order of their revisions.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// A key was written.
    Put = 0,
    /// A key was deleted, or its lease ended.
    Delete = 1,
}

/// A change of a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Event {
    /// Kind of the change.
    #[prost(enumeration = "EventType", tag = "1")]
    pub r#type: i32,
    /// The key after the change; of a deletion, only the key and the revision.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}
