//! The messages of `grpc.channelz.v1` (gRFC A14), as far as there is something to say in them.
//!
//! No crate has them, so they are declared here, by their numbers; what is left out (events of a trace, socket options,
//! security) is absent on the wire, as the protocol allows.

use envoy_types::pb::google::protobuf::{Int64Value, Timestamp};
use prost::{Enumeration, Message, Oneof};

/// A group of subchannels that calls are made on.
#[derive(Clone, PartialEq, Message)]
pub struct Channel {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<ChannelRef>,
    /// How it is.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ChannelData>,
    /// What is below it.
    #[prost(message, repeated, tag = "4")]
    pub subchannel_ref: Vec<SubchannelRef>,
}

/// An endpoint, and the connections to it.
#[derive(Clone, PartialEq, Message)]
pub struct Subchannel {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<SubchannelRef>,
    /// How it is.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ChannelData>,
    /// Its connections.
    #[prost(message, repeated, tag = "5")]
    pub socket_ref: Vec<SocketRef>,
}

/// How a channel or a subchannel is.
#[derive(Clone, PartialEq, Message)]
pub struct ChannelData {
    /// Where it stands.
    #[prost(message, optional, tag = "1")]
    pub state: Option<ChannelConnectivityState>,
    /// What it is to.
    #[prost(string, tag = "2")]
    pub target: String,
    /// Its life.
    #[prost(message, optional, tag = "3")]
    pub trace: Option<ChannelTrace>,
    /// Calls that began.
    #[prost(int64, tag = "4")]
    pub calls_started: i64,
    /// Calls that ended with OK.
    #[prost(int64, tag = "5")]
    pub calls_succeeded: i64,
    /// Calls that ended otherwise.
    #[prost(int64, tag = "6")]
    pub calls_failed: i64,
}

/// A state in a message of its own, as the protocol has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct ChannelConnectivityState {
    /// The state.
    #[prost(enumeration = "State", tag = "1")]
    pub state: i32,
}

/// Where a channel or a subchannel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum State {
    /// Nobody knows.
    Unknown = 0,
    /// Not connected, and not trying to be.
    Idle = 1,
    /// On the way.
    Connecting = 2,
    /// Calls may go.
    Ready = 3,
    /// Tried and failed.
    TransientFailure = 4,
    /// Over.
    Shutdown = 5,
}

/// The life of a channel or a subchannel.
#[derive(Clone, PartialEq, Message)]
pub struct ChannelTrace {
    /// When it was made.
    #[prost(message, optional, tag = "2")]
    pub creation_timestamp: Option<Timestamp>,
}

/// The number of a channel.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ChannelRef {
    /// It.
    #[prost(int64, tag = "1")]
    pub channel_id: i64,
    /// And what it is called.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// The number of a subchannel.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct SubchannelRef {
    /// It.
    #[prost(int64, tag = "7")]
    pub subchannel_id: i64,
    /// And what it is called.
    #[prost(string, tag = "8")]
    pub name: String,
}

/// The number of a socket.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct SocketRef {
    /// It.
    #[prost(int64, tag = "3")]
    pub socket_id: i64,
    /// And what it is called.
    #[prost(string, tag = "4")]
    pub name: String,
}

/// The number of a server.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ServerRef {
    /// It.
    #[prost(int64, tag = "5")]
    pub server_id: i64,
    /// And what it is called.
    #[prost(string, tag = "6")]
    pub name: String,
}

/// A server of the process.
#[derive(Clone, PartialEq, Message)]
pub struct Server {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<ServerRef>,
    /// How it is.
    #[prost(message, optional, tag = "2")]
    pub data: Option<ServerData>,
    /// Where it listens.
    #[prost(message, repeated, tag = "3")]
    pub listen_socket: Vec<SocketRef>,
}

/// How a server is.
#[derive(Clone, PartialEq, Message)]
pub struct ServerData {
    /// Calls that began.
    #[prost(int64, tag = "2")]
    pub calls_started: i64,
    /// Calls that ended with OK.
    #[prost(int64, tag = "3")]
    pub calls_succeeded: i64,
    /// Calls that ended otherwise.
    #[prost(int64, tag = "4")]
    pub calls_failed: i64,
    /// When the last one began.
    #[prost(message, optional, tag = "5")]
    pub last_call_started_timestamp: Option<Timestamp>,
}

/// A connection, or what is listened on.
#[derive(Clone, PartialEq, Message)]
pub struct Socket {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub r#ref: Option<SocketRef>,
    /// How it is.
    #[prost(message, optional, tag = "2")]
    pub data: Option<SocketData>,
    /// This end.
    #[prost(message, optional, tag = "3")]
    pub local: Option<Address>,
    /// The other end.
    #[prost(message, optional, tag = "4")]
    pub remote: Option<Address>,
}

/// How a connection is.
#[derive(Clone, PartialEq, Message)]
pub struct SocketData {
    /// Streams that began.
    #[prost(int64, tag = "1")]
    pub streams_started: i64,
    /// Streams that the other end has ended.
    #[prost(int64, tag = "2")]
    pub streams_succeeded: i64,
    /// Streams that broke, or were cancelled.
    #[prost(int64, tag = "3")]
    pub streams_failed: i64,
    /// When this end last opened a stream.
    #[prost(message, optional, tag = "7")]
    pub last_local_stream_created_timestamp: Option<Timestamp>,
    /// When the other end did.
    #[prost(message, optional, tag = "8")]
    pub last_remote_stream_created_timestamp: Option<Timestamp>,
    /// When a message was last sent.
    #[prost(message, optional, tag = "9")]
    pub last_message_sent_timestamp: Option<Timestamp>,
    /// When one was received.
    #[prost(message, optional, tag = "10")]
    pub last_message_received_timestamp: Option<Timestamp>,
    /// What this end may send.
    #[prost(message, optional, tag = "11")]
    pub local_flow_control_window: Option<Int64Value>,
    /// What the other end may.
    #[prost(message, optional, tag = "12")]
    pub remote_flow_control_window: Option<Int64Value>,
}

/// One end of a socket.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Address {
    /// Of one kind or another.
    #[prost(oneof = "AddressKind", tags = "1, 2")]
    pub address: Option<AddressKind>,
}

/// The kinds of addresses.
#[derive(Clone, PartialEq, Eq, Hash, Oneof)]
pub enum AddressKind {
    /// Over TCP.
    #[prost(message, tag = "1")]
    Tcpip(TcpIpAddress),
    /// In the file system.
    #[prost(message, tag = "2")]
    Uds(UdsAddress),
}

/// An IP address and a port.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct TcpIpAddress {
    /// 4 or 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub ip_address: Vec<u8>,
    /// The port.
    #[prost(int32, tag = "2")]
    pub port: i32,
}

/// A path.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct UdsAddress {
    /// The path.
    #[prost(string, tag = "1")]
    pub filename: String,
}

/// Asks for a page: of channels or servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetPage {
    /// The least number that is wanted.
    #[prost(int64, tag = "1")]
    pub start: i64,
    /// The most results; 0 leaves it to the service.
    #[prost(int64, tag = "2")]
    pub max_results: i64,
}

/// Asks for a page of a server's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetServerSockets {
    /// Which server.
    #[prost(int64, tag = "1")]
    pub server_id: i64,
    /// The least number that is wanted.
    #[prost(int64, tag = "2")]
    pub start: i64,
    /// The most results; 0 leaves it to the service.
    #[prost(int64, tag = "3")]
    pub max_results: i64,
}

/// Asks for one thing by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct GetOne {
    /// Its number.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

macro_rules! answers {
    ($($page:ident $one:ident $what:ident: $type:ty;)*) => {$(
        #[doc = concat!("A page of `", stringify!($type), "`, by number.")]
        #[derive(Clone, PartialEq, Message)]
        pub struct $page {
            /// They.
            #[prost(message, repeated, tag = "1")]
            pub $what: Vec<$type>,
            /// There are no more.
            #[prost(bool, tag = "2")]
            pub end: bool,
        }

        #[doc = concat!("One `", stringify!($type), "`.")]
        #[derive(Clone, PartialEq, Message)]
        pub struct $one {
            /// It.
            #[prost(message, optional, tag = "1")]
            pub $what: Option<$type>,
        }
    )*};
}

answers! {
    Channels OneChannel channel: Channel;
    Servers OneServer server: Server;
    SocketRefs OneSocketRef socket_ref: SocketRef;
    Subchannels OneSubchannel subchannel: Subchannel;
    Sockets OneSocket socket: Socket;
}
