//! Clients that are ruder than HTTP/2 libraries let one be. Each costs the server little, is told why it is ended, if at
//! all it still listens, and disturbs nobody.

use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_server::{Limits, Server};
use oxds_testkit::hostile::{Call, Ended, Rude, Wire, frame, framed};
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse, Node};
use prost::Message as _;

use crate::client::{CDS, DELTA, SOTW, Stream, ack, ask, subscribe};
use crate::{Running, cluster, until, upsert};

const RESOURCE_EXHAUSTED: u32 = 8;
/// HTTP/2's window for streams, unless told otherwise.
const WINDOW: u32 = 65_535;
/// HTTP/2's error codes (RFC 9113, 7).
const FRAME_SIZE_ERROR: u32 = 6;

/// A server that is impatient enough for tests, with one cluster.
async fn start(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    let server = Running::start(Server::builder().limits(limits)).await;
    server.cache.apply(upsert(&["a"]));
    server
}

async fn open(server: &Running, path: &str) -> Call {
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    client.call(path).await.unwrap()
}

/// A stream that everybody else stands for: what it is told of the rude it shares the server with is nothing.
struct Bystander(Stream);

impl Bystander {
    async fn of(server: &Running) -> Self {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&ask(CDS, &[]));
        stream.sotw_acked().await;
        Self(stream)
    }

    /// It is still told of changes.
    async fn lives(&mut self, server: &Running) {
        server.cache.apply(upsert(&["bystander"]));
        let response = self.0.sotw_acked().await;
        let told = |value: &[u8]| value.ends_with(b"bystander");
        assert!(response.resources.iter().any(|any| told(&any.value)));
    }
}

/// Given requests without end on one stream; then they are read at the rate that is allowed, what is not read stays in
/// the client, and nobody else waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s77_a_flood_is_read_no_faster_than_the_rate() {
    let server = start(|limits| (limits.request_rate, limits.request_burst) = (50, 100)).await;
    let mut bystander = Bystander::of(&server).await;
    let begun = Instant::now();
    let mut call = open(&server, SOTW).await;
    let request = framed(&ask(CDS, &[&"x".repeat(4000)]));
    // Until the windows are full: then the next byte leaves when one is read.
    let sent = call.flood(&request, Duration::from_millis(10)).await;
    let read = server.metric("oxds_requests_total").await;
    bystander.lives(&server).await;
    let allowed = 100 + 50 * (begun.elapsed().as_secs() + 1) + 5;
    assert!(read <= allowed, "{read} requests read, {allowed} allowed");
    let waiting = (sent as u64 - (read - 2)) * request.len() as u64;
    assert!(waiting <= 2 << 20, "{waiting} bytes wait in the server");
    assert!(server.metric("oxds_throttled_total").await > 0);
}

/// Given readers that never read, and a cluster that changes a thousand times; then each costs the one response that it
/// does not take, and a reader that reads is told of the last change at once.
#[tokio::test]
async fn s76_readers_that_never_read_delay_nobody() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut stalled = Vec::new();
    for path in [SOTW, DELTA].repeat(10) {
        let mut client = Rude::connect(server.grpc, 0).await.unwrap();
        let mut call = client.call(path).await.unwrap();
        call.send(match path {
            SOTW => framed(&ask(CDS, &[])),
            _ => framed(&subscribe(CDS, &[])),
        });
        stalled.push((client, call));
    }
    let responses = "oxds_responses_total{kind=\"cds\"}";
    until("all are answered", async || {
        (server.metric(responses).await == 1 + 20).then_some(())
    })
    .await;
    let before = server.metric("oxds_encodes_total").await;
    for i in 0..1000_u32 {
        let [a, b, ..] = i.to_le_bytes();
        let mut changes = upsert(&[]);
        changes
            .upserts
            .push(cluster("a", &[0x1a, 2, a & 0x7f, b]).into());
        server.cache.apply(changes);
    }
    bystander.lives(&server).await;
    let sent = server.metric(responses).await;
    assert!(
        sent <= 1 + 20 + 2,
        "{sent}: nothing is made for who does not read"
    );
    let made = server.metric("oxds_encodes_total").await - before;
    assert!(made <= 4, "{made} bodies for the one who reads");
}

/// Given connections that say nothing, or "hello" in HTTP/2 and no more; then they are closed when patience ends.
#[tokio::test]
async fn s77_half_open_connections_are_closed() {
    let server = start(|limits| limits.first_request = Duration::from_millis(50)).await;
    let silent = Wire::connect(server.grpc).await.unwrap();
    let mut polite = Wire::connect(server.grpc).await.unwrap();
    polite.greet().await.unwrap();
    let mut torn = Wire::connect(server.grpc).await.unwrap();
    torn.send(b"PRI * HT").await.unwrap();
    for wire in [silent, polite, torn] {
        wire.closed().await.unwrap();
    }
    server
        .counts("oxds_refusals_total{reason=\"silence\"} 3")
        .await;
}

/// Given a client that vanishes without a word; then its stream ends when it answers no ping.
#[tokio::test]
async fn s77_a_client_that_vanished_is_forgotten() {
    let server = start(|limits| {
        limits.keepalive = Duration::from_millis(50);
        limits.keepalive_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    let mut call = client.call(SOTW).await.unwrap();
    call.send(framed(&ask(CDS, &[])));
    call.message().await.unwrap();
    server.counts("oxds_streams{protocol=\"sotw\"} 1").await;
    client.vanish();
    server.counts("oxds_streams{protocol=\"sotw\"} 0").await;
}

/// Given more connections, or more streams of one address, than are allowed; then those beyond are refused.
#[tokio::test]
async fn s77_connections_and_the_streams_of_a_peer_are_limited() {
    let server = start(|limits| limits.connections = 1).await;
    let mut held = open(&server, SOTW).await;
    held.send(framed(&ask(CDS, &[])));
    held.message().await.unwrap();
    Wire::connect(server.grpc)
        .await
        .unwrap()
        .closed()
        .await
        .unwrap();
    server
        .counts("oxds_refusals_total{reason=\"connections\"} 1")
        .await;

    let server = start(|limits| limits.streams_per_peer = 1).await;
    let mut first = open(&server, SOTW).await;
    first.send(framed(&ask(CDS, &[])));
    first.message().await.unwrap();
    let text = "too many streams of 127.0.0.1: the limit of 1 is reached";
    let refused = Ended::Status(RESOURCE_EXHAUSTED, text.into());
    assert_eq!(open(&server, SOTW).await.ended().await, refused);
    first.reset();
    until("a place is free", async || {
        let mut call = open(&server, SOTW).await;
        call.send(framed(&ask(CDS, &[])));
        call.message().await.ok()
    })
    .await;
}

/// Given a million names, in one request or in many; then the stream is ended, SotW and delta, and the names are gone.
#[tokio::test]
async fn s60_a_million_names_are_too_many() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let names = |from: usize, count: usize| -> Vec<String> {
        (from..from + count).map(|i| i.to_string()).collect()
    };
    let delta = |names| DeltaDiscoveryRequest {
        resource_names_subscribe: names,
        ..subscribe(CDS, &[])
    };
    let sotw = DiscoveryRequest {
        resource_names: names(0, 1_000_000),
        ..ask(CDS, &[])
    };
    let mut at_once = open(&server, SOTW).await;
    at_once.send(framed(&sotw));
    let mut bit_by_bit = open(&server, DELTA).await;
    for i in 0..10 {
        bit_by_bit.send(framed(&delta(names(i * 100_000, 100_000))));
    }
    for call in [at_once, bit_by_bit] {
        let ended = call.ended().await;
        assert!(
            matches!(&ended, Ended::Status(RESOURCE_EXHAUSTED, text) if text.contains("200000 names")),
            "{ended:?}"
        );
    }
    server
        .counts("oxds_refusals_total{reason=\"names\"} 2")
        .await;
    bystander.lives(&server).await;
}

/// Given a node that changes in mid-stream; then the stream stays that of the first.
#[tokio::test]
async fn s60_a_node_does_not_change() {
    let server = start(|_| {}).await;
    let mut call = open(&server, SOTW).await;
    call.send(framed(&ask(CDS, &[])));
    let response = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    for id in ["other", ""] {
        call.send(framed(&DiscoveryRequest {
            node: Some(Node {
                id: id.into(),
                ..Node::default()
            }),
            ..ack(&response)
        }));
    }
    server.cache.apply(upsert(&["b"]));
    call.message().await.unwrap();
    let status = crate::pages::json(server.http).await;
    assert_eq!(status["nodes"][0]["id"], "test-1");
}

/// Given nonces that are made up, or old; then they acknowledge nothing, are answered by nothing, and the stream goes on.
#[tokio::test]
async fn s60_invented_nonces_are_counted_and_no_more() {
    let server = start(|_| {}).await;
    let mut call = open(&server, SOTW).await;
    call.send(framed(&ask(CDS, &[])));
    let first = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    let invented = |i: usize| DiscoveryRequest {
        response_nonce: match i % 3 {
            0 => format!("{i}"),
            1 => "\u{1f980}".repeat(i % 50 + 1),
            _ => "ffffffffffffffffffffffff".into(),
        },
        ..ack(&first)
    };
    for i in 0..3000 {
        call.send(framed(&invented(i + 1_000_000)));
    }
    server
        .counts("oxds_stale_nonces_total{kind=\"cds\"} 3000")
        .await;
    assert_eq!(server.metric("oxds_responses_total").await, 1);
    assert_eq!(server.metric("oxds_acks_total").await, 0);
    call.send(framed(&ack(&first)));
    server.cache.apply(upsert(&["b"]));
    let second = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    assert_eq!(second.resources.len(), 2);
    // An old one, after which the new one still counts.
    call.send(framed(&ack(&first)));
    call.send(framed(&ack(&second)));
    server.counts("oxds_acks_total{kind=\"cds\"} 2").await;
}

/// Given frames beyond what HTTP/2 allows; then the connection ends with the error that says so, and no other.
#[tokio::test]
async fn s77_frames_over_the_limit_end_their_connection() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut wire = Wire::connect(server.grpc).await.unwrap();
    wire.greet().await.unwrap();
    // DATA of one byte more than the largest frame.
    wire.send(&frame(0, 0, 1, &vec![0; (16 << 10) + 1]))
        .await
        .unwrap();
    assert_eq!(wire.closed().await.unwrap(), Some(FRAME_SIZE_ERROR));
    // SETTINGS that are no multiple of six bytes.
    let mut wire = Wire::connect(server.grpc).await.unwrap();
    wire.greet().await.unwrap();
    wire.send(&frame(4, 0, 0, b"four")).await.unwrap();
    let error = wire.closed().await.unwrap();
    assert!(error.is_some_and(|code| code != 0), "{error:?}");
    // HTTP/1.
    let mut wire = Wire::connect(server.grpc).await.unwrap();
    wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    wire.closed().await.unwrap();
    bystander.lives(&server).await;
}

/// Given headers of a megabyte; then the call is refused.
#[tokio::test]
async fn s77_giant_headers_are_refused() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    let giant = "x".repeat(1 << 20);
    let ended = match client.call_with(SOTW, &[("giant", &giant)]).await {
        Ok(call) => call.ended().await,
        Err(_) => Ended::Reset(None),
    };
    assert!(!matches!(ended, Ended::Status(0, _)), "{ended:?}");
    // Its own: the question and the acknowledgement.
    assert_eq!(server.metric("oxds_requests_total").await, 2);
    bystander.lives(&server).await;
}

/// Given a client that opens calls and takes them back, thousands of times (CVE-2023-44487); then no call of its remains,
/// whether its connection was ended or not.
#[tokio::test]
async fn s77_rapid_resets_leave_nothing_behind() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    for _ in 0..20_000 {
        match client.call(SOTW).await {
            Ok(call) => call.reset(),
            Err(_) => break,
        }
    }
    bystander.lives(&server).await;
    server.counts("oxds_streams{protocol=\"sotw\"} 1").await;
}

/// Given messages torn by the end of the stream, or compressed, or of other bytes, many times over; then each stream has
/// its status, and the count of streams is what it was.
#[tokio::test]
async fn s60_nonsense_leaves_nothing_behind() {
    let server = start(|_| {}).await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    for i in 0..300_u32 {
        let mut call = client.call(SOTW).await.unwrap();
        let noise: Vec<u8> = (0..64)
            .map(|j| (i.wrapping_mul(31) + j * 7) as u8 | 1)
            .collect();
        let message = [&[0, 0, 0, 0, 64][..], &noise].concat();
        call.send(Bytes::from(message));
        let ended = call.ended().await;
        assert!(
            matches!(&ended, Ended::Status(3 | 12, text) if !text.is_empty()),
            "{ended:?}"
        );
    }
    server.counts("oxds_streams{protocol=\"sotw\"} 0").await;
    assert_eq!(server.metric("oxds_refusals_total").await, 300);
}

/// Given a fleet that connects at once, faster than anybody is accepted, then nobody is turned away to try again.
#[tokio::test]
async fn p6_a_fleet_that_connects_at_once_finds_room() {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    // Bound, and not run: nobody is accepted.
    let server = Server::builder().grpc(any).bind().await;
    let server = server.unwrap();
    let mut fleet = Vec::new();
    for client in 0..500 {
        // Who is turned away tries again after a second.
        let connected = tokio::net::TcpStream::connect(server.grpc_addr());
        let connected = tokio::time::timeout(Duration::from_millis(800), connected).await;
        fleet.push(connected.unwrap_or_else(|_| panic!("client {client} found no room")));
    }
}

/// Given SETTINGS or PINGs without end from one who reads no answer; then it is left to wait, or sent away, and nobody
/// else waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s60_a_flood_of_settings_or_pings_is_left_unread() {
    for flood in [
        frame(4, 0, 0, &[0, 4, 0, 0, 1, 0]),
        frame(6, 0, 0, b"whatever"),
    ] {
        let server = start(|_| {}).await;
        let mut bystander = Bystander::of(&server).await;
        let mut wire = Wire::connect(server.grpc).await.unwrap();
        wire.greet().await.unwrap();
        let flood = flood.repeat(4096);
        let mut sent = 0;
        while let Ok(Ok(())) =
            tokio::time::timeout(Duration::from_millis(300), wire.send(&flood)).await
        {
            sent += flood.len();
            assert!(sent < 64 << 20, "{sent} bytes read of a flood");
        }
        bystander.lives(&server).await;
    }
}

/// Given a request in as many DATA frames as it has bytes, and one of no bytes at all; then each is one request.
#[tokio::test]
async fn s60_a_request_is_one_however_it_is_cut() {
    let server = start(|_| {}).await;
    let mut call = open(&server, SOTW).await;
    for byte in framed(&ask(CDS, &[])) {
        call.send(Bytes::from(vec![byte]));
    }
    let response = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    assert_eq!(response.resources.len(), 1);
    let nothing = || Bytes::from_static(b"\0\0\0\0\0");
    let mut call = open(
        &server,
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
    )
    .await;
    call.send(nothing());
    let response = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    assert_eq!(
        response.resources.len(),
        1,
        "all clusters, of a nameless node"
    );
    for path in [SOTW, DELTA] {
        let mut call = open(&server, path).await;
        call.send(nothing());
        let ended = call.ended().await;
        assert!(
            matches!(&ended, Ended::Status(3, text) if text.contains("type_url")),
            "{ended:?}"
        );
    }
}

/// Given a type URL of a megabyte, of one form or another; then the stream ends with a status that a client can read.
#[tokio::test]
async fn s60_a_giant_type_url_is_refused_in_few_words() {
    let server = start(|_| {}).await;
    let giant = "x".repeat(1 << 20);
    let cds = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";
    for (path, type_url) in [
        (SOTW, giant.clone()),
        (SOTW, format!("type.googleapis.com/a.{giant}")),
        (cds, giant.clone()),
        (cds, format!("type.googleapis.com/a.{giant}")),
    ] {
        let mut call = open(&server, path).await;
        call.send(framed(&ask(&type_url, &[])));
        let ended = call.ended().await;
        assert!(
            matches!(&ended, Ended::Status(3, text) if text.len() < 1000),
            "{path} {:.300}",
            format!("{ended:?}")
        );
    }
    let mut call = open(&server, DELTA).await;
    call.send(framed(&subscribe(&giant, &[])));
    let ended = call.ended().await;
    assert!(
        matches!(&ended, Ended::Status(3, _)),
        "{:.300}",
        format!("{ended:?}")
    );
}

/// Given clients that do not say who they are; then they are told what all are told, and no two are taken for one.
#[tokio::test]
async fn s60_a_node_without_a_name_is_served_as_nobody_in_particular() {
    let server = start(|_| {}).await;
    for node in [None, Some(Node::default())] {
        let mut call = open(&server, SOTW).await;
        call.send(framed(&DiscoveryRequest {
            node: node.clone(),
            ..ask(CDS, &[])
        }));
        let sotw = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
        assert_eq!(sotw.resources.len(), 1);
        let mut call = open(&server, DELTA).await;
        call.send(framed(&DeltaDiscoveryRequest {
            node,
            ..subscribe(CDS, &[])
        }));
        call.message().await.unwrap();
    }
    let status = crate::pages::json(server.http).await;
    assert_eq!(status["nodes"][0]["id"], "");
}

/// Given a call of discovery that is no call of gRPC; then it is told so, and opens no stream.
#[tokio::test]
async fn s59_what_is_not_grpc_opens_no_stream() {
    let server = start(|_| {}).await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    let call = client
        .call_as("GET", SOTW, "application/grpc")
        .await
        .unwrap();
    assert_eq!(call.ended().await, Ended::Http(405));
    let call = client.call_as("POST", SOTW, "text/plain").await.unwrap();
    assert_eq!(call.ended().await, Ended::Http(415));
    assert_eq!(server.metric("oxds_streams").await, 0);
}
