//! Health and reflection (S-65).

use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::client::{Client, Stream};
use crate::{Running, until, upsert};
use oxds_server::Server;

const ADS: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

async fn health(server: &Running, service: &str) -> i32 {
    let service = service.into();
    let mut client = Client::connect(server.grpc).await;
    let path = "/grpc.health.v1.Health/Check";
    let response: HealthCheckResponse = client.unary(path, &HealthCheckRequest { service }).await;
    response.status
}

/// Given a server before the first load, then its health is NOT_SERVING. After the first load it is SERVING, for the
/// server as a whole and for ADS.
#[tokio::test]
async fn s65_health_follows_the_first_load() {
    let server = Running::start(Server::builder()).await;
    assert_eq!(health(&server, "").await, 2);
    server.cache.apply(upsert(&[]));
    for service in ["", ADS] {
        until("serving", async || {
            (health(&server, service).await == 1).then_some(())
        })
        .await;
    }
}

/// Given a client that watches the health of the server, when the server shuts down, then the client gets NOT_SERVING
/// before its stream ends.
#[tokio::test]
async fn s65_health_reports_shutdown() {
    let mut server = Running::with_clusters(&["a"]).await;
    for service in ["", ADS] {
        until("serving", async || {
            (health(&server, service).await == 1).then_some(())
        })
        .await;
    }
    let service = ADS.into();
    let request = HealthCheckRequest { service };
    let mut client = Client::connect(server.grpc).await;
    let path = "/grpc.health.v1.Health/Watch";
    let mut stream = client.open_with(path, &request).await;
    assert_eq!(stream.message::<HealthCheckResponse>().await.status, 1);
    server.stop();
    assert_eq!(stream.message::<HealthCheckResponse>().await.status, 2);
}

async fn reflect(stream: &mut Stream, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        message_request: Some(request),
        ..Default::default()
    };
    stream.send(&request);
    stream
        .message::<ServerReflectionResponse>()
        .await
        .message_response
        .unwrap()
}

/// Given a server, when a tool calls the reflection service, then it gets the services, and the descriptors of services
/// and resources.
#[tokio::test]
async fn s65_reflection_lists_services_and_resources() {
    let server = Running::start(Server::builder()).await;
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let mut stream = Stream::open(server.grpc, path).await;
    let services = reflect(&mut stream, MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(services) = services else {
        panic!("{services:?}")
    };
    let names: Vec<_> = services
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert!(
        names.contains(&ADS) && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );
    for symbol in [ADS, "envoy.config.cluster.v3.Cluster"] {
        let found = reflect(
            &mut stream,
            MessageRequest::FileContainingSymbol(symbol.into()),
        )
        .await;
        assert!(
            matches!(found, MessageResponse::FileDescriptorResponse(_)),
            "{symbol}: {found:?}"
        );
    }
}
