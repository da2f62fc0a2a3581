//! Routes on the server: which calls are processed.

use tonic::Code;

use crate::world::{ALL, World, chain, default_chain, inline, only, rds, routes};
use oxds_grpc_server::ServingMode;

#[tokio::test]
async fn c259_unknown_routes_are_unavailable() {
    let mut world = World::start().await;
    let hosts = "{ name: a, domains: [a.example], routes: [
        { match: { path: /echo.Echo/Call }, non_forwarding_action: {} },
        { match: { path: /echo.Echo/Peer }, route: { cluster: c } } ] }";
    world.send_listener(&default_chain(&inline(hosts)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    client
        .call_at("a.example", "/echo.Echo/Call")
        .await
        .unwrap();
    for (authority, method, reason) in [
        (
            "b.example",
            "Call",
            "no virtual host has the authority of the RPC",
        ),
        ("a.example", "Hold", "no route matches the RPC"),
        (
            "a.example",
            "Peer",
            "the action of the route is not non_forwarding_action",
        ),
    ] {
        let path = format!("/echo.Echo/{method}");
        let status = client.call_at(authority, &path).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), format!("{reason} [node \"test-node\"]"));
    }
    // A method that has a route, and no service.
    let world = World::serving().await;
    let mut all = world.client().await;
    let status = all.call_at("svc", "/other.Service/Call").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn c259_header_routes_see_the_headers_of_the_call() {
    let mut world = World::start().await;
    let hosts = "{ name: a, domains: ['*'], routes: [ { non_forwarding_action: {},
        match: { prefix: '', headers: [{ name: x-who, string_match: { exact: 'a,b' } }] } } ] }";
    world.send_listener(&default_chain(&inline(hosts)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    let headers = [("x-who", "a"), ("x-who", "b")];
    let call = client
        .start("svc", "/echo.Echo/Call", &headers)
        .await
        .unwrap();
    call.reply().await.unwrap();
    assert_eq!(
        client.call("Call").await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test]
async fn c259_invalid_routes_fail_the_calls_of_their_chain() {
    let mut world = World::start().await;
    world.send_listener(&default_chain(&rds("r")));
    world
        .send_routes(&[routes("r", &ALL.replace("'*'", "'a*b'"))])
        .await;
    // The server serves, because another chain may have routes.
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    let status = client.call("Call").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("domains[0]"), "{status}");
    assert!(status.message().contains("test-node"), "{status}");
    // Valid routes are for the same connection.
    world.send_routes(&[routes("r", ALL)]).await;
    let answered = async { while client.call("Call").await.is_err() {} };
    tokio::time::timeout(oxds_testkit::SOON, answered)
        .await
        .unwrap();
    world.same_mode();
}

#[tokio::test]
async fn c259_chain_of_the_connection_decides() {
    let mut world = World::start().await;
    let local = chain(
        "{ source_type: SAME_IP_OR_LOOPBACK }",
        &inline(&only("Peer")),
    );
    let external = chain("{ source_type: EXTERNAL }", &inline(ALL));
    world.send_listener(&format!("filter_chains: [{external}, {local}]"));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    let peer = client.call("Peer").await.unwrap();
    assert!(peer.starts_with(b"127.0.0.1:"), "{peer:?}");
    assert_eq!(
        client.call("Call").await.unwrap_err().code(),
        Code::Unavailable
    );
}
