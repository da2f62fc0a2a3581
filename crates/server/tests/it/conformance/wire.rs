//! Heartbeats (S-49) and split responses (S-50) on the wire.

use std::time::Duration;

use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::ResourceType;
use oxds_types::discovery::{self, Node};
use prost::Message as _;

use crate::client::{CDS, DELTA, SOTW, Stream, ack, ack_delta, ask, subscribe};
use crate::{Running, cluster};

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";
const TTL: Duration = Duration::from_secs(1);

/// Starts a server with assignment `a`, which has a TTL of one second, and `b`, which has none.
async fn with_a_ttl() -> Running {
    let server = Running::with_clusters(&[]).await;
    let one = |name| Resource::new(ResourceType::ENDPOINT, name, b"content");
    let both = [one("a").with_ttl(TTL), one("b")];
    server.cache.apply(both.into_iter().collect::<ChangeSet>());
    server
}

fn node(features: &[&str]) -> Option<Node> {
    Some(Node {
        client_features: features.iter().map(|&feature| feature.to_owned()).collect(),
        ..Node::default()
    })
}

fn seconds(of: &discovery::Resource) -> Option<i64> {
    of.ttl.as_ref().map(|ttl| ttl.seconds)
}

#[tokio::test]
async fn s49_delta_heartbeat_has_name_version_and_ttl_only() {
    let server = with_a_ttl().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&discovery::DeltaDiscoveryRequest {
        node: node(&["xds.config.supports-resource-ttl"]),
        ..subscribe(EDS, &["a", "b"])
    });
    let first = stream.delta().await;
    let received: Vec<_> = first
        .resources
        .iter()
        .map(|one| (&*one.name, seconds(one)))
        .collect();
    assert_eq!(received, [("a", Some(1)), ("b", None)]);
    stream.send(&ack_delta(&first));
    for _ in 0..3 {
        let heartbeat = stream.delta().await;
        let [alive] = &heartbeat.resources[..] else {
            panic!("expected one resource: {heartbeat:?}");
        };
        assert_eq!((&*alive.name, seconds(alive)), ("a", Some(1)));
        assert_eq!(alive.version, first.resources[0].version);
        assert_eq!(
            (&alive.resource, heartbeat.removed_resources.len()),
            (&None, 0)
        );
        stream.send(&ack_delta(&heartbeat));
    }
}

#[tokio::test]
async fn s49_sotw_heartbeat_is_wrapped_in_resource() {
    let server = with_a_ttl().await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    let features = [
        "xds.config.supports-resource-ttl",
        "xds.config.supports-resource-in-sotw",
    ];
    stream.send(&discovery::DiscoveryRequest {
        node: node(&features),
        ..ask(EDS, &["a", "b"])
    });
    let names = |request| discovery::DiscoveryRequest {
        resource_names: vec!["a".into(), "b".into()],
        ..request
    };
    let first = stream.sotw().await;
    let [wrapped, bare] = &first.resources[..] else {
        panic!("expected two resources: {first:?}");
    };
    assert_eq!((&*wrapped.type_url, &*bare.type_url), (WRAPPER, EDS));
    let inside = discovery::Resource::decode(wrapped.value.clone()).unwrap();
    assert_eq!((&*inside.name, seconds(&inside)), ("a", Some(1)));
    assert_eq!(inside.resource.unwrap().type_url, EDS);
    stream.send(&names(ack(&first)));
    let heartbeat = stream.sotw().await;
    let [alive] = &heartbeat.resources[..] else {
        panic!("expected one resource: {heartbeat:?}");
    };
    assert_eq!(
        (&*alive.type_url, &heartbeat.version_info),
        (WRAPPER, &first.version_info)
    );
    let alive = discovery::Resource::decode(alive.value.clone()).unwrap();
    assert_eq!((&*alive.name, alive.resource), ("a", None));
}

/// A client without the client feature gets neither TTLs nor heartbeats.
#[tokio::test]
async fn s49_no_heartbeat_without_the_client_feature() {
    let server = with_a_ttl().await;
    for features in [&[][..], &["xds.config.supports-resource-ttl"]] {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&discovery::DiscoveryRequest {
            node: node(features),
            ..ask(EDS, &["a"])
        });
        let response = stream.sotw().await;
        assert_eq!(response.resources[0].type_url, EDS);
    }
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(EDS, &["a"]));
    let response = stream.delta().await;
    assert_eq!(seconds(&response.resources[0]), None);
}

/// Given 8 MB of clusters, then each response stays below 4 MiB, the default limit of gRPC.
#[tokio::test]
async fn s50_large_response_is_split_below_the_grpc_limit() {
    let server = Running::with_clusters(&[]).await;
    // Field 15, of 100 KB.
    let mut rest = vec![0x7a, 0xa0, 0x8d, 0x06];
    rest.extend(vec![b'x'; 100_000]);
    let names: Vec<String> = (0..80).map(|n| format!("c{n:02}")).collect();
    let clusters = names.iter().map(|name| cluster(name, &rest));
    server.cache.apply(clusters.collect::<ChangeSet>());
    let by_name: Vec<&str> = names.iter().map(String::as_str).collect();
    for asked in [&[][..], &by_name] {
        let mut stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&subscribe(CDS, asked));
        let (mut got, mut nonces) = (Vec::new(), Vec::new());
        while got.len() < names.len() {
            let part = stream.delta().await;
            assert!(part.encoded_len() < 4 << 20, "{} bytes", part.encoded_len());
            stream.send(&ack_delta(&part));
            got.extend(part.resources.into_iter().map(|one| one.name));
            nonces.push(part.nonce);
        }
        assert_eq!(got, names, "each exactly once");
        nonces.dedup();
        assert_eq!(nonces.len(), 3);
    }
}
