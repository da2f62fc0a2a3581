//! C-273 – C-278: differences instead of full states.

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

/// The one request that is due.
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
fn c273_the_first_request_has_the_node_and_the_names_and_no_versions() {
    let (_, first) = played(&["a", "b"]);
    assert_eq!(first.node.unwrap().id, "node-1");
    assert_eq!(first.resource_names_subscribe, ["a", "b"]);
    assert!(first.initial_resource_versions.is_empty());
    assert_eq!(first.response_nonce, "");
}

#[test]
fn c274_a_difference_is_applied_and_acknowledged() {
    let (mut played, _) = played(&["a", "b"]);
    let both = vec![("a", "1", cluster("a", "")), ("b", "7", cluster("b", ""))];
    respond(&mut played, "n1", both, &[]);
    let ack = request(&mut played);
    assert_eq!(ack.response_nonce, "n1");
    assert!(ack.error_detail.is_none() && ack.node.is_none());
    assert!(ack.resource_names_subscribe.is_empty());
    assert_eq!(played.events(), ["a: changed", "b: changed"]);
    // What is left out stays; each has its own version.
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
fn c275_a_bad_one_is_rejected_and_the_good_ones_apply() {
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
fn c276_a_new_stream_says_what_is_held_and_accepted() {
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
    // Were b to be what it was at 1 again, only its coming anew could take the rejection of 2 back.
    let held = HashMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(again.initial_resource_versions, held);
    assert_eq!(
        (again.response_nonce.as_str(), again.error_detail),
        ("", None)
    );
}

#[test]
fn c277_a_change_of_names_has_no_nonce_and_what_came_back_is_asked_for_again() {
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
    // Given up and taken up in one moment: it is not held any more, so the server must send it again.
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.watch(&ResourceType::CLUSTER, "a");
    let again = request(&mut played);
    assert_eq!(again.resource_names_subscribe, ["a"]);
    assert!(again.resource_names_unsubscribe.is_empty());
    assert!(again.initial_resource_versions.is_empty());
}

#[test]
fn c278_a_name_that_the_server_does_not_have_is_an_error_at_once() {
    let (mut played, _) = played(&["a"]);
    respond(&mut played, "n1", vec![], &["a", "never asked for"]);
    let events = played.events();
    assert!(
        events.len() == 1 && events[0].starts_with("a: error: "),
        "{events:?}"
    );
    let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
    assert_eq!(cached.state, CacheState::DoesNotExist);
    assert_eq!(played.client.poll_timeout(), None, "nobody waits for it");
}
