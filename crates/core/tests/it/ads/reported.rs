//! C-115: errors that a server sends instead of resources (gRFC A88).

use std::time::Duration;

use oxds_core::ads::{CacheState, ResponseSummary, ServerId};
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, DiscoveryResponse, ParametrizedName, ResourceError, Status};

use super::{Played, cluster};

const NOT_FOUND: i32 = 5;
const UNAVAILABLE: i32 = 14;

/// A response with these resources, and this error for a cluster.
fn respond(
    played: &mut Played,
    nonce: &str,
    resources: Vec<Any>,
    name: &str,
    code: i32,
) -> ResponseSummary {
    let error = ResourceError {
        resource_name: Some(ParametrizedName {
            name: name.to_owned(),
            ..ParametrizedName::default()
        }),
        error_detail: Some(Status {
            code,
            message: "so it is".to_owned(),
            details: Vec::new(),
        }),
    };
    let response = DiscoveryResponse {
        version_info: nonce.to_owned(),
        nonce: nonce.to_owned(),
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        resources,
        resource_errors: vec![error],
        ..DiscoveryResponse::default()
    };
    let (now, server) = (played.now, ServerId::default());
    let summary = played.client.handle_response(now, server, response);
    summary.unwrap()
}

fn state(played: &Played, name: &str) -> CacheState {
    played
        .client
        .cached(&ResourceType::CLUSTER, name)
        .unwrap()
        .state
}

#[test]
fn c115_resource_error_uncached_is_sent_once_and_stops_timer() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    respond(&mut played, "n1", vec![], "a", NOT_FOUND);
    let events = played.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("a: error: ") && events[0].contains("NOT_FOUND: so it is"),
        "{events:?}"
    );
    assert_eq!(state(&played, "a"), CacheState::ReceivedError);
    assert_eq!(played.client.poll_timeout(), None);
    assert!(
        played.request().error_detail.is_none(),
        "the response is not to blame"
    );

    respond(&mut played, "n2", vec![], "a", NOT_FOUND);
    assert!(played.events().is_empty());
    // New watchers get it as well, until the resource comes.
    assert!(played.watch(&ResourceType::CLUSTER, "a")[0].contains("NOT_FOUND"));
    played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(state(&played, "a"), CacheState::Acked);
}

#[test]
fn c115_resource_error_cached_is_ambient_and_keeps_resource() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    respond(&mut played, "n2", vec![], "a", UNAVAILABLE);
    let events = played.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("a: ambient: ") && events[0].contains("UNAVAILABLE: so it is"),
        "{events:?}"
    );
    assert_eq!(state(&played, "a"), CacheState::ReceivedError);
    played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: current"]);
}

/// The summary has the name, for a warning (D8).
#[test]
fn c115_resource_wins_over_error_of_same_name() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    let summary = respond(&mut played, "n1", vec![cluster("a", "")], "a", NOT_FOUND);
    assert_eq!(*summary.contradictions, ["a".into()]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(state(&played, "a"), CacheState::Acked);
    let summary = respond(&mut played, "n2", vec![cluster("a", "")], "b", NOT_FOUND);
    assert!(summary.contradictions.is_empty());
}

#[test]
fn c115_resource_error_for_unrequested_name_is_ignored() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    respond(&mut played, "n1", vec![], "other", NOT_FOUND);
    assert!(played.events().is_empty());
    assert_eq!(
        played.client.poll_timeout(),
        Some(played.now + Duration::from_secs(15)),
        "a is still waited for"
    );
}
