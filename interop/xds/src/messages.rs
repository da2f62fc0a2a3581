//! The messages of `grpc.testing` that the suite exchanges.
//!
//! No crate carries them, so they are declared here by what
//! [messages.proto](https://github.com/grpc/grpc/blob/master/src/proto/grpc/testing/messages.proto) numbers; fields
//! that the suite does not use are left out. That the numbers are right is shown by peers in other languages, in
//! `interop/`.

use std::collections::BTreeMap;

/// `grpc.testing.Empty`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Bytes to fill a message with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Payload {
    /// Nobody looks at them.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: bytes::Bytes,
}

/// What `UnaryCall` takes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimpleRequest {
    /// Bytes that the answer's payload should have.
    #[prost(int32, tag = "2")]
    pub response_size: i32,
    /// Weight of the request.
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    /// Whether the answer should say which server it comes from.
    #[prost(bool, tag = "9")]
    pub fill_server_id: bool,
}

/// What `UnaryCall` answers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SimpleResponse {
    /// Weight of the answer.
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    /// What the server was started with as its id.
    #[prost(string, tag = "4")]
    pub server_id: String,
    /// The server's host.
    #[prost(string, tag = "6")]
    pub hostname: String,
}

/// Asks who answered the next calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerStatsRequest {
    /// How many calls, from the next one that is begun.
    #[prost(int32, tag = "1")]
    pub num_rpcs: i32,
    /// How long to wait for them, in seconds; then what there is is the answer.
    #[prost(int32, tag = "2")]
    pub timeout_sec: i32,
    /// Which metadata of the answers is wanted, in any case; `*` is all of it.
    #[prost(string, repeated, tag = "3")]
    pub metadata_keys: Vec<String>,
}

/// Who answered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerStatsResponse {
    /// Calls answered, by the server's host.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub rpcs_by_peer: BTreeMap<String, i32>,
    /// Calls that failed, or did not end in time.
    #[prost(int32, tag = "2")]
    pub num_failures: i32,
    /// The answered ones by method: `UnaryCall`, `EmptyCall`.
    #[prost(btree_map = "string, message", tag = "3")]
    pub rpcs_by_method: BTreeMap<String, RpcsByPeer>,
    /// The wanted metadata, by the server's host.
    #[prost(btree_map = "string, message", tag = "4")]
    pub metadatas_by_peer: BTreeMap<String, MetadataByPeer>,
}

/// Calls of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RpcsByPeer {
    /// By the server's host.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub rpcs_by_peer: BTreeMap<String, i32>,
}

/// Metadata of the calls that one host answered.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MetadataByPeer {
    /// An item for each call, even if it had nothing that was wanted.
    #[prost(message, repeated, tag = "1")]
    pub rpc_metadata: Vec<RpcMetadata>,
}

/// Metadata of one call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RpcMetadata {
    /// In the order in which it came.
    #[prost(message, repeated, tag = "1")]
    pub metadata: Vec<MetadataEntry>,
}

/// One entry of metadata.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MetadataEntry {
    /// As it was received.
    #[prost(string, tag = "1")]
    pub key: String,
    /// As it was received.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Where in the answer it was.
    #[prost(enumeration = "MetadataType", tag = "3")]
    pub kind: i32,
}

/// Where in an answer metadata was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MetadataType {
    /// It was not said.
    Unknown = 0,
    /// In the headers.
    Initial = 1,
    /// In the trailers.
    Trailing = 2,
}

/// Asks for counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerAccumulatedStatsRequest {}

/// Counts since the start. Its keys are [`RpcType`]'s names: `UNARY_CALL`, `EMPTY_CALL`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadBalancerAccumulatedStatsResponse {
    /// Deprecated in the suite, and still read by it.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub num_rpcs_started_by_method: BTreeMap<String, i32>,
    /// Deprecated likewise.
    #[prost(btree_map = "string, int32", tag = "2")]
    pub num_rpcs_succeeded_by_method: BTreeMap<String, i32>,
    /// Deprecated likewise.
    #[prost(btree_map = "string, int32", tag = "3")]
    pub num_rpcs_failed_by_method: BTreeMap<String, i32>,
    /// What became of the calls of each method.
    #[prost(btree_map = "string, message", tag = "4")]
    pub stats_per_method: BTreeMap<String, MethodStats>,
}

/// What became of the calls of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MethodStats {
    /// Calls begun.
    #[prost(int32, tag = "1")]
    pub rpcs_started: i32,
    /// Calls ended, by status code.
    #[prost(btree_map = "int32, int32", tag = "2")]
    pub result: BTreeMap<i32, i32>,
}

/// Tells the client what to call from now on.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClientConfigureRequest {
    /// Which methods.
    #[prost(enumeration = "RpcType", repeated, tag = "1")]
    pub types: Vec<i32>,
    /// With which metadata.
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<ConfiguredMetadata>,
    /// With which deadline, in seconds; 0 is the command line's.
    #[prost(int32, tag = "3")]
    pub timeout_sec: i32,
}

/// Metadata for the calls of one method.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfiguredMetadata {
    /// Which method.
    #[prost(enumeration = "RpcType", tag = "1")]
    pub kind: i32,
    /// Its key.
    #[prost(string, tag = "2")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// Done.
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

    /// The method of that name.
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
    /// Takes and answers nothing.
    pub const EMPTY_CALL: &str = "/grpc.testing.TestService/EmptyCall";
    /// Says who answers.
    pub const UNARY_CALL: &str = "/grpc.testing.TestService/UnaryCall";
    /// Who answers the next calls of a client.
    pub const CLIENT_STATS: &str = "/grpc.testing.LoadBalancerStatsService/GetClientStats";
    /// What became of a client's calls since its start.
    pub const ACCUMULATED_STATS: &str =
        "/grpc.testing.LoadBalancerStatsService/GetClientAccumulatedStats";
    /// What a client is to call from now on.
    pub const CONFIGURE: &str = "/grpc.testing.XdsUpdateClientConfigureService/Configure";
    /// A server says that it is well.
    pub const SET_SERVING: &str = "/grpc.testing.XdsUpdateHealthService/SetServing";
    /// A server says that it is not.
    pub const SET_NOT_SERVING: &str = "/grpc.testing.XdsUpdateHealthService/SetNotServing";
}
