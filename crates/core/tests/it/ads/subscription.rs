//! C-63, C-65, C-74 – C-77, C-107, C-116, C-117: requests for subscriptions.

use oxds_core::ads::{AdsTransmit, ServerId};
use oxds_types::ResourceType;

use super::{Played, assignment, cluster};

#[test]
fn c63_stream_exists_only_while_names_are_watched() {
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
fn c65_only_first_request_of_a_stream_has_the_node() {
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
fn c74_new_name_request_has_all_names_version_and_nonce() {
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
fn c75_unwatched_names_are_dropped_down_to_empty_list() {
    let (mut played, _) = Played::watching_clusters(&["w", "x"]);
    played.watch(&ResourceType::ENDPOINT, "w");
    played.requests();
    played.unwatch(&ResourceType::CLUSTER, "w");
    assert_eq!(played.request().resource_names, ["x"]);
    played.unwatch(&ResourceType::CLUSTER, "x");
    assert!(played.request().resource_names.is_empty());
}

#[test]
fn c75_first_request_never_has_an_empty_list() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "w");
    played.open();
    played.request();
    // Watched and unwatched before a request was sent: an empty list would subscribe to the wildcard.
    played.watch(&ResourceType::CLUSTER, "w");
    played.unwatch(&ResourceType::CLUSTER, "w");
    assert!(played.requests().is_empty());
}

#[test]
fn c76_type_used_again_continues_with_latest_nonce() {
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
fn c77_watches_before_a_poll_make_one_request() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    for name in ["b", "c", "d"] {
        played.watch(&ResourceType::CLUSTER, name);
    }
    played.unwatch(&ResourceType::CLUSTER, "c");
    assert_eq!(played.request().resource_names, ["a", "b", "d"]);
}

#[test]
fn c107_new_watcher_gets_cached_resource_at_once() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    assert_eq!(played.watch(&ResourceType::CLUSTER, "a"), ["a: changed"]);
    assert!(played.requests().is_empty());
}

#[test]
fn c116_watcher_after_the_last_starts_without_cache() {
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
fn c117_two_watchers_share_one_subscription() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.watch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
}

#[test]
fn names_of_different_types_are_separate() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "a");
    played.open();
    played.request();
    played.respond(&ResourceType::ENDPOINT, "v1", "n1", vec![assignment("a")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert!(played.client.cached(&ResourceType::CLUSTER, "a").is_none());
}

#[test]
fn c77_unwatch_and_watch_before_a_poll_is_no_change() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    played.events();
    played.unwatch(&ResourceType::CLUSTER, "a");
    // D2: the server does not know that the client unsubscribed, and would send nothing. So the resource is kept.
    assert_eq!(played.watch(&ResourceType::CLUSTER, "a"), ["a: changed"]);
    assert!(played.requests().is_empty());
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![cluster("a", "x")]);
    assert_eq!(played.events(), ["a: changed"]);
}

/// The same with a response in between, and with a name that has no answer yet.
#[test]
fn name_watched_again_before_a_poll_stays_subscribed() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.unwatch(&ResourceType::CLUSTER, "b");
    let both = vec![cluster("a", ""), cluster("b", "")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", both);
    assert_eq!(played.watch(&ResourceType::CLUSTER, "a"), ["a: changed"]);
    let ack = played.request();
    assert_eq!((&*ack.version_info, &*ack.response_nonce), ("v1", "n1"));
    assert_eq!(ack.resource_names, ["a"], "b is not watched any more");
    assert!(played.client.cached(&ResourceType::CLUSTER, "b").is_none());
    // Two watchers of one name: the first to leave changes nothing, nor does one too many.
    played.watch(&ResourceType::CLUSTER, "a");
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    for _ in 0..3 {
        played.unwatch(&ResourceType::CLUSTER, "a");
    }
    played.watch(&ResourceType::CLUSTER, "a");
    assert!(played.requests().is_empty());
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Close));
    assert!(played.client.cached(&ResourceType::CLUSTER, "a").is_none());
}

/// Given a server that compares versions. When a name is unsubscribed and subscribed again, on the stream or across its
/// end, then no request claims that the client has its resource.
#[test]
fn dropped_resource_is_not_claimed_by_a_version() {
    for breaks in [false, true] {
        let (mut played, _) = Played::watching_clusters(&["a", "b"]);
        let both = vec![cluster("a", ""), cluster("b", "")];
        played.respond(&ResourceType::CLUSTER, "v1", "n1", both);
        played.request();
        played.unwatch(&ResourceType::CLUSTER, "a");
        let without = played.request();
        assert_eq!(
            (&*without.version_info, &*without.response_nonce),
            ("v1", "n1")
        );
        assert_eq!(without.resource_names, ["b"]);
        if breaks {
            played.close("gone");
            played.watch(&ResourceType::CLUSTER, "a");
            played.wait(std::time::Duration::from_secs(2));
            played.open();
        } else {
            played.watch(&ResourceType::CLUSTER, "a");
        }
        let again = played.request();
        assert_eq!(again.resource_names, ["a", "b"]);
        assert_eq!(again.version_info, "", "breaks: {breaks}");
        assert_eq!(again.response_nonce, if breaks { "" } else { "n1" });
        let both = vec![cluster("a", ""), cluster("b", "")];
        played.respond(&ResourceType::CLUSTER, "v1", "n2", both);
        assert_eq!(played.request().version_info, "v1");
    }
}

/// Given names of several types that lose their watchers together, then one of them is watched again, on a new stream.
#[test]
fn all_names_unwatched_together_are_unsubscribed() {
    let mut played = Played::new();
    for _ in 0..3 {
        for resource_type in [ResourceType::CLUSTER, ResourceType::ENDPOINT] {
            played.watch(&resource_type, "a");
            played.watch(&resource_type, "b");
        }
        played.open();
        assert_eq!(played.requests().len(), 2);
        played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
        for resource_type in [ResourceType::CLUSTER, ResourceType::ENDPOINT] {
            played.unwatch(&resource_type, "a");
            played.unwatch(&resource_type, "b");
        }
        assert_eq!(played.transmit(), Some(AdsTransmit::Close));
        assert_eq!(played.transmit(), None);
        assert_eq!(played.client.resources().count(), 0);
    }
}

/// Given a stream that closed with its last name. Then the next stream names no version: the client has nothing.
#[test]
fn version_ends_with_the_last_name() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Close));
    played.watch(&ResourceType::CLUSTER, "b");
    played.open();
    let first = played.request();
    assert_eq!((&*first.version_info, &*first.response_nonce), ("", ""));
    assert!(first.node.is_some());
}

#[test]
fn c77_unwatch_and_watch_while_opening_is_no_change() {
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
fn c63_last_unwatch_while_opening_closes_the_stream() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Close));
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), None);
}
