//! C-72, C-89 – C-91, C-94 – C-96, C-108: ends of streams, and servers that do not answer.

use std::time::Duration;

use oxds_core::ads::{AdsTransmit, CacheState, ServerId};
use oxds_types::ResourceType;

use super::{Played, assignment, cluster};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn c72_new_stream_has_versions_but_no_nonces() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.watch(&ResourceType::ENDPOINT, "a");
    played.requests();
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("b", "")],
    );
    played.request();
    played.unwatch(&ResourceType::ENDPOINT, "a");
    played.request();
    played.close("gone");
    played.wait(2 * SECOND);
    played.open();
    let request = played.request();
    assert_eq!(
        request.type_url,
        ResourceType::CLUSTER.type_url(),
        "types without names are left out"
    );
    assert_eq!(
        (
            request.version_info.as_str(),
            request.response_nonce.as_str()
        ),
        ("v1", "")
    );
    assert_eq!(request.resource_names, ["a", "b"]);
}

#[test]
fn c72_pending_ack_is_dropped_with_its_stream() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![super::bad_cluster("a")],
    );
    played.close("gone");
    played.wait(2 * SECOND);
    played.open();
    let request = played.request();
    assert_eq!(
        (request.response_nonce.as_str(), request.error_detail),
        ("", None)
    );
}

#[test]
fn c89_backoff_grows_until_a_response() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    let mut delays = Vec::new();
    for _ in 0..14 {
        assert_eq!(played.transmit(), Some(AdsTransmit::Open));
        played.close("refused");
        let delay = played
            .client
            .poll_timeout()
            .unwrap()
            .saturating_since(played.now);
        delays.push(delay.as_secs_f32());
        assert_eq!(played.transmit(), None, "not before its time");
        played.wait(delay);
    }
    assert!((0.99..1.01).contains(&delays[0]), "{delays:?}");
    assert!((1.59..1.61).contains(&delays[1]), "{delays:?}");
    assert!((119.0..121.0).contains(&delays[13]), "{delays:?}");

    played.open();
    played.request();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.close("gone");
    let delay = played
        .client
        .poll_timeout()
        .unwrap()
        .saturating_since(played.now);
    assert!(
        (0.99..1.01).contains(&delay.as_secs_f32()),
        "a server that answers and hangs up is not called at once"
    );
}

/// Given a server that answered on a stream that then lasted. When the stream ends, then the client connects at once,
/// so that a fallback is not delayed if the server is gone. Only a failed attempt starts the backoff.
#[test]
fn c89_long_stream_is_reopened_at_once() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.wait(Duration::from_secs(60));
    played.close("gone");
    assert_eq!(played.client.poll_timeout(), Some(played.now));
    played.wait(Duration::ZERO);
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.close("refused");
    let until = played.client.poll_timeout().unwrap();
    let delay = until.saturating_since(played.now).as_secs_f32();
    assert!((0.99..1.01).contains(&delay), "{delay}");
}

#[test]
fn c89_jitter_is_twenty_percent() {
    for (random, expected) in [(0, 0.8), (u64::MAX, 1.2)] {
        let mut played = Played::new();
        played.watch(&ResourceType::CLUSTER, "a");
        played.transmit();
        played
            .client
            .handle_closed(played.now, ServerId::default(), "refused", random);
        let delay = played
            .client
            .poll_timeout()
            .unwrap()
            .saturating_since(played.now);
        assert!((delay.as_secs_f64() - expected).abs() < 1e-6, "{delay:?}");
    }
}

#[test]
fn c90_end_of_answered_stream_is_no_error() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    played.close("Unavailable: restarting");
    assert!(played.events().is_empty());
}

#[test]
fn c91_unreachable_server_is_ambient_if_cached_else_error() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    played.close("gone");
    played.wait(2 * SECOND);
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.close("connection refused");
    let events = played.events();
    assert!(events[0].starts_with("a: ambient: "), "{events:?}");
    assert!(events[1].starts_with("b: error: "), "{events:?}");
    assert!(
        events
            .iter()
            .all(|event| event.contains("connection refused")),
        "{events:?}"
    );

    played.wait(3 * SECOND);
    played.open();
    played.request();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(
        played.events(),
        ["a: current"],
        "the ambient error is cleared"
    );
}

#[test]
fn c94_resource_timer_starts_with_request_on_live_stream() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
    played.wait(60 * SECOND);
    assert!(
        played.events().is_empty(),
        "connecting takes as long as it takes"
    );
    played.client.handle_opened(ServerId::default());
    played.request();
    played.wait(14 * SECOND);
    assert!(played.events().is_empty());
    played.wait(SECOND);
    assert_eq!(played.events().len(), 1);
}

#[test]
fn c95_answer_stops_timer_and_new_stream_restarts_it() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.wait(10 * SECOND);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![super::bad_cluster("a")],
    );
    played.events();
    played.close("gone");
    played.wait(10 * SECOND);
    assert!(played.events().is_empty(), "no stream, no clock");
    played.open();
    played.request();
    played.wait(14 * SECOND);
    assert!(played.events().is_empty());
    played.wait(SECOND);
    let events = played.events();
    assert_eq!(events.len(), 1, "a was answered for: {events:?}");
    assert!(events[0].starts_with("b: error: "), "{events:?}");
}

#[test]
fn c96_timeout_means_missing_and_late_resource_applies() {
    let mut played = Played::new();
    played.watch(&ResourceType::ENDPOINT, "a");
    played.open();
    played.request();
    assert_eq!(
        played
            .client
            .cached(&ResourceType::ENDPOINT, "a")
            .unwrap()
            .state,
        CacheState::Requested
    );
    played.wait(15 * SECOND);
    assert!(played.events()[0].contains("does not exist"), "told");
    assert_eq!(
        played
            .client
            .cached(&ResourceType::ENDPOINT, "a")
            .unwrap()
            .state,
        CacheState::DoesNotExist
    );
    played.respond(&ResourceType::ENDPOINT, "v1", "n1", vec![assignment("a")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(
        played
            .client
            .cached(&ResourceType::ENDPOINT, "a")
            .unwrap()
            .state,
        CacheState::Acked
    );
}

#[test]
fn c108_new_watcher_gets_connectivity_error_at_once() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    played.transmit();
    played.close("connection refused");
    let told = played.watch(&ResourceType::CLUSTER, "b");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("connection refused"), "{told:?}");
}

#[test]
fn c89_unwatch_and_watch_does_not_shorten_backoff() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.close("refused");
    let until = played.client.poll_timeout().unwrap();
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), None, "no watch waits");
    played.watch(&ResourceType::CLUSTER, "b");
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), Some(until));
    played.wait(until - played.now);
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
}

#[test]
fn c108_any_response_clears_the_connectivity_error() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.close("refused");
    assert_eq!(played.watch(&ResourceType::CLUSTER, "b").len(), 1);
    played.wait(Duration::from_secs(2));
    played.open();
    played.request();
    // A response of a type that was never subscribed.
    played.respond(&ResourceType::LISTENER, "v1", "n1", vec![]);
    assert!(played.watch(&ResourceType::CLUSTER, "c").is_empty());
}
