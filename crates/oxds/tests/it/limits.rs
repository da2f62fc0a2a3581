//! Tests of each limit option of `oxds serve` (S-77), with a client that exceeds the limit.

use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_testkit::hostile::{Call, Ended, Rude, Wire, framed};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};
use prost::Message as _;

use crate::support::{Serve, cluster, command, folder};

const SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
/// Default stream window of HTTP/2, in bytes.
const WINDOW: u32 = 65_535;
const RESOURCE_EXHAUSTED: u32 = 8;

/// Starts a server of one cluster with these options, and returns it with its folder.
fn start(options: &[&str]) -> (Serve, tempfile::TempDir) {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let mut command = command(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let server = Serve::of(command.args(options).arg(dir.path()));
    server.shows("/readyz", "200 OK");
    (server, dir)
}

async fn connect(server: &Serve) -> Rude {
    let connected = Rude::connect(server.grpc, WINDOW).await;
    connected.expect("a connection")
}

/// Opens a stream that subscribes to all clusters.
async fn subscribe(client: &mut Rude) -> Call {
    let mut call = client.call(SOTW).await.expect("a call");
    call.send(subscription());
    call
}

fn subscription() -> Bytes {
    ack(&DiscoveryResponse::default())
}

/// Returns the ACK of a response.
fn ack(response: &DiscoveryResponse) -> Bytes {
    framed(&DiscoveryRequest {
        version_info: response.version_info.clone(),
        node: Some(Node {
            id: "limits".into(),
            ..Node::default()
        }),
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
        response_nonce: response.nonce.clone(),
        ..DiscoveryRequest::default()
    })
}

/// Returns the end of a stream above the limit.
fn exhausted(text: &str) -> Ended {
    Ended::Status(RESOURCE_EXHAUSTED, text.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_connections_closes_the_next() {
    let (server, _dir) = start(&["--max-connections", "1"]);
    let mut first = connect(&server).await;
    subscribe(&mut first)
        .await
        .message()
        .await
        .expect("a response");
    let second = Wire::connect(server.grpc).await.expect("accepted");
    second.closed().await.expect("closed");
    server.shows(
        "/metrics",
        "oxds_over_limit_total{limit=\"connections\"} 1\n",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_ends_the_next() {
    let (server, _dir) = start(&["--max-streams", "2"]);
    let mut client = connect(&server).await;
    let (mut one, mut two) = (subscribe(&mut client).await, subscribe(&mut client).await);
    one.message().await.expect("a response");
    two.message().await.expect("a response");
    let third = subscribe(&mut connect(&server).await).await.ended().await;
    assert_eq!(
        third,
        exhausted("too many streams: the limit of 2 is reached")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_per_peer_ends_the_next() {
    let (server, _dir) = start(&["--max-streams-per-peer", "1"]);
    let mut client = connect(&server).await;
    let mut one = subscribe(&mut client).await;
    one.message().await.expect("a response");
    let text = "too many streams of 127.0.0.1: the limit of 1 is reached";
    assert_eq!(subscribe(&mut client).await.ended().await, exhausted(text));
}

/// The client knows the limit from HTTP/2 SETTINGS and delays the next stream until one ends.
#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_per_connection_delays_the_next() {
    let (server, dir) = start(&["--max-streams-per-connection", "1"]);
    let mut client = connect(&server).await;
    let mut one = subscribe(&mut client).await;
    let response = one.message().await.expect("a message");
    let response = DiscoveryResponse::decode(response).expect("a response");
    one.send(ack(&response));
    let mut two = subscribe(&mut client).await;
    let waiting = tokio::spawn(async move { two.message().await });
    // If the server had got both subscriptions, it would send the next cluster on both streams.
    std::fs::write(dir.path().join("b.yaml"), cluster("b")).expect("a file");
    one.message().await.expect("an update");
    assert!(!waiting.is_finished(), "{waiting:?}");
    one.reset();
    waiting.await.expect("it ran").expect("a response");
}

/// Six requests with a burst of one: the server reads the others 0.3 s apart.
#[tokio::test(flavor = "multi_thread")]
async fn s77_request_rate_delays_requests_above_the_burst() {
    let (server, _dir) = start(&["--request-rate", "3", "--request-burst", "1"]);
    let begun = Instant::now();
    let mut client = connect(&server).await;
    let mut call = subscribe(&mut client).await;
    (0..5).for_each(|_| call.send(subscription()));
    server.shows("/metrics", "oxds_requests_total 6\n");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1600), "{took:?}");
}

/// Without the burst, forty requests would take forty seconds at this rate.
#[tokio::test(flavor = "multi_thread")]
async fn s77_request_burst_is_read_at_once() {
    let (server, _dir) = start(&["--request-rate", "1", "--request-burst", "40"]);
    let mut client = connect(&server).await;
    let begun = Instant::now();
    let mut call = subscribe(&mut client).await;
    (0..99).for_each(|_| call.send(subscription()));
    while requests(&server) < 40 {
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
    let read = requests(&server);
    let most = 40 + begun.elapsed().as_secs() + 1;
    assert!(read <= most, "{read} requests read, {most} allowed");
}

/// Returns the number of requests that the server has read.
fn requests(server: &Serve) -> u64 {
    let page = server.page("/metrics");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("oxds_requests_total "));
    line.and_then(|count| count.parse().ok()).expect(&page)
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_first_request_timeout_ends_silent_clients() {
    let (server, _dir) = start(&["--first-request", "100ms"]);
    let silent = Wire::connect(server.grpc).await.expect("accepted");
    silent.closed().await.expect("closed");
    let mut client = connect(&server).await;
    let call = client.call(SOTW).await.expect("a call");
    let ended = call.ended().await;
    let text = "no request received in time".to_owned();
    assert_eq!(ended, Ended::Status(4, text));
    server.shows(
        "/metrics",
        "oxds_over_limit_total{limit=\"first_call\"} 1\n",
    );
}

/// Without the option, the first ping comes after 30 s.
#[tokio::test(flavor = "multi_thread")]
async fn s77_keepalive_sets_time_of_first_ping() {
    let (server, _dir) = start(&["--keepalive", "50ms"]);
    let mut silent = Wire::connect(server.grpc).await.expect("accepted");
    silent.greet().await.expect("sent");
    silent.pinged().await.expect("a ping");
}

/// Without the option, the server waits 20 s for the answer to a ping.
#[tokio::test(flavor = "multi_thread")]
async fn s77_keepalive_timeout_closes_unresponsive_client() {
    let (server, _dir) = start(&["--keepalive", "50ms", "--keepalive-timeout", "50ms"]);
    let mut client = connect(&server).await;
    let mut call = subscribe(&mut client).await;
    call.message().await.expect("a response");
    let begun = Instant::now();
    client.vanish();
    server.shows("/metrics", "oxds_streams{protocol=\"sotw\"} 0\n");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
}

/// Polls with the current version, and returns the time until the response.
fn poll(server: &Serve, headers: &str) -> Duration {
    const CLUSTERS: &str = "/v3/discovery:clusters";
    let first = server.post(CLUSTERS, "", "{\"node\":{\"id\":\"n\"}}");
    let (_, version) = first.split_once("\"versionInfo\":\"").expect(&first);
    let (version, _) = version.split_once('"').expect(&first);
    let again = format!("{{\"version_info\":\"{version}\",\"node\":{{\"id\":\"n\"}}}}");
    let begun = Instant::now();
    let response = server.post(CLUSTERS, headers, &again);
    assert!(response.starts_with("HTTP/1.1 304"), "{response}");
    begun.elapsed()
}

#[test]
fn s77_poll_hold_delays_unchanged_poll() {
    let (server, _dir) = start(&["--poll-hold", "2s"]);
    let took = poll(&server, "");
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn s77_poll_hold_max_limits_requested_wait() {
    let (server, _dir) = start(&["--poll-hold-max", "100ms"]);
    let took = poll(&server, "prefer: wait=50\r\n");
    assert!(took < Duration::from_secs(15), "{took:?}");
}

/// Every limit on what one client makes the server keep ends the stream that exceeds it, with the limit in the status.
#[tokio::test(flavor = "multi_thread")]
async fn options_bound_what_a_client_makes_the_server_keep() {
    for (option, value, expected) in [
        (
            "--max-node-id-bytes",
            "5",
            "node id of 6 bytes: at most 5 are allowed",
        ),
        (
            "--max-node-bytes",
            "7",
            "node of 8 bytes: at most 7 are allowed",
        ),
        (
            "--max-connection-bytes",
            "100",
            "this connection: the limit of 100 bytes",
        ),
        (
            "--max-client-bytes",
            "100",
            "clients: the limit of 100 bytes",
        ),
    ] {
        let (server, _dir) = start(&[option, value]);
        let mut client = connect(&server).await;
        let ended = subscribe(&mut client).await.ended().await;
        assert!(
            matches!(&ended, Ended::Status(RESOURCE_EXHAUSTED, text) if text.contains(expected)),
            "{option}: {ended:?}"
        );
    }
    for (option, value) in [
        ("--max-name-bytes", "10"),
        ("--csds", "off"),
        ("--max-types", "1"),
    ] {
        let (server, _dir) = start(&[option, value]);
        let mut client = connect(&server).await;
        let ended = match option {
            "--csds" => {
                let csds =
                    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
                client.call(csds).await.expect("a call").ended().await
            }
            "--max-types" => {
                let mut call = subscribe(&mut client).await;
                call.send(framed(&DiscoveryRequest {
                    type_url: "type.googleapis.com/envoy.config.listener.v3.Listener".into(),
                    ..DiscoveryRequest::default()
                }));
                call.ended().await
            }
            _ => subscribe(&mut client).await.ended().await,
        };
        assert!(
            matches!(ended, Ended::Status(3 | RESOURCE_EXHAUSTED | 12, _)),
            "{option}: {ended:?}"
        );
    }
}
