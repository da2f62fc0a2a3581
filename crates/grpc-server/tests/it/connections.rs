//! Calls of a connection: deadlines, cancellation, connections without a chain.

use oxds_grpc_server::ServingMode;
use oxds_testkit::SOON;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

use crate::world::{ALL, World, chain, inline};

#[tokio::test]
async fn c259_connection_without_chain_is_closed_silently() {
    let mut world = World::start().await;
    let never = chain("{ source_type: EXTERNAL }", &inline(ALL));
    world.send_listener(&format!("filter_chains: [{never}]"));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let mut received = Vec::new();
    let end = timeout(SOON, socket.read_to_end(&mut received)).await;
    // An end or a reset: the client gets no byte.
    let _ = end.expect("closed in time");
    assert!(received.is_empty(), "{received:?}");
}

#[tokio::test]
async fn c259_deadline_ends_a_call_before_its_response() {
    let world = World::serving().await;
    let mut client = world.client().await;
    let headers = [("grpc-timeout", "50m")];
    let call = client
        .start("svc", "/echo.Echo/Hold", &headers)
        .await
        .unwrap();
    let status = call.reply().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    // The connection goes on.
    client.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_deadline_ends_a_call_during_its_response() {
    let world = World::serving().await;
    let mut client = world.client().await;
    let headers = [("grpc-timeout", "50m")];
    let call = client
        .start("svc", "/echo.Echo/Endless", &headers)
        .await
        .unwrap();
    let status = call.reply().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "deadline exceeded during the response");
}

#[tokio::test]
async fn c261_admin_services_attach_in_one_call() {
    let world = World::start_with(|builder, pool| {
        let (admin, _health) = oxds_client::admin::services(pool);
        builder.routes(admin)
    });
    let mut world = world.await;
    world.serve_all();
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.channelz.v1.Channelz/GetServers",
    ] {
        // The message of the tests is not a valid request, so any status of the service itself is fine.
        let reply = client.call_at("svc", path).await;
        let code = reply.map_or_else(|status| status.code(), |_| Code::Ok);
        assert_ne!(code, Code::Unimplemented, "{path}");
    }
}
