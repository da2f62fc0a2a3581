//! What clients that mean no good, or know no better, can do: end their own stream.

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

/// Given bytes that are no request, whole or torn; then the stream ends with a status that says so, and the server
/// serves on.
#[tokio::test]
async fn s60_garbage_ends_its_stream() {
    let server = Running::with_clusters(&["a"]).await;
    let cases: [(&[u8], u32); 5] = [
        // A field that claims more bytes than there are.
        (b"\0\0\0\0\x02\x0a\x7f", INVALID_ARGUMENT),
        // Text that is not UTF-8 in a string.
        (b"\0\0\0\0\x04\x22\x02\xff\xfe", INVALID_ARGUMENT),
        // Not a type URL.
        (b"\0\0\0\0\x05\x22\x03abc", INVALID_ARGUMENT),
        (b"\x01\0\0\0\0", UNIMPLEMENTED),
        // Longer than any message may be.
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

/// Given a method that does not exist; then its call is answered with UNIMPLEMENTED.
#[tokio::test]
async fn s59_an_unknown_method_is_refused() {
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

/// Given a name of 1 MB, or a million names; then the stream ends with a status, in bounded memory.
#[tokio::test]
async fn s60_names_are_limited() {
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

/// Given a client that never asks; then its stream ends when the patience does.
#[tokio::test]
async fn s77_a_stream_that_never_asks_is_ended() {
    let mut limits = Limits::default();
    limits.first_request = Duration::from_millis(100);
    let server = Running::start(Server::builder().limits(limits)).await;
    for path in [
        SOTW,
        DELTA,
        "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
        crate::load::LRS,
        crate::csds::STREAM,
    ] {
        // On a busy machine the connection itself may be closed before, as it says nothing: then there is another.
        until(path, async || {
            let mut client = Rude::connect(server.grpc, 65_535).await.ok()?;
            let ended = client.call(path).await.ok()?.ended().await;
            matches!(ended, Ended::Status(DEADLINE_EXCEEDED, _)).then_some(())
        })
        .await;
    }
}

/// Given as many streams as are allowed; when one more is opened, it is refused; when one ends, there is room again.
#[tokio::test]
async fn s77_streams_are_limited() {
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
        .counts("oxds_refusals_total{reason=\"streams\"} 1")
        .await;
    drop(first);
    until("a place is free", async || {
        let status = crate::pages::json(server.http).await;
        (status["nodes"].as_array().unwrap().len() < 2).then_some(())
    })
    .await;
    serves(&server).await;
}

/// Given a request flood on one stream; then another stream is served meanwhile.
#[tokio::test]
async fn s60_a_flood_does_not_starve_others() {
    let server = Running::with_clusters(&["a"]).await;
    let flood = Stream::open(server.grpc, SOTW).await;
    for _ in 0..20_000 {
        flood.send(&ask(CDS, &["a"]));
    }
    serves(&server).await;
}
