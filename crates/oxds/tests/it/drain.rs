//! Tests of the shutdown of `oxds serve`, as its clients see it (S-79).

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use oxds_testkit::hostile::{Call, Ended, Rude, Wire, framed};
use oxds_types::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use prost::Message as _;

use crate::support::{Serve, cluster, command, folder};

const DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const UNAVAILABLE: u32 = 14;
const WINDOW: u32 = 65_535;

fn serve(dir: &std::path::Path, drain: &str) -> Serve {
    let arguments = [
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--drain",
        drain,
    ];
    let server = Serve::of(command(["serve"]).args(arguments).arg(dir));
    server.shows("/readyz", "200 OK");
    server
}

/// Connects a delta client with these initial versions.
async fn client(server: &Serve, window: u32, versions: HashMap<String, String>) -> (Rude, Call) {
    let mut client = Rude::connect(server.grpc, window).await.expect("connected");
    let mut call = client.call(DELTA).await.expect("a call");
    call.send(framed(&DeltaDiscoveryRequest {
        node: Some(Node {
            id: "test".into(),
            ..Node::default()
        }),
        type_url: CDS.into(),
        initial_resource_versions: versions,
        ..DeltaDiscoveryRequest::default()
    }));
    (client, call)
}

async fn next(call: &mut Call) -> DeltaDiscoveryResponse {
    let message = call.message().await.expect("a response");
    let response = DeltaDiscoveryResponse::decode(message).expect("well formed");
    call.send(framed(&DeltaDiscoveryRequest {
        type_url: CDS.into(),
        response_nonce: response.nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    }));
    response
}

/// Given two replicas that serve one folder, and a client of the first. When the first gets SIGTERM, its streams end
/// with UNAVAILABLE and its connections with GOAWAY, it accepts no new connection, and exits with 0. The other replica
/// sends the client only the next change, and nothing that it has.
#[tokio::test]
async fn s79_client_moves_to_other_replica_without_resend() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let (first, second) = (serve(dir.path(), "10s"), serve(dir.path(), "10s"));
    let (connection, mut call) = client(&first, WINDOW, HashMap::new()).await;
    let versions: HashMap<_, _> = next(&mut call)
        .await
        .resources
        .into_iter()
        .map(|resource| (resource.name, resource.version))
        .collect();
    assert_eq!(versions.len(), 2);
    let mut idle = Wire::connect(first.grpc).await.expect("connected");
    idle.greet().await.expect("greeted");
    idle.settled().await.expect("settled");

    let (signalled, address) = (Instant::now(), first.grpc);
    first.signal("TERM");
    let ended = Ended::Status(UNAVAILABLE, "the server is shutting down".into());
    assert_eq!(call.ended().await, ended);
    assert_eq!(idle.goaway().await.expect("a GOAWAY"), 0);
    drop((connection, idle));
    let (code, log) = tokio::task::spawn_blocking(|| first.end())
        .await
        .expect("ended");
    assert_eq!(code, Some(0), "{log}");
    assert!(
        signalled.elapsed() < Duration::from_secs(8),
        "it did not wait for the drain time"
    );
    assert!(Wire::connect(address).await.is_err(), "the port is closed");

    fs::write(dir.path().join("c.yaml"), cluster("c")).expect("written");
    second.shows("/status.json", "\"findings\":[]");
    let (_connection, mut call) = client(&second, WINDOW, versions).await;
    let mut sent = Vec::new();
    while sent.is_empty() {
        let response = next(&mut call).await;
        assert_eq!(response.removed_resources, [""; 0]);
        sent.extend(response.resources.into_iter().map(|resource| resource.name));
    }
    assert_eq!(sent, ["c"]);
}

/// Given a client that reads nothing, so that its stream cannot end. Its connection is closed after the drain time.
#[tokio::test]
async fn s79_stalled_client_is_closed_after_drain_time() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = serve(dir.path(), "300ms");
    let (_connection, _call) = client(&server, 0, HashMap::new()).await;
    let sent = "oxds_responses_total{resource_type=\"cds\"} 1";
    let server = tokio::task::spawn_blocking(move || {
        server.shows("/metrics", sent);
        server
    });
    let server = server.await.expect("sent");
    let signalled = Instant::now();
    server.signal("TERM");
    let (code, log) = tokio::task::spawn_blocking(|| server.end())
        .await
        .expect("ended");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("drain timed out"), "{log}");
    let took = signalled.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(5),
        "{took:?}"
    );
}
