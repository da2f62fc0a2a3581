//! Service `etcdserverpb.Lease`: keys that are deleted when their owner is silent.

use prost::Message;

use super::kv::ResponseHeader;

/// Makes a lease.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseGrantRequest {
    /// Time to live, in seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    /// Wanted id; 0 for one that etcd chooses.
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// Answer to [`LeaseGrantRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LeaseGrantResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Id of the lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// Time to live that etcd chose, in seconds.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    /// Reason why etcd grants no lease.
    #[prost(string, tag = "4")]
    pub error: String,
}

/// Ends a lease and deletes its keys.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeRequest {
    /// Id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// Answer to [`LeaseRevokeRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Renews a lease; a message of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveRequest {
    /// Id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// Answer to [`LeaseKeepAliveRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Id of the lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// New time to live in seconds; 0 if the lease has ended.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}
