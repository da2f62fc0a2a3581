//! Updates of listeners and routes, while connections are open.

use std::time::Duration;

use oxds_testkit::SOON;
use tonic::Code;

use crate::world::{ALL, World, default_chain, inline, only, rds, routes};
use oxds_grpc_server::ServingMode;

#[tokio::test]
async fn c259_new_listener_is_for_new_connections() {
    let mut world = World::serving().await;
    let mut old = world.client().await;
    let held = old.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    world.send_listener(&default_chain(&inline(&only("Peer"))));
    // The old connection gets a GOAWAY.
    world
        .until(|status| status.generation == 2 && status.draining == 1)
        .await;
    old.goes_away().await;
    // A new one follows the new listener.
    let mut new = world.client().await;
    new.call("Peer").await.unwrap();
    assert_eq!(
        new.call("Call").await.unwrap_err().code(),
        Code::Unavailable
    );
    // The call under way ends well.
    world.echo.release();
    held.reply().await.unwrap();
    old.closed().await;
    world
        .until(|status| (status.connections, status.draining) == (1, 0))
        .await;
    world.same_mode();
}

#[tokio::test]
async fn c259_grace_period_ends_old_connections() {
    let grace = Duration::from_millis(50);
    let mut world = World::serving_with(|builder| builder.drain_grace(grace)).await;
    let mut old = world.client().await;
    let held = old.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    world.send_listener(&default_chain(&inline(&only("Call"))));
    assert_eq!(held.reply().await.unwrap_err().code(), Code::Unavailable);
    old.closed().await;
    world.until(|status| status.connections == 0).await;
    world.client().await.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_next_listener_waits_for_its_routes() {
    let mut world = World::serving().await;
    let mut client = world.client().await;
    world.send_listener(&default_chain(&rds("r")));
    world.answer().await;
    client.call("Call").await.unwrap();
    world.client().await.call("Call").await.unwrap();
    assert_eq!(world.status().generation, 1);
    world.send_routes(&[routes("r", ALL)]).await;
    world.until(|status| status.generation == 2).await;
    client.goes_away().await;
}

#[tokio::test]
async fn c259_route_update_is_for_open_connections() {
    let mut world = World::start().await;
    world.send_listener(&default_chain(&rds("r")));
    world.send_routes(&[routes("r", ALL)]).await;
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    client.call("Call").await.unwrap();
    world.send_routes(&[routes("r", &only("Peer"))]).await;
    let updated = async { while client.call("Call").await.is_ok() {} };
    tokio::time::timeout(SOON, updated).await.unwrap();
    // The connection stays.
    client.call("Peer").await.unwrap();
    let status = world.status();
    assert_eq!(
        (status.generation, status.connections, status.draining),
        (1, 1, 0)
    );
}

#[tokio::test]
async fn c259_invalid_updates_leave_the_last_good_ones() {
    let mut world = World::start().await;
    world.send_listener(&default_chain(&rds("r")));
    world.send_routes(&[routes("r", ALL)]).await;
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    client.call("Call").await.unwrap();
    let chain = |name| crate::world::chain_of("{}", &rds("r"), "", &format!(", name: {name}"));
    let twice = format!("filter_chains: [{}, {}]", chain("one"), chain("two"));
    world.send_listener(&twice);
    let nack = world.nack().await;
    assert!(
        nack.contains(
            "filter_chains[1].filter_chain_match: must not match the same as filter_chains[0] (chains \"two\" and \"one\")"
        ),
        "{nack}"
    );
    world
        .send_routes(&[routes("r", &ALL.replace("'*'", "'a*b'"))])
        .await;
    let nack = world.nack().await;
    assert!(nack.contains("virtual_hosts[0].domains[0]"), "{nack}");
    // The open connection, and a new one.
    client.call("Call").await.unwrap();
    world.client().await.call("Call").await.unwrap();
    world.same_mode();
    assert_eq!(world.status().generation, 1);
}

#[tokio::test]
async fn c259_shutdown_drains_connections() {
    let mut world = World::serving().await;
    let mut client = world.client().await;
    let held = client.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    world.shut_down();
    assert_eq!(&*world.not_serving().await, "the server shuts down");
    world.refuses().await;
    world.until(|status| status.draining == 1).await;
    world.echo.release();
    held.reply().await.unwrap();
    world.ended().await;
    client.closed().await;
}

#[tokio::test]
async fn c259_shutdown_ends_with_the_grace_period() {
    let grace = Duration::from_millis(50);
    let mut world = World::serving_with(|builder| builder.drain_grace(grace)).await;
    let mut client = world.client().await;
    let held = client.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    world.shut_down();
    world.ended().await;
    assert_eq!(held.reply().await.unwrap_err().code(), Code::Unavailable);
}
