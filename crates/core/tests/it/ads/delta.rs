//! C-273 – C-278: delta streams.

use std::collections::HashMap;

use oxds_core::ads::{AdsTransmit, CacheState, ClientConfig, Protocol, Server, ServerId};
use oxds_types::ResourceType;
use oxds_types::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Resource as Wrapper,
};

use super::{Played, bad_cluster, cluster};

fn played(names: &[&str]) -> (Played, DeltaDiscoveryRequest) {
    let mut server = Server::new("cp:18000");
    server.protocol = Protocol::Delta;
    let node = Node {
        id: "node-1".to_owned(),
        ..Node::default()
    };
    let mut played = Played::of(ClientConfig::with_server(server, node));
    for name in names {
        played.watch(&ResourceType::CLUSTER, name);
    }
    played.open();
    let first = request(&mut played);
    (played, first)
}

/// The only request that is due.
fn request(played: &mut Played) -> DeltaDiscoveryRequest {
    let Some(AdsTransmit::DeltaRequest(request)) = played.transmit() else {
        panic!("no request");
    };
    assert_eq!(played.transmit(), None);
    *request
}

fn respond(played: &mut Played, nonce: &str, upserts: Vec<(&str, &str, Any)>, removed: &[&str]) {
    let wrapped = upserts.into_iter().map(|(name, version, any)| Wrapper {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(any),
        ..Wrapper::default()
    });
    let response = DeltaDiscoveryResponse {
        resources: wrapped.collect(),
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        removed_resources: removed.iter().map(|name| (*name).to_owned()).collect(),
        nonce: nonce.to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let (now, server) = (played.now, ServerId::default());
    played.client.handle_delta_response(now, server, response);
}

#[test]
fn c273_first_delta_request_has_node_and_names_no_versions() {
    let (_, first) = played(&["a", "b"]);
    assert_eq!(first.node.unwrap().id, "node-1");
    assert_eq!(first.resource_names_subscribe, ["a", "b"]);
    assert!(first.initial_resource_versions.is_empty());
    assert_eq!(first.response_nonce, "");
}

#[test]
fn c274_delta_response_is_applied_and_acked() {
    let (mut played, _) = played(&["a", "b"]);
    let both = vec![("a", "1", cluster("a", "")), ("b", "7", cluster("b", ""))];
    respond(&mut played, "n1", both, &[]);
    let ack = request(&mut played);
    assert_eq!(ack.response_nonce, "n1");
    assert!(ack.error_detail.is_none() && ack.node.is_none());
    assert!(ack.resource_names_subscribe.is_empty());
    assert_eq!(played.events(), ["a: changed", "b: changed"]);
    // An absent resource stays; each resource has its own version.
    respond(&mut played, "n2", vec![("a", "2", cluster("a", "x"))], &[]);
    assert_eq!(played.events(), ["a: changed"]);
    let version = |name| {
        let cached = played.client.cached(&ResourceType::CLUSTER, name).unwrap();
        cached.held.unwrap().version.clone()
    };
    assert_eq!((version("a"), version("b")), ("2".into(), "7".into()));
    respond(&mut played, "n3", vec![], &["b"]);
    let events = played.events();
    assert!(events[0].starts_with("b: error: "), "{events:?}");
}

#[test]
fn c275_invalid_resource_nacks_and_valid_ones_apply() {
    let (mut played, _) = played(&["a", "b"]);
    let both = vec![("a", "1", bad_cluster("a")), ("b", "1", cluster("b", ""))];
    respond(&mut played, "n1", both, &[]);
    let nack = request(&mut played);
    assert_eq!(nack.response_nonce, "n1");
    assert!(nack.error_detail.unwrap().message.contains("a: "));
    let events = played.events();
    assert!(
        events[0] == "b: changed" && events[1].starts_with("a: error"),
        "{events:?}"
    );
    let attempt = played
        .client
        .cached(&ResourceType::CLUSTER, "a")
        .unwrap()
        .attempt;
    assert_eq!(attempt.unwrap().version, "1");
}

#[test]
fn c276_new_stream_sends_initial_versions() {
    let (mut played, _) = played(&["a", "b", "c"]);
    let first = vec![("a", "1", cluster("a", "")), ("b", "1", cluster("b", ""))];
    respond(&mut played, "n1", first, &[]);
    respond(&mut played, "n2", vec![("b", "2", bad_cluster("b"))], &[]);
    request(&mut played);
    played.close("broken");
    played.wait(std::time::Duration::from_secs(2));
    played.open();
    let again = request(&mut played);
    assert_eq!(again.resource_names_subscribe, ["a", "b", "c"]);
    // If b returns to version 1, only a new copy of it can clear the NACK of version 2.
    let held = HashMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(again.initial_resource_versions, held);
    assert_eq!(
        (again.response_nonce.as_str(), again.error_detail),
        ("", None)
    );
}

#[test]
fn c277_subscription_change_has_no_nonce() {
    let (mut played, _) = played(&["a"]);
    played.watch(&ResourceType::CLUSTER, "b");
    let more = request(&mut played);
    assert_eq!(more.resource_names_subscribe, ["b"]);
    assert_eq!(more.response_nonce, "");
    respond(&mut played, "n1", vec![("a", "1", cluster("a", ""))], &[]);
    played.unwatch(&ResourceType::CLUSTER, "b");
    let both = request(&mut played);
    assert_eq!(both.resource_names_unsubscribe, ["b"]);
    assert_eq!(both.response_nonce, "n1");
    // Unwatched and watched again before a poll: the resource stays.
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.watch(&ResourceType::CLUSTER, "a"), ["a: changed"]);
    assert_eq!(played.transmit(), None);
    // After a poll, the resource is no longer cached, so the server must send it again.
    played.watch(&ResourceType::CLUSTER, "c");
    request(&mut played);
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(request(&mut played).resource_names_unsubscribe, ["a"]);
    played.watch(&ResourceType::CLUSTER, "a");
    let again = request(&mut played);
    assert_eq!(again.resource_names_subscribe, ["a"]);
    assert!(again.resource_names_unsubscribe.is_empty());
    assert!(again.initial_resource_versions.is_empty());
}

#[test]
fn c278_removed_unknown_name_is_an_error_at_once() {
    let (mut played, _) = played(&["a"]);
    respond(&mut played, "n1", vec![], &["a", "never asked for"]);
    let events = played.events();
    assert!(
        events.len() == 1 && events[0].starts_with("a: error: "),
        "{events:?}"
    );
    let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
    assert_eq!(cached.state, CacheState::DoesNotExist);
    assert_eq!(played.client.poll_timeout(), None, "no watch waits for it");
}
