//! C-97, C-112 – C-114: errors of a resource, and their effect on the cached one (gRFC A88).

use std::time::Duration;

use oxds_core::ads::{CacheState, ClientConfig, ClientEvent, DataErrors, Server, WatchErrorReason};
use oxds_types::ResourceType;
use oxds_types::discovery::{
    Any, DiscoveryResponse, Node, ParametrizedName, ResourceError, Status,
};

use super::{Played, bad_cluster, cluster, response};

const SECOND: Duration = Duration::from_secs(1);
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;

fn server(data_errors: DataErrors) -> Server {
    Server {
        data_errors,
        ..Server::new("cp:18000")
    }
}

/// A client with cluster `a` in its cache.
fn holding(data_errors: DataErrors) -> Played {
    let mut played = Played::of(ClientConfig::with_server(
        server(data_errors),
        Node::default(),
    ));
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
    played
}

fn reported(code: i32) -> DiscoveryResponse {
    let error = ResourceError {
        resource_name: Some(ParametrizedName {
            name: "a".to_owned(),
            ..ParametrizedName::default()
        }),
        error_detail: Some(Status {
            code,
            ..Status::default()
        }),
    };
    DiscoveryResponse {
        resource_errors: vec![error],
        ..full(vec![])
    }
}

fn full(resources: Vec<Any>) -> DiscoveryResponse {
    response(&ResourceType::CLUSTER, "v2", "n2", resources)
}

/// Errors of `a`, each with the state that shows it.
fn faults() -> [(DiscoveryResponse, CacheState); 4] {
    [
        (full(vec![]), CacheState::DoesNotExist),
        (full(vec![bad_cluster("a")]), CacheState::Nacked),
        (reported(NOT_FOUND), CacheState::ReceivedError),
        (reported(PERMISSION_DENIED), CacheState::ReceivedError),
    ]
}

/// Given a cached resource. When it is deleted, an invalid one comes, or the server reports an error for it, then it is
/// dropped if the server is configured so, else kept with an ambient error; before gRFC A88, only a deletion drops it.
#[test]
fn c112_data_error_drops_or_keeps_as_configured() {
    for data_errors in [DataErrors::Drop, DataErrors::Keep, DataErrors::DropDeleted] {
        for (fault, state) in faults() {
            let mut played = holding(data_errors);
            let is_deletion = state == CacheState::DoesNotExist;
            played.receive(fault.clone());
            let drops = match data_errors {
                DataErrors::Drop => true,
                DataErrors::Keep => false,
                DataErrors::DropDeleted => is_deletion,
            };
            let events = played.events();
            let word = if drops { "a: error: " } else { "a: ambient: " };
            assert!(
                events.len() == 1 && events[0].starts_with(word),
                "{data_errors:?} {state:?} {events:?}"
            );
            let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
            assert_eq!((cached.held.is_none(), cached.state), (drops, state));
            // The event is sent once.
            played.receive(fault);
            assert!(played.events().is_empty(), "{data_errors:?} {state:?}");
            // A resource that returns is a change for watchers without it, and the end of the ambient error for the
            // others.
            played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
            let back = if drops { "a: changed" } else { "a: current" };
            assert_eq!(played.events(), [back], "{data_errors:?} {state:?}");
            let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
            assert_eq!(cached.state, CacheState::Acked);
        }
    }
}

#[test]
fn c112_transient_error_never_drops() {
    let mut played = holding(DataErrors::Drop);
    played.receive(reported(UNAVAILABLE));
    let events = played.events();
    assert!(events[0].starts_with("a: ambient: "), "{events:?}");
    let held = played
        .client
        .cached(&ResourceType::CLUSTER, "a")
        .unwrap()
        .held;
    assert!(held.is_some());
}

/// Given a server whose timeout is transient; then it may take 30 s, and the error is one of the server, not of the
/// resource; a late resource applies.
#[test]
fn c97_transient_timeout_is_doubled_and_no_deletion() {
    let transient = Server {
        resource_timer_is_transient: true,
        ..Server::new("cp:18000")
    };
    let mut played = Played::of(ClientConfig::with_server(transient, Node::default()));
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.wait(29 * SECOND);
    assert!(played.events().is_empty());
    assert_eq!(played.client.poll_timeout(), Some(played.now + SECOND));
    played.wait(SECOND);
    let Some(ClientEvent::Changed {
        resource: Err(error),
        ..
    }) = played.client.poll_event()
    else {
        panic!("no error");
    };
    assert_eq!(error.reason, WatchErrorReason::Unreachable);
    assert!(error.to_string().contains("no answer within 30 s"));
    let state = |played: &Played| {
        played
            .client
            .cached(&ResourceType::CLUSTER, "a")
            .unwrap()
            .state
    };
    assert_eq!(state(&played), CacheState::Timeout);
    // A new watcher gets the same.
    assert!(played.watch(&ResourceType::CLUSTER, "a")[0].contains("30 s"));
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(state(&played), CacheState::Acked);
}

/// Each state is visible in the cache.
#[test]
fn c113_every_cache_state_is_visible() {
    let states = |played: &Played| {
        let mut resources = played.client.resources();
        resources.next().map(|(.., cached)| cached.state).unwrap()
    };
    let (played, _) = Played::watching_clusters(&["a"]);
    assert_eq!(states(&played), CacheState::Requested);
    assert_eq!(states(&holding(DataErrors::Drop)), CacheState::Acked);
    for (fault, state) in faults() {
        let (mut played, _) = Played::watching_clusters(&["a"]);
        // A resource that was never received is not deleted by absence, but by the timeout.
        match state {
            CacheState::DoesNotExist => played.wait(15 * SECOND),
            _ => played.receive(fault),
        }
        assert_eq!(states(&played), state);
    }
}

/// Given any sequence of updates; then a watcher gets a resource or an error in its place, or an ambient error, which
/// is cleared when all is well: a third event does not follow.
#[test]
fn c114_watcher_gets_changed_and_ambient_events() {
    let mut played = holding(DataErrors::DropDeleted);
    played.receive(full(vec![bad_cluster("a")]));
    played.receive(full(vec![cluster("a", "")]));
    played.receive(full(vec![cluster("a", "new")]));
    played.receive(full(vec![]));
    let events = std::iter::from_fn(|| played.client.poll_event());
    let heard: Vec<_> = events
        .map(|event| match event {
            ClientEvent::Changed { resource, .. } => format!("changed {}", resource.is_ok()),
            ClientEvent::Ambient { error, .. } => format!("ambient {}", error.is_none()),
            ClientEvent::DeletionIgnored { .. } | ClientEvent::DeletionOver { .. } => {
                "none of its business".to_owned()
            }
        })
        .collect();
    assert_eq!(
        heard,
        [
            "ambient false",
            "ambient true",
            "changed true",
            "changed false"
        ]
    );
}
