//! C-72, C-89 – C-91, C-94 – C-96, C-108: streams that end, servers that are silent.

use std::time::Duration;

use oxds_core::ads::{AdsTransmit, CacheState, ServerId};
use oxds_types::ResourceType;

use super::{Played, assignment, cluster};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn c72_a_new_stream_begins_without_nonces_but_with_the_accepted_versions() {
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
fn c72_an_acknowledgement_that_was_due_goes_down_with_its_stream() {
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
fn c89_attempts_are_a_second_apart_and_then_ever_longer_until_a_response_comes() {
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

/// Given a server that answered, and whose stream then lasted; when it ends, then the server is called at once: if it is
/// gone, it is time for the next one. Only if that attempt fails a pause begins.
#[test]
fn c89_a_server_that_was_there_for_long_is_called_at_once() {
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
fn c89_jitter_is_a_fifth_either_way() {
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
fn c90_the_end_of_a_stream_that_answered_is_no_error() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    played.close("Unavailable: restarting");
    assert!(played.events().is_empty());
}

#[test]
fn c91_an_unreachable_server_is_an_error_where_nothing_is_held_and_a_remark_elsewhere() {
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
    assert_eq!(played.events(), ["a: current"], "the remark is taken back");
}

#[test]
fn c94_the_clock_of_a_resource_starts_when_a_live_stream_has_asked() {
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
fn c95_an_answer_stops_the_clock_and_a_new_stream_starts_it_anew() {
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
fn c96_silence_means_that_there_is_none_and_what_comes_late_is_welcome() {
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
fn c108_who_comes_while_the_server_is_lost_is_told_so() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    played.transmit();
    played.close("connection refused");
    let told = played.watch(&ResourceType::CLUSTER, "b");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("connection refused"), "{told:?}");
}

#[test]
fn c89_who_leaves_and_comes_back_does_not_shorten_the_wait() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.close("refused");
    let until = played.client.poll_timeout().unwrap();
    played.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), None, "nobody waits");
    played.watch(&ResourceType::CLUSTER, "b");
    assert_eq!(played.transmit(), None);
    assert_eq!(played.client.poll_timeout(), Some(until));
    played.wait(until - played.now);
    assert_eq!(played.transmit(), Some(AdsTransmit::Open));
}

#[test]
fn c108_any_response_shows_that_the_server_is_back() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.close("refused");
    assert_eq!(played.watch(&ResourceType::CLUSTER, "b").len(), 1);
    played.wait(Duration::from_secs(2));
    played.open();
    played.request();
    // Of a kind that was never asked for.
    played.respond(&ResourceType::LISTENER, "v1", "n1", vec![]);
    assert!(played.watch(&ResourceType::CLUSTER, "c").is_empty());
}
