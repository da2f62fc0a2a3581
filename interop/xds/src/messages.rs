//! Messages of `grpc.testing` that the suite exchanges.
//!
//! No crate has them, so they are declared here with the numbers of
//! [messages.proto](https://github.com/grpc/grpc/blob/master/src/proto/grpc/testing/messages.proto); fields that the
//! suite does not use are left out. Peers in other languages, in `interop/`, show that the numbers are right.

use std::collections::BTreeMap;

/// `grpc.testing.Empty`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Bytes to fill a message with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Payload {
    /// Arbitrary content.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: bytes::Bytes,
}

/// Request of `UnaryCall`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimpleRequest {
    /// Bytes of payload that the response should have.
    #[prost(int32, tag = "2")]
    pub response_size: i32,
    /// Payload of the request.
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    /// Whether the response should name the server.
    #[prost(bool, tag = "9")]
    pub fill_server_id: bool,
}

/// Response of `UnaryCall`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimpleResponse {
    /// Payload of the response.
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    /// Server id, from the server's command line.
    #[prost(string, tag = "4")]
    pub server_id: String,
    /// The server's host.
    #[prost(string, tag = "6")]
    pub hostname: String,
}

/// Request for the hosts that answer the next calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerStatsRequest {
    /// Number of calls, from the next one that starts.
    #[prost(int32, tag = "1")]
    pub num_rpcs: i32,
    /// Time to wait for them, in seconds; then the calls so far are the response.
    #[prost(int32, tag = "2")]
    pub timeout_sec: i32,
    /// Requested metadata keys, in any case; `*` means all.
    #[prost(string, repeated, tag = "3")]
    pub metadata_keys: Vec<String>,
}

/// Hosts that answered the watched calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerStatsResponse {
    /// Answered calls, by the server's host.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub rpcs_by_peer: BTreeMap<String, i32>,
    /// Calls that failed, or did not end in time.
    #[prost(int32, tag = "2")]
    pub num_failures: i32,
    /// Answered calls by method: `UnaryCall`, `EmptyCall`.
    #[prost(btree_map = "string, message", tag = "3")]
    pub rpcs_by_method: BTreeMap<String, RpcsByPeer>,
    /// Requested metadata, by the server's host.
    #[prost(btree_map = "string, message", tag = "4")]
    pub metadatas_by_peer: BTreeMap<String, MetadataByPeer>,
}

/// Calls of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RpcsByPeer {
    /// Number of calls by the server's host.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub rpcs_by_peer: BTreeMap<String, i32>,
}

/// Metadata of the calls that one host answered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MetadataByPeer {
    /// One item per call, also if it had no requested metadata.
    #[prost(message, repeated, tag = "1")]
    pub rpc_metadata: Vec<RpcMetadata>,
}

/// Metadata of one call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RpcMetadata {
    /// In the order of the response.
    #[prost(message, repeated, tag = "1")]
    pub metadata: Vec<MetadataEntry>,
}

/// One entry of metadata.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MetadataEntry {
    /// Key as received.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value as received.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Part of the response that it was in.
    #[prost(enumeration = "MetadataType", tag = "3")]
    pub kind: i32,
}

/// Parts of a response that have metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MetadataType {
    /// Not specified.
    Unknown = 0,
    /// In the headers.
    Initial = 1,
    /// In the trailers.
    Trailing = 2,
}

/// Request for the counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerAccumulatedStatsRequest {}

/// Counts since the start. Its keys are [`RpcType`]'s names: `UNARY_CALL`, `EMPTY_CALL`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerAccumulatedStatsResponse {
    /// Deprecated in the suite, but still read by it.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub num_rpcs_started_by_method: BTreeMap<String, i32>,
    /// Deprecated, but still read.
    #[prost(btree_map = "string, int32", tag = "2")]
    pub num_rpcs_succeeded_by_method: BTreeMap<String, i32>,
    /// Deprecated, but still read.
    #[prost(btree_map = "string, int32", tag = "3")]
    pub num_rpcs_failed_by_method: BTreeMap<String, i32>,
    /// Counts of each method.
    #[prost(btree_map = "string, message", tag = "4")]
    pub stats_per_method: BTreeMap<String, MethodStats>,
}

/// Counts of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MethodStats {
    /// Number of started calls.
    #[prost(int32, tag = "1")]
    pub rpcs_started: i32,
    /// Ended calls, by status code.
    #[prost(btree_map = "int32, int32", tag = "2")]
    pub result: BTreeMap<i32, i32>,
}

/// Sets the calls of the client from now on.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClientConfigureRequest {
    /// Methods to call.
    #[prost(enumeration = "RpcType", repeated, tag = "1")]
    pub types: Vec<i32>,
    /// Metadata of the calls.
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<ConfiguredMetadata>,
    /// Deadline of the calls, in seconds; 0 means that of the command line.
    #[prost(int32, tag = "3")]
    pub timeout_sec: i32,
}

/// Metadata for the calls of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfiguredMetadata {
    /// Method with this metadata.
    #[prost(enumeration = "RpcType", tag = "1")]
    pub kind: i32,
    /// Key of the entry.
    #[prost(string, tag = "2")]
    pub key: String,
    /// Value of the entry.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// Empty response of `Configure`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClientConfigureResponse {}

/// The methods that the client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RpcType {
    /// `/grpc.testing.TestService/EmptyCall`.
    EmptyCall = 0,
    /// `/grpc.testing.TestService/UnaryCall`.
    UnaryCall = 1,
}

impl RpcType {
    /// The method's own name, which flags and the stats by method use.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::EmptyCall => "EmptyCall",
            Self::UnaryCall => "UnaryCall",
        }
    }

    /// The value's name, which the accumulated stats use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyCall => "EMPTY_CALL",
            Self::UnaryCall => "UNARY_CALL",
        }
    }

    /// Returns the method with this name.
    #[must_use]
    pub fn of_method(name: &str) -> Option<Self> {
        [Self::EmptyCall, Self::UnaryCall]
            .into_iter()
            .find(|kind| kind.method() == name)
    }
}

/// The paths of the methods, as
/// [test.proto](https://github.com/grpc/grpc/blob/master/src/proto/grpc/testing/test.proto) names them.
pub mod path {
    /// Empty request and response.
    pub const EMPTY_CALL: &str = "/grpc.testing.TestService/EmptyCall";
    /// The response names the server.
    pub const UNARY_CALL: &str = "/grpc.testing.TestService/UnaryCall";
    /// Hosts that answer the next calls of a client.
    pub const CLIENT_STATS: &str = "/grpc.testing.LoadBalancerStatsService/GetClientStats";
    /// Counts of a client's calls since its start.
    pub const ACCUMULATED_STATS: &str =
        "/grpc.testing.LoadBalancerStatsService/GetClientAccumulatedStats";
    /// Sets the calls of a client from now on.
    pub const CONFIGURE: &str = "/grpc.testing.XdsUpdateClientConfigureService/Configure";
    /// Sets a server's health to serving.
    pub const SET_SERVING: &str = "/grpc.testing.XdsUpdateHealthService/SetServing";
    /// Sets a server's health to not serving.
    pub const SET_NOT_SERVING: &str = "/grpc.testing.XdsUpdateHealthService/SetNotServing";
}
