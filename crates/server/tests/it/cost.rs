//! The cost of a change for the whole server, as `/metrics` counts it: P-2, P-4, P-13. `bench/run` measures times.

use oxds_server::Server;
use oxds_types::discovery::Status;

use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, admin, cluster, upsert};

/// Reads a counter from the metrics page.
async fn counter(server: &Running, name: &str) -> u64 {
    let (_, text) = admin::get(server.http, "/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim()
        .parse()
        .unwrap()
}

/// Returns delta clients, each on its own connection, that acknowledged these resources.
async fn in_sync(server: &Running, clients: usize, names: &[&str]) -> Vec<Stream> {
    let mut streams = Vec::new();
    for _ in 0..clients {
        let mut stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&subscribe(CDS, names));
        let response = stream.delta().await;
        stream.send(&ack_delta(&response));
        streams.push(stream);
    }
    streams
}

/// Given 50 wildcard clients, when a cluster changes, then it is hashed once and encoded once for all of them.
#[tokio::test]
async fn p2_one_hash_and_one_encoding_for_all_clients() {
    let server = Running::with_clusters(&["a", "b", "c"]).await;
    let mut streams = in_sync(&server, 50, &[]).await;
    let mut before = Vec::new();
    for name in [
        "oxds_hashes_total",
        "oxds_encodes_total",
        "oxds_wakeups_total",
    ] {
        before.push((name, counter(&server, name).await));
    }
    server
        .cache
        .apply([cluster("b", b"\x10\x03")].into_iter().collect());
    for stream in &mut streams {
        assert_eq!(stream.delta().await.resources[0].name, "b");
    }
    for ((name, before), expected) in before.into_iter().zip([1, 1, 50]) {
        assert_eq!(counter(&server, name).await - before, expected, "{name}");
    }
}

/// Given ten clients that watch cluster a and twenty that watch others, when a changes, then ten sessions are woken.
#[tokio::test]
async fn p4_only_the_watchers_of_a_name_are_woken() {
    let server = Running::with_clusters(&["a", "b", "c"]).await;
    let mut watchers = in_sync(&server, 10, &["a", "b"]).await;
    let _others = in_sync(&server, 20, &["b", "c"]).await;
    let before = counter(&server, "oxds_wakeups_total").await;
    server
        .cache
        .apply([cluster("a", b"\x10\x03")].into_iter().collect());
    for stream in &mut watchers {
        assert_eq!(stream.delta().await.resources[0].name, "a");
    }
    assert_eq!(counter(&server, "oxds_wakeups_total").await - before, 10);
}

/// Given 20 clients that NACK cluster a, when cluster b changes, then a is not sent again to any of them.
#[tokio::test]
async fn p13_invalid_resource_is_sent_once_to_each_client() {
    const SENT: &str = "oxds_responses_total{resource_type=\"cds\"}";
    let server = Running::start(Server::builder()).await;
    server.cache.apply(upsert(&["a", "b"]));
    let mut streams = in_sync(&server, 20, &[]).await;
    let before = counter(&server, SENT).await;
    server
        .cache
        .apply([cluster("a", b"\x10\x03")].into_iter().collect());
    for stream in &mut streams {
        let response = stream.delta().await;
        assert_eq!(response.resources[0].name, "a");
        let mut nack = ack_delta(&response);
        nack.error_detail = Some(Status {
            message: "cluster a: no good".into(),
            ..Status::default()
        });
        stream.send(&nack);
    }
    for generation in 4..7 {
        server
            .cache
            .apply([cluster("b", &[0x10, generation])].into_iter().collect());
        for stream in &mut streams {
            let response = stream.delta().await;
            let names: Vec<_> = response.resources.iter().map(|r| r.name.as_str()).collect();
            assert_eq!(names, ["b"]);
            stream.send(&ack_delta(&response));
        }
    }
    assert_eq!(counter(&server, SENT).await - before, 20 * (1 + 3));
}
