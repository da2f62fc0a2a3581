//! ADS streams of clients that follow the protocol.

use oxds_server::Server;

use crate::client::{CDS, Client, SOTW, Stream, ack, ask};
use crate::{Running, cluster, until, upsert};
use oxds_types::discovery::DiscoveryResponse;

fn names(response: &DiscoveryResponse) -> Vec<String> {
    // The name is field 1 and shorter than 128 bytes: key, length, bytes.
    let name =
        |value: &[u8]| String::from_utf8(value[2..2 + usize::from(value[1])].into()).unwrap();
    let mut names: Vec<_> = response
        .resources
        .iter()
        .map(|any| name(&any.value))
        .collect();
    names.sort();
    names
}

/// Given a server without configuration, when a client subscribes, then it waits. When an empty configuration is
/// loaded, then the client gets an empty response (S-26, S-27).
#[tokio::test]
async fn s26_s27_client_waits_for_the_first_load() {
    let server = Running::start(Server::builder()).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    until("the session watches", async || {
        let status = crate::admin::json(server.http).await;
        (status["nodes"][0]["types"][0]["type"] == "cds").then_some(())
    })
    .await;
    server.cache.apply(upsert(&[]));
    assert_eq!(names(&stream.sotw().await), [""; 0]);
}

/// Given 50 resources of 100 KB, when a client subscribes, then the response is complete although its body is sent in
/// shared parts.
#[tokio::test]
async fn large_response_arrives_whole() {
    let server = Running::start(Server::builder()).await;
    let mut changes = upsert(&[]);
    // Field 15, of 100 KB: a field that the server does not know.
    let mut rest = vec![0x7a, 0xa0, 0x8d, 0x06];
    rest.extend(vec![b'x'; 100_000]);
    changes
        .upserts
        .extend((0..50).map(|i| cluster(&format!("c{i:02}"), &rest).into()));
    server.cache.apply(changes);
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    let response = stream.sotw().await;
    assert_eq!(response.resources.len(), 50);
    assert!(
        response
            .resources
            .iter()
            .all(|any| any.value.ends_with(&rest))
    );
}

/// Given two streams on one connection, when one sends a request without a type URL, then only that stream ends (S-58).
#[tokio::test]
async fn s58_missing_type_url_ends_only_its_own_stream() {
    let server = Running::with_clusters(&["a"]).await;
    let mut client = Client::connect(server.grpc).await;
    let (mut good, mut bad) = (client.open(SOTW).await, client.open(SOTW).await);
    bad.send(&ask("", &[]));
    let (code, message) = bad.status().await;
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("type_url"), "{message}");
    good.send(&ask(CDS, &[]));
    assert_eq!(names(&good.sotw().await), ["a"]);
}

/// Given an ADS stream, when it asks for an unknown type, then it gets an empty response, the metrics count it, and
/// other types work on the same stream (S-59).
#[tokio::test]
async fn s59_unknown_type_gets_an_empty_response() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask("type.googleapis.com/unknown.messages.This", &[]));
    let response = stream.sotw().await;
    assert_eq!(
        response.type_url,
        "type.googleapis.com/unknown.messages.This"
    );
    assert_eq!(response.resources.len(), 0);
    stream.send(&ask(CDS, &[]));
    assert_eq!(names(&stream.sotw().await), ["a"]);
    server.counts("oxds_unknown_types_total 1").await;
}

/// Given a client that half-closes its stream, then the server ends the stream with OK.
#[tokio::test]
async fn half_closed_stream_ends_with_ok() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw().await;
    stream.half_close();
    assert_eq!(stream.status().await.0, 0);
}

/// Given a client that sends one request and half-closes at once, as `grpcurl -d` does, then it gets one response.
#[tokio::test]
async fn request_before_half_close_is_answered() {
    let server = Running::with_clusters(&["a"]).await;
    let mut client = Client::connect(server.grpc).await;
    let response: DiscoveryResponse = client.unary(SOTW, &ask(CDS, &[])).await;
    assert_eq!(names(&response), ["a"]);
}

/// Given a client that does not read, when a resource changes 200 times, then another client gets each change at once.
/// The stalled client gets the latest state later, not every change (S-76).
#[tokio::test]
async fn s76_stalled_reader_does_not_delay_other_clients() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stalled = Stream::open(server.grpc, SOTW).await;
    let mut reader = Stream::open(server.grpc, SOTW).await;
    for stream in [&stalled, &reader] {
        stream.send(&ask(CDS, &[]));
    }
    stalled.sotw_acked().await;
    reader.sotw_acked().await;

    for round in 0..200_u8 {
        let mut changes = upsert(&[]);
        let mut rest = vec![0x7a, 0xa0, 0x8d, 0x06];
        rest.extend(vec![round; 100_000]);
        changes.upserts.push(cluster("a", &rest).into());
        server.cache.apply(changes);
        let response = reader.sotw().await;
        assert!(response.resources[0].value.ends_with(&[round; 1000]));
        reader.send(&ack(&response));
    }
    // The first response may be an old one. After its ACK the next one has the latest state.
    let first = stalled.sotw().await;
    if !first.resources[0].value.ends_with(&[199; 1000]) {
        stalled.send(&ack(&first));
        assert!(
            stalled.sotw().await.resources[0]
                .value
                .ends_with(&[199; 1000])
        );
    }
}

/// Given an open stream, when the server shuts down, then the stream ends with a status, the port is closed, and `run`
/// returns before its deadline (S-79).
#[tokio::test]
async fn s79_shutdown_ends_streams_and_run_returns() {
    let mut server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw().await;
    server.stop();
    let (code, message) = stream.status().await;
    assert_eq!(code, 14, "{message}");
    drop(stream);
    tokio::time::timeout(std::time::Duration::from_secs(4), &mut server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(tokio::net::TcpStream::connect(server.grpc).await.is_err());
}

/// Given two clients with a wildcard for clusters and one with a wildcard for listeners, when a cluster is added, then
/// only the first two are woken.
#[tokio::test]
async fn change_wakes_only_sessions_that_watch_it() {
    let server = Running::with_clusters(&["a"]).await;
    let mut streams = Vec::new();
    for resource_type in [
        CDS,
        CDS,
        "type.googleapis.com/envoy.config.listener.v3.Listener",
    ] {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&ask(resource_type, &[]));
        stream.sotw_acked().await;
        streams.push(stream);
    }
    let before = server.cache.wakeups();
    server.cache.apply(upsert(&["b"]));
    assert_eq!(server.cache.wakeups() - before, 2);
}
