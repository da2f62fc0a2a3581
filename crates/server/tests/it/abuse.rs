//! Clients that break HTTP/2 in ways that libraries do not allow. Each costs the server little, gets a reason when its
//! stream ends, and does not disturb other clients.

use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_server::{Limits, Server};
use oxds_testkit::hostile::{Call, Ended, Rude, Wire, frame, framed};
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse, Node};
use prost::Message as _;

use crate::client::{CDS, DELTA, SOTW, Stream, ack, ask, subscribe};
use crate::{Running, SOON, cluster, until, upsert};

const RESOURCE_EXHAUSTED: u32 = 8;
/// The default flow-control window of a stream (RFC 9113, 6.9.2), in bytes.
const WINDOW: u32 = 65_535;
/// An error code of HTTP/2 (RFC 9113, 7).
const FRAME_SIZE_ERROR: u32 = 6;

/// Starts a server with one cluster and changed limits.
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

/// A stream of a client that follows the protocol, on the same server. It must not notice the others.
struct Bystander(Stream);

impl Bystander {
    async fn of(server: &Running) -> Self {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&ask(CDS, &[]));
        stream.sotw_acked().await;
        Self(stream)
    }

    /// Checks that the stream still gets changes.
    async fn gets_changes(&mut self, server: &Running) {
        server.cache.apply(upsert(&["bystander"]));
        let response = self.0.sotw_acked().await;
        let mut values = response.resources.iter().map(|any| &any.value);
        assert!(values.any(|value| value.ends_with(b"bystander")));
    }
}

/// Given endless requests on one stream, then the server reads them at the configured rate, the rest stays in the
/// client, and no other client waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s77_flood_is_read_at_the_request_rate() {
    let server = start(|limits| (limits.request_rate, limits.request_burst) = (50, 100)).await;
    let mut bystander = Bystander::of(&server).await;
    let begun = Instant::now();
    let mut call = open(&server, SOTW).await;
    let request = framed(&ask(CDS, &[&"x".repeat(4000)]));
    // Until the flow-control windows are full: after that, each byte waits for a read. On a busy machine the server may
    // also pause before it reaches its rate.
    let mut sent = 0;
    while server.metric("oxds_throttled_total").await == 0 {
        assert!(begun.elapsed() < SOON, "no request was delayed");
        sent += call.flood(&request, Duration::from_millis(10)).await;
    }
    let read = server.metric("oxds_requests_total").await;
    bystander.gets_changes(&server).await;
    let allowed = 100 + 50 * (begun.elapsed().as_secs() + 1) + 5;
    assert!(read <= allowed, "{read} requests read, {allowed} allowed");
    let waiting = (sent as u64 - (read - 2)) * request.len() as u64;
    assert!(waiting <= 2 << 20, "{waiting} bytes wait in the server");
}

/// Given 20 clients that do not read, when a cluster changes 1,000 times, then each of them costs only one response,
/// and another client gets the last change at once.
#[tokio::test]
async fn s76_stalled_readers_do_not_delay_other_clients() {
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
    let responses = "oxds_responses_total{resource_type=\"cds\"}";
    until("one response for each client", async || {
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
    bystander.gets_changes(&server).await;
    let sent = server.metric(responses).await;
    assert!(
        sent <= 1 + 20 + 2,
        "{sent}: no response is made for a client that does not read"
    );
    let made = server.metric("oxds_encodes_total").await - before;
    assert!(made <= 4, "{made} bodies for the client that reads");
}

/// Given connections without a byte, with half of the HTTP/2 preface, or with the preface and nothing more, then they
/// are closed after `first_request`.
#[tokio::test]
async fn s77_half_open_connections_are_closed() {
    let server = start(|limits| limits.timers.first_request = Duration::from_millis(50)).await;
    let silent = Wire::connect(server.grpc).await.unwrap();
    let mut polite = Wire::connect(server.grpc).await.unwrap();
    polite.greet().await.unwrap();
    let mut torn = Wire::connect(server.grpc).await.unwrap();
    torn.send(b"PRI * HT").await.unwrap();
    for wire in [silent, polite, torn] {
        wire.closed().await.unwrap();
    }
    server
        .counts("oxds_over_limit_total{limit=\"first_call\"} 3")
        .await;
}

/// Given a client that vanishes without closing its connection, then its stream ends when it does not answer a PING.
#[tokio::test]
async fn s77_vanished_client_is_forgotten() {
    let server = start(|limits| {
        limits.timers.keepalive = Duration::from_millis(50);
        limits.timers.keepalive_timeout = Duration::from_millis(50);
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

/// Given more connections, or more streams of one address, than the limit, then the extra ones are refused.
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
        .counts("oxds_over_limit_total{limit=\"connections\"} 1")
        .await;

    let server = start(|limits| limits.streams_per_peer = 1).await;
    let mut first = open(&server, SOTW).await;
    first.send(framed(&ask(CDS, &[])));
    first.message().await.unwrap();
    let text = "too many streams of 127.0.0.1: the limit of 1 is reached";
    let refused = Ended::Status(RESOURCE_EXHAUSTED, text.into());
    assert_eq!(open(&server, SOTW).await.ended().await, refused);
    first.reset();
    until("a stream is accepted again", async || {
        let mut call = open(&server, SOTW).await;
        call.send(framed(&ask(CDS, &[])));
        call.message().await.ok()
    })
    .await;
}

/// Given a million names in one SotW request or in ten delta requests, then the stream ends with RESOURCE_EXHAUSTED.
#[tokio::test]
async fn s60_million_names_are_refused() {
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
            matches!(&ended, Ended::Status(RESOURCE_EXHAUSTED, text) if text.contains("limit 200000")),
            "{ended:?}"
        );
    }
    server
        .counts("oxds_over_limit_total{limit=\"names\"} 2")
        .await;
    bystander.gets_changes(&server).await;
}

/// Given a request with another node on an open stream, then the stream keeps the first node.
#[tokio::test]
async fn s60_node_of_a_stream_cannot_change() {
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
    let status = crate::admin::json(server.http).await;
    assert_eq!(status["nodes"][0]["id"], "test-1");
}

/// Given invented or old nonces, then they are no ACK, get no response, and the stream goes on.
#[tokio::test]
async fn s60_unknown_nonces_are_only_counted() {
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
        .counts("oxds_stale_nonces_total{resource_type=\"cds\"} 3000")
        .await;
    assert_eq!(server.metric("oxds_responses_total").await, 1);
    assert_eq!(server.metric("oxds_acks_total").await, 0);
    call.send(framed(&ack(&first)));
    server.cache.apply(upsert(&["b"]));
    let second = DiscoveryResponse::decode(call.message().await.unwrap()).unwrap();
    assert_eq!(second.resources.len(), 2);
    // A stale nonce first; the current nonce after it still counts.
    call.send(framed(&ack(&first)));
    call.send(framed(&ack(&second)));
    server
        .counts("oxds_acks_total{resource_type=\"cds\"} 2")
        .await;
}

/// Given frames that HTTP/2 does not allow, then their connection ends with the proper error. Other connections go on.
#[tokio::test]
async fn s77_frames_over_the_limit_end_their_connection() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut wire = Wire::connect(server.grpc).await.unwrap();
    wire.greet().await.unwrap();
    // A DATA frame that is one byte too long.
    wire.send(&frame(0, 0, 1, &vec![0; (16 << 10) + 1]))
        .await
        .unwrap();
    assert_eq!(wire.closed().await.unwrap(), Some(FRAME_SIZE_ERROR));
    // A SETTINGS frame whose length is not a multiple of six.
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
    bystander.gets_changes(&server).await;
}

/// Given headers of 1 MB, then the call is refused.
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
    // Only the request and the ACK of the bystander.
    assert_eq!(server.metric("oxds_requests_total").await, 2);
    bystander.gets_changes(&server).await;
}

/// Given a client that opens and resets thousands of calls (CVE-2023-44487), then none of its calls remains, whether or
/// not the server ended its connection.
#[tokio::test]
async fn s77_rapid_resets_leave_no_state() {
    let server = start(|_| {}).await;
    let mut bystander = Bystander::of(&server).await;
    let mut client = Rude::connect(server.grpc, WINDOW).await.unwrap();
    // Client and server share a thread, so the bystander waits for a part of this work: seconds on a busy machine.
    for _ in 0..5_000 {
        match client.call(SOTW).await {
            Ok(call) => call.reset(),
            Err(_) => break,
        }
    }
    bystander.gets_changes(&server).await;
    server.counts("oxds_streams{protocol=\"sotw\"} 1").await;
}

/// Given 300 messages of random bytes, then each stream ends with a status, and no stream remains.
#[tokio::test]
async fn s60_nonsense_leaves_no_state() {
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
    assert_eq!(server.metric("oxds_invalid_total").await, 300);
}

/// Given 500 clients that connect at once to a server that does not accept yet, then no connection is refused.
#[tokio::test]
async fn p6_simultaneous_connections_are_all_accepted() {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    // Bound but not run: the server accepts no connection.
    let server = Server::builder().grpc(any).bind().await;
    let server = server.unwrap();
    let mut fleet = Vec::new();
    for client in 0..500 {
        // A refused SYN is sent again after one second.
        let connected = tokio::net::TcpStream::connect(server.grpc_addr());
        let connected = tokio::time::timeout(Duration::from_millis(800), connected).await;
        fleet.push(connected.unwrap_or_else(|_| panic!("client {client} was refused")));
    }
}

/// Given endless SETTINGS or PING frames from a client that does not read, then the server stops reading or closes the
/// connection, and no other client waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s60_flood_of_settings_or_pings_is_not_read() {
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
        bystander.gets_changes(&server).await;
    }
}

/// Given a request in DATA frames of one byte each, and an empty request, then each is one request.
#[tokio::test]
async fn s60_request_may_arrive_in_any_fragments() {
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
        "all clusters, for a node without an id"
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

/// Given a type URL of 1 MB, well-formed or not, then the stream ends with a short status message.
#[tokio::test]
async fn s60_giant_type_url_gets_a_short_error() {
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

/// Given clients without a node or with an empty node id, then they get the resources of all nodes.
#[tokio::test]
async fn s60_node_without_an_id_is_served_as_ungrouped() {
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
    let status = crate::admin::json(server.http).await;
    assert_eq!(status["nodes"][0]["id"], "");
}

/// Given a request to a discovery method that is not gRPC, then it gets an HTTP error and opens no stream.
#[tokio::test]
async fn s59_requests_other_than_grpc_open_no_stream() {
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
