//! C-63, C-65, C-74 – C-77, C-107, C-116, C-117: what is asked for, and when.

use oxds_core::ads::{AdsTransmit, ServerId};
use oxds_types::ResourceType;

use super::{Played, assignment, cluster};

#[test]
fn c63_nothing_happens_before_the_first_watch_and_all_ends_with_the_last() {
    let mut played = Played::new();
    assert_eq!(played.transmit(), None);
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Close));
    assert_eq!(played.transmit(), None);
}

#[test]
fn c65_the_node_goes_on_the_first_request_of_each_stream_and_on_no_other() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    played.watch(&ResourceType::ENDPOINT, "a");
    for _ in 0..2 {
        played.open();
        let nodes: Vec<_> = played
            .requests()
            .into_iter()
            .map(|request| request.node)
            .collect();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[0].as_ref().unwrap().id, "node-1");
        assert_eq!(nodes[1], None);
        played.respond(&ResourceType::CLUSTER, "v", "n", vec![cluster("a", "")]);
        assert_eq!(played.request().node, None);
        played.close("gone");
        let backoff = played.client.poll_timeout().unwrap();
        played.wait(backoff.saturating_since(played.now));
    }
}

#[test]
fn c74_a_further_name_is_asked_for_with_all_others_at_the_current_version_and_nonce() {
    let (mut played, _) = Played::watching_clusters(&["w"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("w", "")]);
    played.request();
    played.watch(&ResourceType::CLUSTER, "x");
    let request = played.request();
    assert_eq!(request.resource_names, ["w", "x"]);
    assert_eq!(
        (
            request.version_info.as_str(),
            request.response_nonce.as_str()
        ),
        ("v1", "n1")
    );
}

#[test]
fn c75_names_are_taken_back_and_the_last_one_by_an_empty_list() {
    let (mut played, _) = Played::watching_clusters(&["w", "x"]);
    played.watch(&ResourceType::ENDPOINT, "w");
    played.requests();
    played.unwatch(&ResourceType::CLUSTER, "w");
    assert_eq!(played.request().resource_names, ["x"]);
    played.unwatch(&ResourceType::CLUSTER, "x");
    assert!(played.request().resource_names.is_empty());
}

#[test]
fn c75_an_empty_list_is_never_the_first_request_of_a_type() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "w");
    played.open();
    played.request();
    // Watched and unwatched before anything could be sent: an empty list would ask for everything.
    played.watch(&ResourceType::CLUSTER, "w");
    played.unwatch(&ResourceType::CLUSTER, "w");
    assert!(played.requests().is_empty());
}

#[test]
fn c76_a_type_that_is_used_again_goes_on_with_its_latest_nonce() {
    let (mut played, _) = Played::watching_clusters(&["w"]);
    played.watch(&ResourceType::ENDPOINT, "w");
    played.requests();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("w", "")]);
    played.request();
    played.unwatch(&ResourceType::CLUSTER, "w");
    played.request();
    played.watch(&ResourceType::CLUSTER, "x");
    let request = played.request();
    assert_eq!(request.response_nonce, "n1");
    assert_eq!(request.resource_names, ["x"]);
}

#[test]
fn c77_watches_of_one_moment_make_one_request() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    for name in ["b", "c", "d"] {
        played.watch(&ResourceType::CLUSTER, name);
    }
    played.unwatch(&ResourceType::CLUSTER, "c");
    assert_eq!(played.request().resource_names, ["a", "b", "d"]);
}

#[test]
fn c107_a_new_watcher_of_what_is_held_is_told_at_once_and_nothing_is_sent() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    assert_eq!(played.watch(&ResourceType::CLUSTER, "a"), ["a: changed"]);
    assert!(played.requests().is_empty());
}

#[test]
fn c116_after_the_last_watcher_the_next_one_starts_afresh() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.watch(&ResourceType::ENDPOINT, "a");
    played.requests();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.requests();
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert!(played.request().resource_names.is_empty());
    assert!(
        played.watch(&ResourceType::CLUSTER, "a").is_empty(),
        "nothing is held any more"
    );
    assert_eq!(played.request().resource_names, ["a"]);
}

#[test]
fn c117_two_watchers_are_one_subscription_and_one_may_leave() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.watch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
}

#[test]
fn names_of_every_type_are_kept_apart() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "a");
    played.open();
    played.request();
    played.respond(&ResourceType::ENDPOINT, "v1", "n1", vec![assignment("a")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert!(played.client.cached(&ResourceType::CLUSTER, "a").is_none());
}

#[test]
fn c77_a_watch_given_up_and_taken_again_in_one_moment_disturbs_nothing() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.watch(&ResourceType::CLUSTER, "a");
    // The same stream goes on: neither closed nor opened, no node, no first request.
    let request = played.request();
    assert_eq!(request.response_nonce, "n1");
    assert_eq!(request.resource_names, ["a"]);
    assert!(request.node.is_none());
}

#[test]
fn c77_nor_does_it_while_the_stream_is_being_opened() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.watch(&ResourceType::CLUSTER, "b");
    assert_eq!(played.transmit(), None);
    played.client.handle_opened(ServerId::default());
    assert_eq!(played.request().resource_names, ["b"]);
}

#[test]
fn c63_what_is_given_up_while_a_stream_is_being_opened_closes_it() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Close));
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), None);
}
