//! Serving modes: when an address listens.

use std::net::SocketAddr;

use oxds_client::{Bootstrap, ClientPool};
use oxds_grpc_server::{ServeError, ServingMode, XdsServer};
use oxds_types::ResourceType;

use crate::client::Client;
use crate::world::{ALL, World, default_chain, inline, listener, rds, resource, routes};

#[tokio::test]
async fn c259_server_listens_with_listener_and_routes_only() {
    let mut world = World::start().await;
    assert_eq!(world.status().mode, ServingMode::Starting);
    world.refuses().await;
    // The listener alone is not enough.
    world.send_listener(&default_chain(&rds("r")));
    world.answer().await;
    world.refuses().await;
    world.same_mode();
    world.send_routes(&[routes("r", ALL)]).await;
    assert_eq!(world.mode().await, ServingMode::Serving);
    let status = world.status();
    assert_eq!((status.generation, status.connections), (1, 0));
    assert_eq!(&*status.listener, format!("server/{}", world.address));
    let mut client = world.client().await;
    assert_eq!(client.call("Call").await.unwrap(), "\0\0\0\0\x05hello");
    assert_eq!(world.status().connections, 1);
}

#[tokio::test]
async fn c259_deleted_listener_closes_the_port_and_drains() {
    let mut world = World::serving().await;
    let mut client = world.client().await;
    let held = client.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    world.respond(&ResourceType::LISTENER, Vec::new());
    let reason = world.not_serving().await;
    assert!(reason.contains("does not exist"), "{reason}");
    assert!(reason.contains("test-node"), "{reason}");
    world.refuses().await;
    assert_eq!(world.status().mode, ServingMode::NotServing(reason));
    // The call under way goes on; then the connection ends.
    world.until(|status| status.draining == 1).await;
    world.echo.release();
    held.reply().await.unwrap();
    client.closed().await;
    world.until(|status| status.connections == 0).await;
    // The listener is back, at the same port.
    world.serve_all();
    assert_eq!(world.mode().await, ServingMode::Serving);
    world.client().await.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_listener_for_another_address_is_a_reason() {
    let mut world = World::start().await;
    let other: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let name = format!("server/{}", world.address);
    let chain = default_chain(&inline(ALL));
    let yaml = listener(other, &chain).replace("server/127.0.0.1:1", &name);
    world.respond(&ResourceType::LISTENER, vec![resource(&yaml)]);
    let reason = world.not_serving().await;
    let text = format!(
        "is for address \"127.0.0.1\" and port 1: expected {}",
        world.address
    );
    assert!(reason.contains(&text), "{reason}");
    assert!(reason.contains("[node \"test-node\"]"), "{reason}");
    world.refuses().await;
}

#[tokio::test]
async fn c259_invalid_first_listener_is_a_reason() {
    let mut world = World::start().await;
    world.send_listener(&format!(
        "use_original_dst: true\n{}",
        default_chain(&inline(ALL))
    ));
    let reason = world.not_serving().await;
    assert!(
        reason.contains("use_original_dst: must not be true"),
        "{reason}"
    );
    world.refuses().await;
    world.serve_all();
    assert_eq!(world.mode().await, ServingMode::Serving);
}

#[tokio::test]
async fn c259_unreachable_control_plane_is_a_reason_at_first_only() {
    let mut world = World::serving().await;
    world.control_plane.kill();
    // Nothing changes for a server that serves.
    world.client().await.call("Call").await.unwrap();
    world.same_mode();
    // A new server of the same control plane does not start to serve.
    let bootstrap = world.pool.bootstrap();
    let pool = ClientPool::new(Bootstrap::clone(bootstrap));
    let (sender, mut modes) = tokio::sync::mpsc::unbounded_channel();
    let server = XdsServer::builder()
        .clients(pool)
        .on_serving_mode(move |_, mode| drop(sender.send(mode.clone())))
        .build()
        .unwrap();
    let bound = server.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let running = tokio::spawn(bound.serve());
    let mode = tokio::time::timeout(oxds_testkit::SOON, modes.recv()).await;
    let Some(ServingMode::NotServing(reason)) = mode.unwrap() else {
        panic!("serves");
    };
    let control_plane = world.control_plane.address().to_string();
    assert!(reason.contains(&control_plane), "{reason}");
    running.abort();
}

#[tokio::test]
async fn c259_one_server_serves_several_addresses() {
    let mut world = World::serving().await;
    let second = world.server.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = second.local_addr();
    let running = tokio::spawn(second.serve());
    let chain = default_chain(&inline(ALL));
    let both = [world.address, address].map(|address| resource(&listener(address, &chain)));
    world.respond(&ResourceType::LISTENER, both.into());
    assert_eq!(world.mode().await, ServingMode::Serving);
    Client::connect(address).await.call("Call").await.unwrap();
    world.client().await.call("Call").await.unwrap();
    assert_eq!(world.server.status().listeners.len(), 2);
    running.abort();
}

#[tokio::test]
async fn c259_address_in_use_is_an_error() {
    let world = World::serving().await;
    let error = world.server.serve(world.address).await.unwrap_err();
    assert!(matches!(error, ServeError::Bind { .. }), "{error}");
    let text = format!("cannot bind {}: ", world.address);
    assert!(error.to_string().starts_with(&text), "{error}");
}

#[test]
fn c259_bootstrap_without_template_is_an_error() {
    let bootstrap = Bootstrap::builder("127.0.0.1:1").build().unwrap();
    let error = XdsServer::builder()
        .bootstrap(bootstrap)
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "bootstrap: server_listener_resource_name_template: must be set for an xDS server"
    );
}
