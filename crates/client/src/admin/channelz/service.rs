//! The service `grpc.channelz.v1.Channelz`, for tonic servers.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use envoy_types::pb::google::protobuf::{Int64Value, Timestamp};
use http::{Request, Response};
use oxds_core::lb::Connectivity;
use oxds_net::transport::SocketAddresses;
use prost::Message;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::message::{
    Address, AddressKind, Channel, ChannelConnectivityState, ChannelData, ChannelRef, ChannelTrace,
    Channels, GetOne, GetPage, GetServerSockets, OneChannel, OneServer, OneSocket, OneSubchannel,
    Server, ServerData, ServerRef, Servers, Socket, SocketData, SocketRef, SocketRefs, State,
    Subchannel, SubchannelRef, TcpIpAddress, UdsAddress,
};
use crate::channelz::{
    Calls, ChannelEntry, ChannelSnapshot, Id, Registry, ServerRecord, SubchannelEntry,
};
use crate::handle::ClientPool;

/// Page size if the request does not set one; the same as in gRPC's own implementations.
const DEFAULT_PAGE_SIZE: usize = 100;

/// The service `grpc.channelz.v1.Channelz` over the registry of a pool.
///
/// ```no_run
/// # fn example(pool: &oxds_client::ClientPool) {
/// // With tonic: `Server::builder().add_service(channelz)`.
/// let channelz = oxds_client::admin::Channelz::new(pool);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Channelz {
    registry: Registry,
}

impl Channelz {
    /// Creates the service. It reports the registry's content at the time of each request.
    #[must_use]
    pub fn new(pool: &ClientPool) -> Self {
        Self {
            registry: pool.channelz().clone(),
        }
    }

    fn top_channels(&self, request: GetPage) -> Result<Channels, Status> {
        let all = self.registry.channels(request.start);
        let (channel, end) = page(&all, request.max_results, |channel| {
            channel_message(&**channel)
        })?;
        Ok(Channels { channel, end })
    }

    fn channel(&self, request: GetOne) -> Result<OneChannel, Status> {
        let channels = self.registry.channels(request.id);
        let found = channels
            .first()
            .filter(|found| found.id() == Id(request.id));
        let channel = found.map(|channel| channel_message(&**channel));
        channel
            .is_some()
            .then_some(OneChannel { channel })
            .ok_or_else(|| missing("channel", request))
    }

    fn subchannel(&self, request: GetOne) -> Result<OneSubchannel, Status> {
        let all = self.subchannels();
        let found = all.into_iter().find(|found| found.id() == Id(request.id));
        let found = found.ok_or_else(|| missing("subchannel", request))?;
        let sockets = found.sockets();
        let subchannel = Subchannel {
            r#ref: Some(subchannel_ref(&*found)),
            data: Some(channel_data(found.snapshot())),
            socket_ref: sockets
                .iter()
                .map(|socket| socket_ref(socket.id(), ""))
                .collect(),
        };
        Ok(OneSubchannel {
            subchannel: Some(subchannel),
        })
    }

    fn socket(&self, request: GetOne) -> Result<OneSocket, Status> {
        let subchannels = self.subchannels().into_iter();
        let mut sockets = subchannels.flat_map(|subchannel| subchannel.sockets());
        let found = sockets.find(|found| found.id() == Id(request.id));
        let connection = found.map(|found| {
            let (local, remote) = address_messages(&found.addresses());
            Socket {
                r#ref: Some(socket_ref(found.id(), "")),
                data: Some(socket_data(found.streams())),
                local: Some(local),
                remote: Some(remote),
            }
        });
        let listener = || {
            let servers = self.registry.servers(0);
            let server = servers
                .iter()
                .find(|server| server.listens.0 == Id(request.id))?;
            Some(Socket {
                r#ref: Some(listening(server)),
                data: Some(socket_data(Calls::default())),
                local: Some(tcp(server.listens.1)),
                remote: None,
            })
        };
        let socket = connection.or_else(listener);
        socket
            .is_some()
            .then_some(OneSocket { socket })
            .ok_or_else(|| missing("socket", request))
    }

    fn servers(&self, request: GetPage) -> Result<Servers, Status> {
        let all = self.registry.servers(request.start);
        let (server, end) = page(&all, request.max_results, |server| server_message(server))?;
        Ok(Servers { server, end })
    }

    fn server(&self, request: GetOne) -> Result<OneServer, Status> {
        let server = Some(server_message(&*self.find_server(request)?));
        Ok(OneServer { server })
    }

    /// Returns an empty page: a wrapped service sees calls, not connections.
    fn server_sockets(&self, request: GetServerSockets) -> Result<SocketRefs, Status> {
        self.find_server(GetOne {
            id: request.server_id,
        })?;
        let (socket_ref, end) = page(&[], request.max_results, SocketRef::clone)?;
        Ok(SocketRefs { socket_ref, end })
    }

    fn find_server(&self, request: GetOne) -> Result<Arc<ServerRecord>, Status> {
        let mut servers = self.registry.servers(request.id).into_iter();
        let found = servers.next().filter(|found| found.id == Id(request.id));
        found.ok_or_else(|| missing("server", request))
    }

    fn subchannels(&self) -> Vec<Arc<dyn SubchannelEntry>> {
        let channels = self.registry.channels(0);
        channels
            .iter()
            .flat_map(|channel| channel.subchannels())
            .collect()
    }
}

/// Returns the first page of `all`, and whether it is also the last.
fn page<T, M>(
    all: &[T],
    max_results: i64,
    convert: impl Fn(&T) -> M,
) -> Result<(Vec<M>, bool), Status> {
    let most = match usize::try_from(max_results) {
        // channelz.proto: 0 lets the server choose the page size.
        Ok(0) => DEFAULT_PAGE_SIZE,
        Ok(most) => most,
        Err(_) => return Err(Status::invalid_argument("max_results must not be negative")),
    };
    let end = all.len() <= most;
    Ok((all.iter().take(most).map(convert).collect(), end))
}

fn missing(what: &str, request: GetOne) -> Status {
    Status::not_found(format!("{what} {} not found", request.id))
}

fn channel_message(channel: &dyn ChannelEntry) -> Channel {
    let subchannels = channel.subchannels();
    Channel {
        r#ref: Some(ChannelRef {
            channel_id: channel.id().get(),
            name: String::new(),
        }),
        data: Some(channel_data(channel.snapshot())),
        subchannel_ref: subchannels
            .iter()
            .map(|subchannel| subchannel_ref(&**subchannel))
            .collect(),
    }
}

fn subchannel_ref(subchannel: &dyn SubchannelEntry) -> SubchannelRef {
    SubchannelRef {
        subchannel_id: subchannel.id().get(),
        name: String::new(),
    }
}

fn socket_ref(id: Id, name: impl Into<String>) -> SocketRef {
    SocketRef {
        socket_id: id.get(),
        name: name.into(),
    }
}

fn listening(server: &ServerRecord) -> SocketRef {
    let (id, address) = server.listens;
    socket_ref(id, address.to_string())
}

fn channel_data(snapshot: ChannelSnapshot) -> ChannelData {
    let state = match snapshot.state {
        Connectivity::Idle => State::Idle,
        Connectivity::Connecting => State::Connecting,
        Connectivity::Ready => State::Ready,
        Connectivity::TransientFailure => State::TransientFailure,
    };
    ChannelData {
        state: Some(ChannelConnectivityState {
            state: state.into(),
        }),
        target: snapshot.target,
        trace: Some(ChannelTrace {
            creation_timestamp: Some(timestamp(snapshot.created)),
        }),
        calls_started: number(snapshot.calls.started),
        calls_succeeded: number(snapshot.calls.succeeded),
        calls_failed: number(snapshot.calls.failed),
    }
}

fn server_message(server: &ServerRecord) -> Server {
    let calls = server.calls.calls();
    Server {
        r#ref: Some(ServerRef {
            server_id: server.id.get(),
            name: server.name.clone(),
        }),
        data: Some(ServerData {
            calls_started: number(calls.started),
            calls_succeeded: number(calls.succeeded),
            calls_failed: number(calls.failed),
            last_call_started_timestamp: unknown_time(),
        }),
        listen_socket: vec![listening(server)],
    }
}

fn socket_data(streams: Calls) -> SocketData {
    let unknown_window = Some(Int64Value { value: -1 });
    SocketData {
        streams_started: number(streams.started),
        streams_succeeded: number(streams.succeeded),
        streams_failed: number(streams.failed),
        last_local_stream_created_timestamp: unknown_time(),
        last_remote_stream_created_timestamp: unknown_time(),
        last_message_sent_timestamp: unknown_time(),
        last_message_received_timestamp: unknown_time(),
        local_flow_control_window: unknown_window,
        remote_flow_control_window: unknown_window,
    }
}

/// Returns the epoch: `grpcdebug` prints it as an empty time, but fails if the field is absent.
#[allow(clippy::unnecessary_wraps, reason = "the type of the fields")]
fn unknown_time() -> Option<Timestamp> {
    Some(Timestamp::default())
}

fn address_messages(addresses: &SocketAddresses) -> (Address, Address) {
    match addresses {
        SocketAddresses::Tcp { local, remote } => (tcp(*local), tcp(*remote)),
        SocketAddresses::Unix(path) => {
            let uds = || UdsAddress {
                filename: path.to_string_lossy().into_owned(),
            };
            let address = || Address {
                address: Some(AddressKind::Uds(uds())),
            };
            (address(), address())
        }
    }
}

fn tcp(address: std::net::SocketAddr) -> Address {
    let ip_address = match address.ip() {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let tcpip = TcpIpAddress {
        ip_address,
        port: address.port().into(),
    };
    Address {
        address: Some(AddressKind::Tcpip(tcpip)),
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a time. Times before 1970 become 1970.
fn timestamp(time: SystemTime) -> Timestamp {
    let since: Duration = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

impl NamedService for Channelz {
    const NAME: &'static str = "grpc.channelz.v1.Channelz";
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Channelz
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let service = self.clone();
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        match method {
            "GetTopChannels" => unary(request, move |request| service.top_channels(request)),
            "GetChannel" => unary(request, move |request| service.channel(request)),
            "GetSubchannel" => unary(request, move |request| service.subchannel(request)),
            "GetSocket" => unary(request, move |request| service.socket(request)),
            "GetServers" => unary(request, move |request| service.servers(request)),
            "GetServer" => unary(request, move |request| service.server(request)),
            "GetServerSockets" => unary(request, move |request| service.server_sockets(request)),
            _ => {
                let status = Status::new(Code::Unimplemented, "unknown method");
                Box::pin(ready(Ok(status.into_http())))
            }
        }
    }
}

fn unary<B, Q, R, F>(request: Request<B>, method: F) -> ResponseFuture
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: Message + Default + 'static,
    R: Message + Default + 'static,
    F: Fn(Q) -> Result<R, Status> + Send + 'static,
{
    Box::pin(async move {
        let mut grpc = Grpc::new(ProstCodec::<R, Q>::default());
        Ok(grpc.unary(UnaryMethod(method), request).await)
    })
}

/// A unary method that does not wait.
struct UnaryMethod<F>(F);

impl<Q, R, F: Fn(Q) -> Result<R, Status>> UnaryService<Q> for UnaryMethod<F> {
    type Response = R;
    type Future = Ready<Result<tonic::Response<R>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}
