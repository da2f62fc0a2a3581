//! The service, as a tonic server takes it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use envoy_types::pb::google::protobuf::{Int64Value, Timestamp};
use http::{Request, Response};
use oxds_core::lb::Connectivity;
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
use super::{Calls, Id, Node, Registry, server};
use crate::client::ClientPool;
use crate::transport::Ends;

/// How many results a page has where the asker leaves it to us, as in gRPC's own.
const PAGE: usize = 100;

/// The service `grpc.channelz.v1.Channelz` over what a pool's registry knows.
///
/// ```no_run
/// # fn example(pool: &oxds_client::ClientPool) {
/// // With tonic: `Server::builder().add_service(channelz)`.
/// let channelz = oxds_client::channelz::Channelz::new(pool);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Channelz {
    registry: Registry,
}

impl Channelz {
    /// What the pool's registry knows, whenever it comes and goes.
    #[must_use]
    pub fn new(pool: &ClientPool) -> Self {
        Self {
            registry: pool.channelz().clone(),
        }
    }

    fn top_channels(&self, asked: GetPage) -> Result<Channels, Status> {
        let all = self.registry.channels(asked.start);
        let (channel, end) = page(&all, asked.max_results, |channel| told(&**channel))?;
        Ok(Channels { channel, end })
    }

    fn channel(&self, asked: GetOne) -> Result<OneChannel, Status> {
        let channels = self.registry.channels(asked.id);
        let found = channels.first().filter(|found| found.id() == Id(asked.id));
        let channel = found.map(|channel| told(&**channel));
        channel
            .is_some()
            .then_some(OneChannel { channel })
            .ok_or_else(|| missing("channel", asked))
    }

    fn subchannel(&self, asked: GetOne) -> Result<OneSubchannel, Status> {
        let all = self.subchannels();
        let found = all.into_iter().find(|found| found.id() == Id(asked.id));
        let found = found.ok_or_else(|| missing("subchannel", asked))?;
        let sockets = found.sockets();
        let subchannel = Subchannel {
            r#ref: Some(subchannel_ref(&*found)),
            data: Some(data(found.node())),
            socket_ref: sockets
                .iter()
                .map(|socket| socket_ref(socket.id(), ""))
                .collect(),
        };
        Ok(OneSubchannel {
            subchannel: Some(subchannel),
        })
    }

    fn socket(&self, asked: GetOne) -> Result<OneSocket, Status> {
        let mut sockets = self.subchannels().into_iter().flat_map(|of| of.sockets());
        let found = sockets.find(|found| found.id() == Id(asked.id));
        let connection = found.map(|found| {
            let (local, remote) = addresses(&found.ends());
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
                .find(|server| server.listens.0 == Id(asked.id))?;
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
            .ok_or_else(|| missing("socket", asked))
    }

    fn servers(&self, asked: GetPage) -> Result<Servers, Status> {
        let all = self.registry.servers(asked.start);
        let (server, end) = page(&all, asked.max_results, |server| told_server(server))?;
        Ok(Servers { server, end })
    }

    fn server(&self, asked: GetOne) -> Result<OneServer, Status> {
        let server = Some(told_server(&*self.find_server(asked)?));
        Ok(OneServer { server })
    }

    /// Connections of servers are not known: a service sees calls.
    fn server_sockets(&self, asked: GetServerSockets) -> Result<SocketRefs, Status> {
        self.find_server(GetOne {
            id: asked.server_id,
        })?;
        let (socket_ref, end) = page(&[], asked.max_results, SocketRef::clone)?;
        Ok(SocketRefs { socket_ref, end })
    }

    fn find_server(&self, asked: GetOne) -> Result<Arc<server::Shared>, Status> {
        let mut servers = self.registry.servers(asked.id).into_iter();
        let found = servers.next().filter(|found| found.id == Id(asked.id));
        found.ok_or_else(|| missing("server", asked))
    }

    fn subchannels(&self) -> Vec<Arc<dyn super::Subchannel>> {
        let channels = self.registry.channels(0);
        channels
            .iter()
            .flat_map(|channel| channel.subchannels())
            .collect()
    }
}

/// As many as are wanted, and whether these are the last.
fn page<T, M>(all: &[T], most: i64, told: impl Fn(&T) -> M) -> Result<(Vec<M>, bool), Status> {
    let most = match usize::try_from(most) {
        Ok(0) => PAGE,
        Ok(most) => most,
        Err(_) => return Err(Status::invalid_argument("max_results must not be negative")),
    };
    let end = all.len() <= most;
    Ok((all.iter().take(most).map(told).collect(), end))
}

fn missing(what: &str, asked: GetOne) -> Status {
    Status::not_found(format!("there is no {what} {}", asked.id))
}

fn told(channel: &dyn super::Channel) -> Channel {
    let subchannels = channel.subchannels();
    Channel {
        r#ref: Some(ChannelRef {
            channel_id: channel.id().get(),
            name: String::new(),
        }),
        data: Some(data(channel.node())),
        subchannel_ref: subchannels
            .iter()
            .map(|below| subchannel_ref(&**below))
            .collect(),
    }
}

fn subchannel_ref(subchannel: &dyn super::Subchannel) -> SubchannelRef {
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

fn listening(server: &server::Shared) -> SocketRef {
    let (id, address) = server.listens;
    socket_ref(id, address.to_string())
}

fn data(node: Node) -> ChannelData {
    let state = match node.state {
        Connectivity::Idle => State::Idle,
        Connectivity::Connecting => State::Connecting,
        Connectivity::Ready => State::Ready,
        Connectivity::TransientFailure => State::TransientFailure,
    };
    ChannelData {
        state: Some(ChannelConnectivityState {
            state: state.into(),
        }),
        target: node.target,
        trace: Some(ChannelTrace {
            creation_timestamp: Some(timestamp(node.created)),
        }),
        calls_started: number(node.calls.started),
        calls_succeeded: number(node.calls.succeeded),
        calls_failed: number(node.calls.failed),
    }
}

fn told_server(server: &server::Shared) -> Server {
    let calls = server.calls();
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

/// `grpcdebug` shows the epoch as nothing, and fails where there is no time at all.
#[allow(clippy::unnecessary_wraps, reason = "what fields take")]
fn unknown_time() -> Option<Timestamp> {
    Some(Timestamp::default())
}

fn addresses(ends: &Ends) -> (Address, Address) {
    match ends {
        Ends::Tcp { local, remote } => (tcp(*local), tcp(*remote)),
        Ends::Unix(path) => {
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

/// A clock before 1970 shows 1970.
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

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Channelz
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let service = self.clone();
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        match method {
            "GetTopChannels" => unary(request, move |asked| service.top_channels(asked)),
            "GetChannel" => unary(request, move |asked| service.channel(asked)),
            "GetSubchannel" => unary(request, move |asked| service.subchannel(asked)),
            "GetSocket" => unary(request, move |asked| service.socket(asked)),
            "GetServers" => unary(request, move |asked| service.servers(asked)),
            "GetServer" => unary(request, move |asked| service.server(asked)),
            "GetServerSockets" => unary(request, move |asked| service.server_sockets(asked)),
            _ => {
                let status = Status::new(Code::Unimplemented, "no such method");
                Box::pin(ready(Ok(status.into_http())))
            }
        }
    }
}

fn unary<B, Q, R, F>(request: Request<B>, answer: F) -> Answering
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: Message + Default + 'static,
    R: Message + Default + 'static,
    F: Fn(Q) -> Result<R, Status> + Send + 'static,
{
    Box::pin(async move {
        let mut grpc = Grpc::new(ProstCodec::<R, Q>::default());
        Ok(grpc.unary(Answer(answer), request).await)
    })
}

/// A method that answers at once.
struct Answer<F>(F);

impl<Q, R, F: Fn(Q) -> Result<R, Status>> UnaryService<Q> for Answer<F> {
    type Response = R;
    type Future = Ready<Result<tonic::Response<R>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}
