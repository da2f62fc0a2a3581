//! C-100 – C-106: when the absence of a resource means its deletion.

use oxds_core::ads::{CacheState, ClientConfig, Server};
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::{Played, assignment, bad_cluster, cluster};

#[test]
fn c100_absent_cluster_is_deleted_with_one_event() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("b", "")],
    );
    played.events();
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![cluster("a", "")]);
    let events = played.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("b: error: ") && events[0].contains("does not exist"),
        "{events:?}"
    );
    assert_eq!(
        played
            .client
            .cached(&ResourceType::CLUSTER, "b")
            .unwrap()
            .state,
        CacheState::DoesNotExist
    );
    played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
    assert!(played.events().is_empty());
    played.respond(
        &ResourceType::CLUSTER,
        "v4",
        "n4",
        vec![cluster("a", ""), cluster("b", "")],
    );
    assert_eq!(played.events(), ["b: changed"]);
}

#[test]
fn c101_absent_assignment_stays() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "a");
    played.watch(&ResourceType::ENDPOINT, "b");
    played.open();
    played.request();
    played.respond(
        &ResourceType::ENDPOINT,
        "v1",
        "n1",
        vec![assignment("a"), assignment("b")],
    );
    played.events();
    played.respond(&ResourceType::ENDPOINT, "v2", "n2", vec![]);
    assert!(played.events().is_empty());
    assert_eq!(
        played
            .client
            .cached(&ResourceType::ENDPOINT, "b")
            .unwrap()
            .state,
        CacheState::Acked
    );
}

#[test]
fn c102_empty_response_deletes_every_cluster() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("b", "")],
    );
    played.events();
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![]);
    assert_eq!(played.events().len(), 2);
    assert_eq!(played.request().error_detail, None);
}

#[test]
fn c103_absence_of_unreceived_name_is_no_deletion() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(
        played
            .client
            .cached(&ResourceType::CLUSTER, "b")
            .unwrap()
            .state,
        CacheState::Requested
    );
    played.wait(std::time::Duration::from_secs(15));
    assert!(
        played.events()[0].starts_with("b: error: "),
        "its clock went on"
    );
}

#[test]
fn c104_invalid_resource_counts_as_present() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![bad_cluster("a")]);
    assert!(
        played.events()[0].starts_with("a: ambient: "),
        "rejected, not deleted"
    );
    let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
    assert!(cached.state == CacheState::Nacked && cached.held.is_some());
}

#[test]
fn c106_ignored_deletion_is_reported_once_per_deletion() {
    let mut server = Server::new("cp:18000");
    server.ignore_resource_deletion = true;
    let mut played = Played::of(ClientConfig::with_server(server, Node::default()));
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    for nonce in ["n2", "n3"] {
        played.respond(&ResourceType::CLUSTER, "v2", nonce, vec![]);
    }
    assert_eq!(played.events(), ["a: deletion ignored"]);
    assert!(
        played
            .client
            .cached(&ResourceType::CLUSTER, "a")
            .unwrap()
            .held
            .is_some()
    );
    played.respond(
        &ResourceType::CLUSTER,
        "v3",
        "n4",
        vec![cluster("a", "new")],
    );
    let back = "a: deletion over, back: true";
    assert_eq!(played.events(), [back, "a: changed"]);
    played.respond(&ResourceType::CLUSTER, "v4", "n5", vec![]);
    assert_eq!(played.events(), ["a: deletion ignored"]);
    // The same bytes again are a return, too (D8).
    let same = vec![cluster("a", "new")];
    played.respond(&ResourceType::CLUSTER, "v5", "n6", same);
    assert_eq!(played.events(), [back]);
    // The record ends with the watch.
    played.respond(&ResourceType::CLUSTER, "v6", "n7", vec![]);
    assert_eq!(played.events(), ["a: deletion ignored"]);
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.transmit();
    assert_eq!(played.events(), ["a: deletion over, back: false"]);
}
