//! Messages of `grpc.channelz.v1` (gRFC A14), with the names and field numbers of the proto file.
//!
//! No published crate has them without code generation, so they are declared here. The fields that this library never
//! sets (trace events, socket options, security) are left out; the protocol allows them to be absent.

use envoy_types::pb::google::protobuf::{Int64Value, Timestamp};
use prost::{Enumeration, Message, Oneof};

/// A channel: a group of subchannels on which calls are made.
#[derive(Clone, PartialEq, Message)]
pub struct Channel {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<ChannelRef>,
    /// State and counts.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ChannelData>,
    /// References to its subchannels.
    #[prost(message, repeated, tag = "4")]
    pub subchannel_ref: Vec<SubchannelRef>,
}

/// A subchannel: an endpoint and its connections.
#[derive(Clone, PartialEq, Message)]
pub struct Subchannel {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<SubchannelRef>,
    /// State and counts.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ChannelData>,
    /// References to its connections.
    #[prost(message, repeated, tag = "5")]
    pub socket_ref: Vec<SocketRef>,
}

/// State and counts of a channel or subchannel.
#[derive(Clone, PartialEq, Message)]
pub struct ChannelData {
    /// Connectivity state.
    #[prost(message, optional, tag = "1")]
    pub state: Option<ChannelConnectivityState>,
    /// Target URI of a channel, or address of a subchannel.
    #[prost(string, tag = "2")]
    pub target: String,
    /// Creation time.
    #[prost(message, optional, tag = "3")]
    pub trace: Option<ChannelTrace>,
    /// Calls that have started.
    #[prost(int64, tag = "4")]
    pub calls_started: i64,
    /// Calls that ended with OK.
    #[prost(int64, tag = "5")]
    pub calls_succeeded: i64,
    /// Calls that ended with another status, or without one.
    #[prost(int64, tag = "6")]
    pub calls_failed: i64,
}

/// Wrapper message of a connectivity state, as the proto file defines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct ChannelConnectivityState {
    /// One of [`State`].
    #[prost(enumeration = "State", tag = "1")]
    pub state: i32,
}

/// Connectivity state of a channel or subchannel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum State {
    /// The state is unknown.
    Unknown = 0,
    /// Not connected, and not connecting.
    Idle = 1,
    /// A connection is being made.
    Connecting = 2,
    /// Calls can be sent.
    Ready = 3,
    /// The last connection attempt failed.
    TransientFailure = 4,
    /// The channel was closed.
    Shutdown = 5,
}

/// Trace of a channel or subchannel.
#[derive(Clone, PartialEq, Message)]
pub struct ChannelTrace {
    /// Time of its creation.
    #[prost(message, optional, tag = "2")]
    pub creation_timestamp: Option<Timestamp>,
}

/// Reference to a channel.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ChannelRef {
    /// Id of the channel.
    #[prost(int64, tag = "1")]
    pub channel_id: i64,
    /// Name for people; may be empty.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Reference to a subchannel.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct SubchannelRef {
    /// Id of the subchannel.
    #[prost(int64, tag = "7")]
    pub subchannel_id: i64,
    /// Name for people; may be empty.
    #[prost(string, tag = "8")]
    pub name: String,
}

/// Reference to a socket.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct SocketRef {
    /// Id of the socket.
    #[prost(int64, tag = "3")]
    pub socket_id: i64,
    /// Name for people; may be empty.
    #[prost(string, tag = "4")]
    pub name: String,
}

/// Reference to a server.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ServerRef {
    /// Id of the server.
    #[prost(int64, tag = "5")]
    pub server_id: i64,
    /// Name for people; may be empty.
    #[prost(string, tag = "6")]
    pub name: String,
}

/// A server of the process.
#[derive(Clone, PartialEq, Message)]
pub struct Server {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<ServerRef>,
    /// State and counts.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ServerData>,
    /// References to its listening sockets.
    #[prost(message, repeated, tag = "3")]
    pub listen_socket: Vec<SocketRef>,
}

/// Counts of a server.
#[derive(Clone, PartialEq, Message)]
pub struct ServerData {
    /// Calls that have started.
    #[prost(int64, tag = "2")]
    pub calls_started: i64,
    /// Calls that ended with OK.
    #[prost(int64, tag = "3")]
    pub calls_succeeded: i64,
    /// Calls that ended with another status, or without one.
    #[prost(int64, tag = "4")]
    pub calls_failed: i64,
    /// Time at which the last call started.
    #[prost(message, optional, tag = "5")]
    pub last_call_started_timestamp: Option<Timestamp>,
}

/// A connection, or a listening socket.
#[derive(Clone, PartialEq, Message)]
pub struct Socket {
    /// Id and name.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<SocketRef>,
    /// State and counts.
    #[prost(message, optional, tag = "2")]
    pub data: Option<SocketData>,
    /// Local address.
    #[prost(message, optional, tag = "3")]
    pub local: Option<Address>,
    /// Remote address.
    #[prost(message, optional, tag = "4")]
    pub remote: Option<Address>,
}

/// Counts and times of a connection.
#[derive(Clone, PartialEq, Message)]
pub struct SocketData {
    /// Streams that have started.
    #[prost(int64, tag = "1")]
    pub streams_started: i64,
    /// Streams that the peer has ended.
    #[prost(int64, tag = "2")]
    pub streams_succeeded: i64,
    /// Streams that broke or were cancelled.
    #[prost(int64, tag = "3")]
    pub streams_failed: i64,
    /// Time at which this side last opened a stream.
    #[prost(message, optional, tag = "7")]
    pub last_local_stream_created_timestamp: Option<Timestamp>,
    /// Time at which the peer last opened a stream.
    #[prost(message, optional, tag = "8")]
    pub last_remote_stream_created_timestamp: Option<Timestamp>,
    /// Time at which a message was last sent.
    #[prost(message, optional, tag = "9")]
    pub last_message_sent_timestamp: Option<Timestamp>,
    /// Time at which a message was last received.
    #[prost(message, optional, tag = "10")]
    pub last_message_received_timestamp: Option<Timestamp>,
    /// Flow control window of this side, in bytes.
    #[prost(message, optional, tag = "11")]
    pub local_flow_control_window: Option<Int64Value>,
    /// Flow control window of the peer, in bytes.
    #[prost(message, optional, tag = "12")]
    pub remote_flow_control_window: Option<Int64Value>,
}

/// Address of one side of a socket.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Address {
    /// The address itself.
    #[prost(oneof = "AddressKind", tags = "1, 2")]
    pub address: Option<AddressKind>,
}

/// Kinds of addresses.
#[derive(Clone, PartialEq, Eq, Hash, Oneof)]
pub enum AddressKind {
    /// Address of a TCP socket.
    #[prost(message, tag = "1")]
    Tcpip(TcpIpAddress),
    /// Address of a Unix domain socket.
    #[prost(message, tag = "2")]
    Uds(UdsAddress),
}

/// An IP address and a port.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct TcpIpAddress {
    /// IPv4 (4 bytes) or IPv6 (16 bytes) address, in network order.
    #[prost(bytes = "vec", tag = "1")]
    pub ip_address: Vec<u8>,
    /// Port of the socket.
    #[prost(int32, tag = "2")]
    pub port: i32,
}

/// Address of a Unix domain socket.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct UdsAddress {
    /// Path of the socket.
    #[prost(string, tag = "1")]
    pub filename: String,
}

/// Request for a page of channels or servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetPage {
    /// Lowest id to return.
    #[prost(int64, tag = "1")]
    pub start: i64,
    /// Page size; 0 means the default of the service.
    #[prost(int64, tag = "2")]
    pub max_results: i64,
}

/// Request for a page of a server's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetServerSockets {
    /// Id of the server.
    #[prost(int64, tag = "1")]
    pub server_id: i64,
    /// Lowest id to return.
    #[prost(int64, tag = "2")]
    pub start: i64,
    /// Page size; 0 means the default of the service.
    #[prost(int64, tag = "3")]
    pub max_results: i64,
}

/// Request for one channel, subchannel, socket or server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetOne {
    /// Id of the entity.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

macro_rules! responses {
    ($($page:ident $one:ident $what:ident: $type:ty;)*) => {$(
        #[doc = concat!("Page of `", stringify!($type), "`, in order of their ids.")]
        #[derive(Clone, PartialEq, Message)]
        pub struct $page {
            #[doc = concat!("Messages of type `", stringify!($type), "`.")]
            #[prost(message, repeated, tag = "1")]
            pub $what: Vec<$type>,
            /// Whether this is the last page.
            #[prost(bool, tag = "2")]
            pub end: bool,
        }

        #[doc = concat!("Response with one `", stringify!($type), "`.")]
        #[derive(Clone, PartialEq, Message)]
        pub struct $one {
            #[doc = concat!("The `", stringify!($type), "` that was requested.")]
            #[prost(message, optional, tag = "1")]
            pub $what: Option<$type>,
        }
    )*};
}

responses! {
    Channels OneChannel channel: Channel;
    Servers OneServer server: Server;
    SocketRefs OneSocketRef socket_ref: SocketRef;
    Subchannels OneSubchannel subchannel: Subchannel;
    Sockets OneSocket socket: Socket;
}
