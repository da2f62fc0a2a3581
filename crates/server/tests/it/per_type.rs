//! The services of single resource types, and both API versions.

use std::sync::Arc;

use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::Server;
use oxds_types::resource_type::ADS;
use oxds_types::{ApiVersion, ResourceType};

use crate::client::{CDS, Stream, ack, ask, subscribe};
use crate::{Running, cluster};

const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const V2_CDS: &str = "type.googleapis.com/envoy.api.v2.Cluster";

/// Starts a server with one resource of every type, each named `a`.
pub(crate) async fn with_every_type() -> Running {
    let server = Running::start(Server::builder().identifier("replica-1")).await;
    let one = |resource_type| Arc::new(Resource::new(resource_type, "a", b"\x0a\x01a"));
    server.cache.apply(ChangeSet {
        upserts: ResourceType::known().map(one).collect(),
        ..ChangeSet::default()
    });
    server
}

/// Given a resource of every type, when a client calls each streaming method of each service and API version without a
/// type URL, then the response has the type URL of that version.
#[tokio::test]
async fn s61_every_service_streams_its_type() {
    let server = with_every_type().await;
    let mut asked = 0;
    for resource_type in ResourceType::known() {
        for api in [ApiVersion::V3, ApiVersion::V2] {
            let Some(service) = resource_type.service(api) else {
                continue;
            };
            let expected = resource_type.type_url_in(api).unwrap();
            if let Some(method) = service.stream {
                let path = format!("/{}/{method}", service.name);
                let mut stream = Stream::open(server.grpc, &path).await;
                stream.send(&ask("", &["a"]));
                let response = stream.sotw_acked().await;
                assert_eq!(response.type_url, expected, "{path}");
                assert_eq!(response.resources[0].type_url, expected, "{path}");
                asked += 1;
            }
            if let Some(method) = service.delta {
                let path = format!("/{}/{method}", service.name);
                let mut stream = Stream::open(server.grpc, &path).await;
                stream.send(&subscribe("", &["a"]));
                let response = stream.delta().await;
                assert_eq!(response.type_url, expected, "{path}");
                assert_eq!(response.resources[0].name, "a", "{path}");
                asked += 1;
            }
        }
    }
    // v3: eleven services, eight of them with both methods. v2: eight services, seven of them with both methods.
    assert_eq!(asked, 8 * 2 + 3 + 7 * 2 + 1);
}

/// Given a stream of the cluster service, when a client subscribes to listeners on it, then it ends with
/// INVALID_ARGUMENT. Another stream goes on.
#[tokio::test]
async fn s58_single_type_service_refuses_other_types() {
    let server = with_every_type().await;
    let path = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";
    let mut good = Stream::open(server.grpc, path).await;
    good.send(&ask(CDS, &[]));
    good.sotw_acked().await;
    let mut bad = Stream::open(server.grpc, path).await;
    bad.send(&ask(LDS, &[]));
    let (code, message) = bad.status().await;
    assert_eq!(code, 3, "{message}");
    server.cache.apply(ChangeSet {
        upserts: vec![Arc::new(cluster("b", b""))],
        ..ChangeSet::default()
    });
    assert_eq!(good.sotw().await.resources.len(), 2);
}

/// Given a method that a service does not have, or an unknown service, then the call ends with UNIMPLEMENTED.
#[tokio::test]
async fn s59_methods_not_served_are_unimplemented() {
    let server = with_every_type().await;
    for path in [
        "/envoy.service.route.v3.VirtualHostDiscoveryService/StreamVirtualHosts",
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/FetchAggregatedResources",
        "/unknown.messages.This/Stream",
    ] {
        let (code, _) = Stream::open(server.grpc, path).await.status().await;
        assert_eq!(code, 12, "{path}");
    }
}

/// Given a v2 and a v3 client of ADS, then both get equal content with equal versions, each with its own type URL,
/// before and after a change.
#[tokio::test]
async fn s62_v2_and_v3_streams_stand_side_by_side() {
    let server = with_every_type().await;
    let mut streams = Vec::new();
    for (service, type_url) in [(&ADS[0], CDS), (&ADS[1], V2_CDS)] {
        let path = format!("/{}/{}", service.name, service.stream.unwrap());
        let stream = Stream::open(server.grpc, &path).await;
        stream.send(&ask(type_url, &[]));
        streams.push((stream, type_url));
    }
    for round in 0..2 {
        let mut seen = Vec::new();
        for (stream, type_url) in &mut streams {
            let response = stream.sotw().await;
            assert_eq!(response.type_url, *type_url);
            assert!(
                response
                    .resources
                    .iter()
                    .all(|any| any.type_url == *type_url)
            );
            stream.send(&ack(&response));
            let values = response.resources.into_iter().map(|any| any.value);
            seen.push((response.version_info, values.collect::<Vec<_>>()));
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0].1.len(), 1);
        server.cache.apply(ChangeSet {
            upserts: vec![Arc::new(cluster("a", &[0x10, round]))],
            ..ChangeSet::default()
        });
    }
}
