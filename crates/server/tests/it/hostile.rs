//! Malformed and abusive requests: the worst that a client can do is to end its own stream.

use std::time::Duration;

use bytes::Bytes;
use oxds_server::{Limits, Server};
use oxds_testkit::hostile::{Ended, Rude};

use crate::client::{CDS, DELTA, SOTW, Stream, ask, subscribe};
use crate::{Running, until, upsert};

const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;

async fn serves(server: &Running) {
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    assert_eq!(stream.sotw().await.resources.len(), 1);
}

/// Given bytes that are not a request, or an incomplete message, then the stream ends with a status that explains it,
/// and the server goes on.
#[tokio::test]
async fn s60_malformed_bytes_end_only_their_stream() {
    let server = Running::with_clusters(&["a"]).await;
    let cases: [(&[u8], u32); 5] = [
        // A field with a length beyond the end of the message.
        (b"\0\0\0\0\x02\x0a\x7f", INVALID_ARGUMENT),
        // A string that is not UTF-8.
        (b"\0\0\0\0\x04\x22\x02\xff\xfe", INVALID_ARGUMENT),
        // A malformed type URL.
        (b"\0\0\0\0\x05\x22\x03abc", INVALID_ARGUMENT),
        (b"\x01\0\0\0\0", UNIMPLEMENTED),
        // A message longer than the limit.
        (b"\0\xff\xff\xff\xff", RESOURCE_EXHAUSTED),
    ];
    for (bytes, expected) in cases {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send_raw(Bytes::from_static(bytes));
        let (code, message) = stream.status().await;
        assert_eq!(code, expected, "{bytes:?}: {message}");
        assert!(!message.is_empty(), "{bytes:?}");
    }
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send_raw(Bytes::from_static(b"\0\0\0"));
    stream.half_close();
    assert_eq!(stream.status().await.0, INVALID_ARGUMENT);
    serves(&server).await;
}

/// Given a method that does not exist, then the call ends with UNIMPLEMENTED.
#[tokio::test]
async fn s59_unknown_method_is_unimplemented() {
    let server = Running::with_clusters(&["a"]).await;
    for path in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/Fetch",
        "/no.Such/Service",
        "/",
    ] {
        let mut stream = Stream::open(server.grpc, path).await;
        assert_eq!(stream.status().await.0, UNIMPLEMENTED, "{path}");
    }
    serves(&server).await;
}

/// Given a name of 1 MB, or a million names, then the stream ends with a status.
#[tokio::test]
async fn s60_number_and_length_of_names_are_limited() {
    let server = Running::with_clusters(&["a"]).await;
    let long = "x".repeat(1 << 20);
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[&long]));
    assert_eq!(stream.status().await.0, INVALID_ARGUMENT);

    let many: Vec<_> = (0..1_000_000).map(|i| i.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &many));
    assert_eq!(stream.status().await.0, RESOURCE_EXHAUSTED);
    serves(&server).await;
}

/// Given a stream without a request, then it ends after `first_request`.
#[tokio::test]
async fn s77_stream_without_a_request_is_ended() {
    let mut limits = Limits::default();
    limits.timers.first_request = Duration::from_millis(100);
    let server = Running::start(Server::builder().limits(limits)).await;
    for path in [
        SOTW,
        DELTA,
        "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
        crate::load::LRS,
        crate::csds::STREAM,
    ] {
        // On a busy machine the connection itself may be closed first, because it sends nothing. Then try another one.
        until(path, async || {
            let mut client = Rude::connect(server.grpc, 65_535).await.ok()?;
            let ended = client.call(path).await.ok()?.ended().await;
            matches!(ended, Ended::Status(DEADLINE_EXCEEDED, _)).then_some(())
        })
        .await;
    }
}

/// Given the maximum number of streams, when one more is opened, then it is refused. When one ends, the next is
/// accepted.
#[tokio::test]
async fn s77_number_of_streams_is_limited() {
    let mut limits = Limits::default();
    limits.streams = 2;
    let server = Running::start(Server::builder().limits(limits)).await;
    server.cache.apply(upsert(&["a"]));
    let first = Stream::open(server.grpc, SOTW).await;
    let _second = Stream::open(server.grpc, SOTW).await;
    assert_eq!(
        Stream::open(server.grpc, SOTW).await.status().await.0,
        RESOURCE_EXHAUSTED
    );
    server
        .counts("oxds_over_limit_total{limit=\"streams\"} 1")
        .await;
    drop(first);
    until("a stream has ended", async || {
        let status = crate::admin::json(server.http).await;
        (status["nodes"].as_array().unwrap().len() < 2).then_some(())
    })
    .await;
    serves(&server).await;
}

/// Given three times as many requests on one stream as its burst allows, then the server reads the burst and what the
/// rate adds, and another stream is served at the same time.
#[tokio::test]
async fn s77_request_flood_is_read_at_the_rate_after_the_burst() {
    let mut limits = Limits::default();
    (limits.request_rate, limits.request_burst) = (50, 1_000);
    let burst = u64::from(limits.request_burst);
    let server = Running::start(Server::builder().limits(limits.clone())).await;
    server.cache.apply(upsert(&["a"]));
    let begun = std::time::Instant::now();
    let flood = Stream::open(server.grpc, SOTW).await;
    for _ in 0..3 * burst {
        flood.send(&ask(CDS, &["a"]));
    }
    until("the burst is read, and the stream waits", async || {
        let waits = server.metric("oxds_throttled_total").await > 0;
        (waits && server.metric("oxds_requests_total").await >= burst).then_some(())
    })
    .await;
    serves(&server).await;
    let read = server.metric("oxds_requests_total").await;
    // The rate, the request of the other stream, and its ACK.
    let allowed = burst + u64::from(limits.request_rate) * (begun.elapsed().as_secs() + 1) + 2;
    assert!(
        (burst..=allowed).contains(&read),
        "{read} of {} requests read, {allowed} allowed",
        3 * burst
    );
}
