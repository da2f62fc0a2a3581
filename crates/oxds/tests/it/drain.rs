//! The end of `oxds serve`, as its clients see it (S-79).

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

/// A delta client, which has these versions from before.
async fn client(server: &Serve, window: u32, held: HashMap<String, String>) -> (Rude, Call) {
    let mut client = Rude::connect(server.grpc, window).await.expect("connected");
    let mut call = client.call(DELTA).await.expect("a call");
    call.send(framed(&DeltaDiscoveryRequest {
        node: Some(Node {
            id: "test".into(),
            ..Node::default()
        }),
        type_url: CDS.into(),
        initial_resource_versions: held,
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

/// Given two replicas over one folder, and a client of the first; when that is told to stop; then its stream ends with
/// UNAVAILABLE, its connections with GOAWAY, nobody is let in any more, and it exits with 0. At the other replica the
/// client is sent nothing that it has, and the next change.
#[tokio::test]
async fn s79_clients_go_elsewhere_without_a_gap() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let (first, second) = (serve(dir.path(), "10s"), serve(dir.path(), "10s"));
    let (connection, mut call) = client(&first, WINDOW, HashMap::new()).await;
    let held: HashMap<_, _> = next(&mut call)
        .await
        .resources
        .into_iter()
        .map(|resource| (resource.name, resource.version))
        .collect();
    assert_eq!(held.len(), 2);
    let mut idle = Wire::connect(first.grpc).await.expect("connected");
    idle.greet().await.expect("greeted");

    let (asked, address) = (Instant::now(), first.grpc);
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
        asked.elapsed() < Duration::from_secs(8),
        "nobody had to be waited for"
    );
    assert!(Wire::connect(address).await.is_err(), "nobody is let in");

    fs::write(dir.path().join("c.yaml"), cluster("c")).expect("written");
    second.shows("/status.json", "\"findings\":[]");
    let (_connection, mut call) = client(&second, WINDOW, held).await;
    let mut told = Vec::new();
    while told.is_empty() {
        let response = next(&mut call).await;
        assert_eq!(response.removed_resources, [""; 0]);
        told.extend(response.resources.into_iter().map(|resource| resource.name));
    }
    assert_eq!(told, ["c"]);
}

/// Given a client that reads nothing, so that its stream cannot end; then it is cut off when the time to drain is over.
#[tokio::test]
async fn s79_those_who_do_not_leave_are_cut_off() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = serve(dir.path(), "300ms");
    let (_connection, _call) = client(&server, 0, HashMap::new()).await;
    let sent = "oxds_responses_total{kind=\"cds\"} 1";
    let server = tokio::task::spawn_blocking(move || {
        server.shows("/metrics", sent);
        server
    });
    let server = server.await.expect("sent");
    let asked = Instant::now();
    server.signal("TERM");
    let (code, log) = tokio::task::spawn_blocking(|| server.end())
        .await
        .expect("ended");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("did not end in time"), "{log}");
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(5),
        "{took:?}"
    );
}
