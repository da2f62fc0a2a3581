//! C-97, C-112 – C-114: what is wrong with a resource, and what becomes of what is held (gRFC A88).

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

/// A client that holds cluster `a`.
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

/// What can go wrong with `a`, and the state that shows it.
fn faults() -> [(DiscoveryResponse, CacheState); 4] {
    [
        (full(vec![]), CacheState::DoesNotExist),
        (full(vec![bad_cluster("a")]), CacheState::Nacked),
        (reported(NOT_FOUND), CacheState::ReceivedError),
        (reported(PERMISSION_DENIED), CacheState::ReceivedError),
    ]
}

/// given a value held / when it is deleted, or an invalid one comes, or an error of the resource / then it is dropped where
/// the server's data errors are to fail, and kept with a remark where not; before A88, only a deletion drops.
#[test]
fn c112_what_is_held_is_dropped_or_kept_as_the_server_was_declared() {
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
            // Said once.
            played.receive(fault);
            assert!(played.events().is_empty(), "{data_errors:?} {state:?}");
            // What comes back is told as what it is to who has it, and to who has not.
            played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
            let back = if drops { "a: changed" } else { "a: current" };
            assert_eq!(played.events(), [back], "{data_errors:?} {state:?}");
            let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
            assert_eq!(cached.state, CacheState::Acked);
        }
    }
}

#[test]
fn c112_an_error_that_says_nothing_of_the_resource_drops_nothing() {
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

/// given a server whose silence is transient / then it may last 30 s, and is an error of the server, not of the resource;
/// what comes late is welcome.
#[test]
fn c97_silence_that_is_transient_lasts_longer_and_is_no_absence() {
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
    // Who comes later is told the same.
    assert!(played.watch(&ResourceType::CLUSTER, "a")[0].contains("30 s"));
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(state(&played), CacheState::Acked);
}

/// Each state can be told from the others by who looks.
#[test]
fn c113_every_state_can_be_seen() {
    let states = |played: &Played| {
        let mut resources = played.client.resources();
        resources.next().map(|(.., cached)| cached.state).unwrap()
    };
    let (played, _) = Played::watching_clusters(&["a"]);
    assert_eq!(states(&played), CacheState::Requested);
    assert_eq!(states(&holding(DataErrors::Drop)), CacheState::Acked);
    for (fault, state) in faults() {
        let (mut played, _) = Played::watching_clusters(&["a"]);
        // What was never there is not deleted by its absence, but by silence.
        match state {
            CacheState::DoesNotExist => played.wait(15 * SECOND),
            _ => played.receive(fault),
        }
        assert_eq!(states(&played), state);
    }
}

/// given anything that can happen to a resource / then its watcher hears of a value or an error in its place, or of a
/// remark, which is taken back when all is well: no third thing.
#[test]
fn c114_a_watcher_hears_what_replaces_and_what_is_ambient() {
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
            ClientEvent::DeletionIgnored { .. } => "none of its business".to_owned(),
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
