//! Admin services of a process (gRFC A38, A14), called over a socket as `grpcdebug` does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::service::status::v3::ClientStatusRequest;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use http::uri::PathAndQuery;
use oxds_channel::testing::{Call, call};
use oxds_channel::{Bootstrap, ClientPool, Pool, XdsChannel};
use oxds_client::admin::channelz::message::{
    self, Address, AddressKind, ChannelData, Channels, GetOne, GetPage, GetServerSockets,
    OneChannel, OneServer, OneSocket, OneSubchannel, Servers, Socket, SocketRefs, State,
};
use oxds_client::admin::{self, Csds};
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response};
use tonic_prost::ProstCodec;

use crate::support::{FolderServer, Yaml, backends, call_once, eventually, one, ready};

fn pool(control_plane: SocketAddr) -> ClientPool {
    let bootstrap = Bootstrap::builder(control_plane.to_string()).node_id("test-node");
    ClientPool::new(bootstrap.build().unwrap())
}

fn channel(pool: &ClientPool) -> XdsChannel {
    XdsChannel::builder("xds:///svc")
        .clients(pool.clone())
        .pool(Pool::new())
        .report_picks(true)
        .build()
        .unwrap()
}

async fn listen() -> (SocketAddr, TcpListenerStream) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    (socket.local_addr().unwrap(), TcpListenerStream::new(socket))
}

async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// Serves the admin services of a pool. The health reporter sets the health that they return.
async fn serve(pool: &ClientPool) -> (Channel, tonic_health::server::HealthReporter) {
    let (address, incoming) = listen().await;
    let (admin, health) = admin::services(pool);
    let server = Server::builder().add_routes(admin);
    tokio::spawn(server.serve_with_incoming(incoming));
    (connect(address).await, health)
}

/// Path of a channelz method.
async fn ask<Q, R>(channel: &Channel, method: &str, question: Q) -> Result<R, Status>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path: PathAndQuery = format!("/grpc.channelz.v1.Channelz/{method}")
        .parse()
        .unwrap();
    let codec = ProstCodec::<Q, R>::default();
    let answer = grpc.unary(tonic::Request::new(question), path, codec).await;
    answer.map(tonic::Response::into_inner)
}

async fn top_channels(channel: &Channel) -> Vec<message::Channel> {
    let page: Channels = ask(channel, "GetTopChannels", GetPage::default())
        .await
        .unwrap();
    assert!(page.end);
    page.channel
}

async fn sockets(channel: &Channel, of: i64) -> (ChannelData, Vec<Socket>) {
    let one: OneSubchannel = ask(channel, "GetSubchannel", GetOne { id: of })
        .await
        .unwrap();
    let subchannel = one.subchannel.unwrap();
    let mut sockets = Vec::new();
    for socket in &subchannel.socket_ref {
        let id = socket.socket_id;
        let one: OneSocket = ask(channel, "GetSocket", GetOne { id }).await.unwrap();
        sockets.push(one.socket.unwrap());
    }
    (subchannel.data.unwrap(), sockets)
}

fn counts(data: &ChannelData) -> (i64, i64, i64) {
    (data.calls_started, data.calls_succeeded, data.calls_failed)
}

fn state(data: &ChannelData) -> State {
    data.state.unwrap().state()
}

fn address(address: &Option<Address>) -> SocketAddr {
    let Some(AddressKind::Tcpip(tcp)) = &address.as_ref().unwrap().address else {
        panic!("{address:?} is not TCP");
    };
    let ip: [u8; 4] = tcp.ip_address[..].try_into().unwrap();
    SocketAddr::new(IpAddr::from(ip), u16::try_from(tcp.port).unwrap())
}

/// given a channel / when 20 calls succeed, 3 fail and one is cancelled / then channelz shows these counts for the
/// channel, its endpoint and its socket, and shows the control-plane connection with its one stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c261_channelz_shows_real_calls_of_real_channels() {
    let [backend] = backends().await;
    let yaml = one("a", &[("here", 1, 0, &[(backend.address(), "HEALTHY")])]);
    let control_plane = FolderServer::start(&yaml);
    let pool = pool(control_plane.address());
    let (admin, _health) = serve(&pool).await;
    assert_eq!(top_channels(&admin).await, [], "no channel yet");

    let before = SystemTime::now();
    let channel = channel(&pool);
    for _ in 0..20 {
        call_once(&channel).await.unwrap();
    }
    backend.set_status(Code::NotFound as u32);
    for _ in 0..3 {
        call_once(&channel).await.unwrap_err();
    }
    backend.set_status(0);
    backend.set_delay(Duration::from_secs(60));
    let hangs = tokio::spawn({
        let channel = channel.clone();
        async move { call(&channel, Call::default()).await }
    });
    eventually(|| backend.calls() == 24).await;

    let shown = top_channels(&admin).await;
    let target = |of: &message::Channel| of.data.clone().unwrap().target;
    let ours = shown.iter().find(|of| target(of) == "xds:///svc").unwrap();
    let data = ours.data.clone().unwrap();
    assert_eq!(state(&data), State::Ready);
    assert_eq!(counts(&data), (24, 20, 3), "one is under way");
    hangs.abort();
    hangs.await.unwrap_err();
    let id = ours.r#ref.as_ref().unwrap().channel_id;
    let one: OneChannel = ask(&admin, "GetChannel", GetOne { id }).await.unwrap();
    let data = one.channel.unwrap().data.unwrap();
    assert_eq!(counts(&data), (24, 20, 4), "it was given up");
    let created = data.trace.unwrap().creation_timestamp.unwrap();
    let since = before
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(u64::try_from(created.seconds).unwrap() >= since);

    let [below] = &ours.subchannel_ref[..] else {
        panic!("{ours:?}");
    };
    let (data, connections) = sockets(&admin, below.subchannel_id).await;
    assert_eq!(data.target, backend.address().to_string());
    assert_eq!(state(&data), State::Ready);
    assert_eq!(counts(&data), (24, 20, 4));
    let [socket] = &connections[..] else {
        panic!("{connections:?}");
    };
    assert_eq!(address(&socket.remote), backend.address());
    assert_ne!(address(&socket.local), backend.address());
    let streams = socket.data.as_ref().unwrap();
    let streams = (
        streams.streams_started,
        streams.streams_succeeded,
        streams.streams_failed,
    );
    assert_eq!(
        streams,
        (24, 23, 1),
        "what the backend answered, and what it did not"
    );

    let uri = control_plane.address().to_string();
    let ads = shown.iter().find(|of| target(of) == uri).unwrap();
    let (data, connections) = sockets(&admin, ads.subchannel_ref[0].subchannel_id).await;
    assert_eq!((state(&data), counts(&data)), (State::Ready, (1, 0, 0)));
    assert_eq!(address(&connections[0].remote), control_plane.address());

    drop(channel);
    let deadline = tokio::time::Instant::now() + crate::support::SOON;
    while !top_channels(&admin).await.is_empty() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "what has ended is still shown"
        );
    }
}

/// given an endpoint that is down, and one that closes / then channelz shows both as not ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c261_channelz_shows_what_is_down() {
    let [up, down] = backends().await;
    down.kill();
    let places: [(SocketAddr, &str); 2] = [(up.address(), "HEALTHY"), (down.address(), "HEALTHY")];
    let yaml = Yaml::default()
        .service(&[("{ prefix: \"\" }", "{ cluster: a }")])
        .cluster("a", &[("here", 1, 0, &places)]);
    let control_plane = FolderServer::start(yaml.as_str());
    let pool = pool(control_plane.address());
    let (admin, _health) = serve(&pool).await;
    let channel = channel(&pool);
    ready(&channel, 1).await;
    // The channel follows its subchannels on a task of its own.
    let deadline = tokio::time::Instant::now() + crate::support::SOON;
    let ours = loop {
        let mut shown = top_channels(&admin).await.into_iter();
        let ours = shown.find(|of| of.subchannel_ref.len() == 2).unwrap();
        match state(ours.data.as_ref().unwrap()) {
            State::Ready => break ours,
            other => assert!(tokio::time::Instant::now() < deadline, "still {other:?}"),
        }
    };
    for below in &ours.subchannel_ref {
        let (data, connections) = sockets(&admin, below.subchannel_id).await;
        let is_up = data.target == up.address().to_string();
        assert_eq!(connections.len(), usize::from(is_up), "{data:?}");
        assert_eq!(state(&data) == State::Ready, is_up, "{data:?}");
        assert_eq!(counts(&data), (0, 0, 0), "a connection is no call");
    }
}

/// given several clients / then pages are read by id, and an unknown id is NOT_FOUND.
#[tokio::test]
async fn c261_channelz_answers_by_pages() {
    let control_plane = oxds_testkit::ControlPlane::start().await.unwrap();
    let pool = pool(control_plane.address());
    let (admin, _health) = serve(&pool).await;
    let clients = ["one", "two", "three"].map(|target| pool.client(target));
    let watches = clients
        .each_ref()
        .map(|client| client.watch::<oxds_core::resource::Cluster>("c"));
    for _ in &watches {
        control_plane.next_stream().await.unwrap();
    }
    let mut seen = Vec::new();
    let mut next = GetPage {
        start: 0,
        max_results: 2,
    };
    loop {
        let page: Channels = ask(&admin, "GetTopChannels", next).await.unwrap();
        seen.extend(
            page.channel
                .iter()
                .map(|of| of.r#ref.as_ref().unwrap().channel_id),
        );
        next.start = seen.last().unwrap() + 1;
        if page.end {
            break;
        }
        assert_eq!(page.channel.len(), 2);
    }
    assert_eq!(seen.len(), 3);
    assert!(seen.is_sorted() && seen[0] > 0, "{seen:?}");

    let negative = GetPage {
        start: 0,
        max_results: -1,
    };
    let refused = ask::<_, Channels>(&admin, "GetTopChannels", negative).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let nothing = GetOne { id: i64::MAX };
    let codes = [
        ask::<_, OneChannel>(&admin, "GetChannel", nothing)
            .await
            .unwrap_err()
            .code(),
        ask::<_, OneSubchannel>(&admin, "GetSubchannel", nothing)
            .await
            .unwrap_err()
            .code(),
        ask::<_, OneSocket>(&admin, "GetSocket", nothing)
            .await
            .unwrap_err()
            .code(),
        ask::<_, OneServer>(&admin, "GetServer", nothing)
            .await
            .unwrap_err()
            .code(),
    ];
    assert_eq!(codes, [Code::NotFound; 4]);
    let unknown = ask::<_, OneServer>(&admin, "GetNothing", nothing).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
}

/// given a registered server that counts a service / then channelz shows its calls and its listening address for as
/// long as the server lives.
#[tokio::test]
async fn c261_channelz_shows_registered_servers() {
    let pool = pool((Ipv4Addr::LOCALHOST, 1).into());
    let (admin, _health) = serve(&pool).await;
    let (listens, incoming) = listen().await;
    let shown = pool.channelz().server("orders", listens);
    let counted = shown.count(Csds::new(&pool).into_service());
    let server = tokio::spawn(
        Server::builder()
            .add_service(counted)
            .serve_with_incoming(incoming),
    );
    let mut csds = ClientStatusDiscoveryServiceClient::new(connect(listens).await);
    csds.fetch_client_status(ClientStatusRequest::default())
        .await
        .unwrap();
    let matching = ClientStatusRequest {
        node_matchers: vec![Default::default()],
        ..ClientStatusRequest::default()
    };
    csds.fetch_client_status(matching).await.unwrap_err();

    let page: Servers = ask(&admin, "GetServers", GetPage::default()).await.unwrap();
    let [told] = &page.server[..] else {
        panic!("{page:?}");
    };
    let (told_ref, data) = (told.r#ref.as_ref().unwrap(), told.data.as_ref().unwrap());
    assert_eq!(told_ref.name, "orders");
    assert_eq!(
        (data.calls_started, data.calls_succeeded, data.calls_failed),
        (2, 1, 1)
    );
    let id = told.listen_socket[0].socket_id;
    let one: OneSocket = ask(&admin, "GetSocket", GetOne { id }).await.unwrap();
    assert_eq!(address(&one.socket.unwrap().local), listens);
    let id = told_ref.server_id;
    let one: OneServer = ask(&admin, "GetServer", GetOne { id }).await.unwrap();
    assert_eq!(one.server.as_ref(), Some(told));
    let asked = GetServerSockets {
        server_id: id,
        ..GetServerSockets::default()
    };
    let none: SocketRefs = ask(&admin, "GetServerSockets", asked).await.unwrap();
    assert!(none.end && none.socket_ref.is_empty());

    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    drop((shown, csds));
    let deadline = tokio::time::Instant::now() + crate::support::SOON;
    loop {
        let page: Servers = ask(&admin, "GetServers", GetPage::default()).await.unwrap();
        if page.server.is_empty() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{page:?}");
    }
}

/// given admin services that were registered before any client exists / then CSDS, channelz and health answer, and
/// health is what the application set.
#[tokio::test]
async fn c261_admin_services_attach_in_one_call() {
    let pool = pool((Ipv4Addr::LOCALHOST, 1).into());
    let (admin, health) = serve(&pool).await;
    assert_eq!(top_channels(&admin).await, []);
    let mut csds = ClientStatusDiscoveryServiceClient::new(admin.clone());
    let answer = csds
        .fetch_client_status(ClientStatusRequest::default())
        .await;
    assert_eq!(answer.unwrap().into_inner().config, []);
    let mut client = HealthClient::new(admin);
    let mut check = async |service: &str| {
        let asked = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = client.check(asked).await.map_err(|status| status.code())?;
        Ok::<_, Code>(answer.into_inner().status())
    };
    assert_eq!(
        check("").await,
        Ok(health_check_response::ServingStatus::Serving)
    );
    assert_eq!(check("orders").await, Err(Code::NotFound));
    health
        .set_service_status("orders", ServingStatus::NotServing)
        .await;
    assert_eq!(
        check("orders").await,
        Ok(health_check_response::ServingStatus::NotServing)
    );
}
