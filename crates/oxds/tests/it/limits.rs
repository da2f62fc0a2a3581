//! Each option that limits what clients may cost `oxds serve` (S-77), by what a client meets that goes beyond it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_testkit::hostile::{Call, Ended, Rude, Wire, framed};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};
use prost::Message as _;

use crate::support::{Serve, cluster, command, folder};

const SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
/// HTTP/2's window for streams, unless told otherwise.
const WINDOW: u32 = 65_535;
const RESOURCE_EXHAUSTED: u32 = 8;

/// A server of one cluster with these options, and its folder.
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

/// Opens a stream that asks for all clusters.
async fn ask(client: &mut Rude) -> Call {
    let mut call = client.call(SOTW).await.expect("a call");
    call.send(question());
    call
}

fn question() -> Bytes {
    acknowledgement(&DiscoveryResponse::default())
}

/// Of a response, after which the next may come.
fn acknowledgement(of: &DiscoveryResponse) -> Bytes {
    framed(&DiscoveryRequest {
        version_info: of.version_info.clone(),
        node: Some(Node {
            id: "limits".into(),
            ..Node::default()
        }),
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
        response_nonce: of.nonce.clone(),
        ..DiscoveryRequest::default()
    })
}

/// How a stream is refused that is one too many.
fn refused(text: &str) -> Ended {
    Ended::Status(RESOURCE_EXHAUSTED, text.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_connections_closes_one_more() {
    let (server, _dir) = start(&["--max-connections", "1"]);
    let mut first = connect(&server).await;
    ask(&mut first).await.message().await.expect("an answer");
    let second = Wire::connect(server.grpc).await.expect("accepted");
    second.closed().await.expect("closed");
    server.shows(
        "/metrics",
        "oxds_refusals_total{reason=\"connections\"} 1\n",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_refuses_one_more() {
    let (server, _dir) = start(&["--max-streams", "2"]);
    let mut client = connect(&server).await;
    let (mut one, mut two) = (ask(&mut client).await, ask(&mut client).await);
    one.message().await.expect("an answer");
    two.message().await.expect("an answer");
    let third = ask(&mut connect(&server).await).await.ended().await;
    assert_eq!(
        third,
        refused("too many streams: the limit of 2 is reached")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_per_peer_refuses_one_more_of_that_address() {
    let (server, _dir) = start(&["--max-streams-per-peer", "1"]);
    let mut client = connect(&server).await;
    let mut one = ask(&mut client).await;
    one.message().await.expect("an answer");
    let text = "too many streams of 127.0.0.1: the limit of 1 is reached";
    assert_eq!(ask(&mut client).await.ended().await, refused(text));
}

/// HTTP/2 tells the client, which keeps one more for itself until another ends.
#[tokio::test(flavor = "multi_thread")]
async fn s77_max_streams_per_connection_makes_one_more_wait() {
    let (server, dir) = start(&["--max-streams-per-connection", "1"]);
    let mut client = connect(&server).await;
    let mut one = ask(&mut client).await;
    let answer = one.message().await.expect("an answer");
    let answer = DiscoveryResponse::decode(answer).expect("a response");
    one.send(acknowledgement(&answer));
    let mut two = ask(&mut client).await;
    let waiting = tokio::spawn(async move { two.message().await });
    // Had the server been asked twice, both would hear of the next cluster.
    std::fs::write(dir.path().join("b.yaml"), cluster("b")).expect("a file");
    one.message().await.expect("an update");
    assert!(!waiting.is_finished(), "{waiting:?}");
    one.reset();
    waiting.await.expect("it ran").expect("an answer");
}

/// Six requests, of which one may pass at once: the others come 0.3 s apart.
#[tokio::test(flavor = "multi_thread")]
async fn s77_request_rate_spreads_what_is_beyond_the_burst() {
    let (server, _dir) = start(&["--request-rate", "3", "--request-burst", "1"]);
    let begun = Instant::now();
    let mut client = connect(&server).await;
    let mut call = ask(&mut client).await;
    (0..5).for_each(|_| call.send(question()));
    server.shows("/metrics", "oxds_requests_total 6\n");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1600), "{took:?}");
}

/// At this rate alone, forty requests would take as many seconds.
#[tokio::test(flavor = "multi_thread")]
async fn s77_request_burst_passes_at_once_and_no_more() {
    let (server, _dir) = start(&["--request-rate", "1", "--request-burst", "40"]);
    let mut client = connect(&server).await;
    let begun = Instant::now();
    let mut call = ask(&mut client).await;
    (0..99).for_each(|_| call.send(question()));
    while requests(&server) < 40 {
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
    let read = requests(&server);
    let most = 40 + begun.elapsed().as_secs() + 1;
    assert!(read <= most, "{read} requests read, {most} allowed");
}

/// How many the server has read.
fn requests(server: &Serve) -> u64 {
    let page = server.page("/metrics");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("oxds_requests_total "));
    line.and_then(|count| count.parse().ok()).expect(&page)
}

#[tokio::test(flavor = "multi_thread")]
async fn s77_first_request_closes_who_says_nothing() {
    let (server, _dir) = start(&["--first-request", "100ms"]);
    let silent = Wire::connect(server.grpc).await.expect("accepted");
    silent.closed().await.expect("closed");
    let mut client = connect(&server).await;
    let call = client.call(SOTW).await.expect("a call");
    let ended = call.ended().await;
    let text = "no request received in time".to_owned();
    assert_eq!(ended, Ended::Status(4, text));
    server.shows("/metrics", "{reason=\"silence\"} 1\n");
}

/// Without the option, the first ping comes after 30 s.
#[tokio::test(flavor = "multi_thread")]
async fn s77_keepalive_says_when_a_silent_client_is_asked() {
    let (server, _dir) = start(&["--keepalive", "50ms"]);
    let mut silent = Wire::connect(server.grpc).await.expect("accepted");
    silent.greet().await.expect("sent");
    silent.pinged().await.expect("a ping");
}

/// Without the option, a ping waits 20 s for its answer.
#[tokio::test(flavor = "multi_thread")]
async fn s77_keepalive_timeout_says_when_it_is_given_up() {
    let (server, _dir) = start(&["--keepalive", "50ms", "--keepalive-timeout", "50ms"]);
    let mut client = connect(&server).await;
    let mut call = ask(&mut client).await;
    call.message().await.expect("an answer");
    let begun = Instant::now();
    client.vanish();
    server.shows("/metrics", "oxds_streams{protocol=\"sotw\"} 0\n");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
}

/// Polls with the version that the server has, and tells how long nothing came.
fn poll(server: &Serve, headers: &str) -> Duration {
    const CLUSTERS: &str = "/v3/discovery:clusters";
    let first = server.post(CLUSTERS, "", "{\"node\":{\"id\":\"n\"}}");
    let (_, version) = first.split_once("\"versionInfo\":\"").expect(&first);
    let (version, _) = version.split_once('"').expect(&first);
    let again = format!("{{\"version_info\":\"{version}\",\"node\":{{\"id\":\"n\"}}}}");
    let begun = Instant::now();
    let answer = server.post(CLUSTERS, headers, &again);
    assert!(answer.starts_with("HTTP/1.1 304"), "{answer}");
    begun.elapsed()
}

#[test]
fn s77_poll_hold_is_how_long_a_poll_waits() {
    let (server, _dir) = start(&["--poll-hold", "2s"]);
    let took = poll(&server, "");
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn s77_poll_hold_max_cuts_a_poll_that_would_wait_longer() {
    let (server, _dir) = start(&["--poll-hold-max", "100ms"]);
    let took = poll(&server, "prefer: wait=50\r\n");
    assert!(took < Duration::from_secs(15), "{took:?}");
}
