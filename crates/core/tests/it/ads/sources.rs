//! C-264, C-267, C-268: results of sources without a stream.

use oxds_core::ads::{CacheState, ServerId};
use oxds_types::ResourceType;

use super::{Played, cluster};

fn state(played: &Played, name: &str) -> CacheState {
    played
        .client
        .cached(&ResourceType::CLUSTER, name)
        .unwrap()
        .state
}

/// Given a cached resource and a missing one. When polls fail, then the first gets an ambient error and the second an
/// error. When the server reports that nothing changed, then the ambient error is cleared.
#[test]
fn c267_c268_failed_poll_is_ambient_until_unchanged_poll() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "1", "", vec![cluster("a", "x")]);
    played.request();
    played.events();
    for _ in 0..2 {
        let server = ServerId::default();
        played.client.handle_unanswered(server, "503");
    }
    let told = played.events();
    assert_eq!(told.len(), 2, "each error is sent once: {told:?}");
    assert!(told[0].starts_with("a: ambient: "), "{told:?}");
    assert!(told[0].contains("is unavailable: 503"), "{told:?}");
    assert!(told[1].starts_with("b: error: "), "{told:?}");
    assert_eq!(state(&played, "a"), CacheState::Acked);
    assert_eq!(played.transmit(), None, "the stream is unchanged");
    played.client.handle_unchanged(ServerId::default());
    assert_eq!(played.events(), ["a: current"]);
}

/// Given a file with a cluster. When it cannot be read, then the cluster stays, with the state NACKed and the reason.
/// When it can be read again, then the error is over.
#[test]
fn c264_unreadable_document_nacks_all_and_keeps_cache() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "1", "", vec![cluster("a", "x")]);
    played.events();
    let (now, server) = (played.now, ServerId::default());
    let reason = "c.yaml:3:1: error: no `@type`";
    let updates = played.client.handle_unreadable(now, server, reason);
    let updates = updates.expect("counted");
    assert_eq!((updates.valid, updates.invalid), (0, 1));
    let told = played.events();
    assert!(told[0].starts_with("a: ambient: "), "{told:?}");
    assert!(told[0].contains(reason), "{told:?}");
    assert!(told[1].starts_with("b: error: "), "{told:?}");
    assert_eq!(state(&played, "a"), CacheState::Nacked);
    played.respond(&ResourceType::CLUSTER, "2", "", vec![cluster("a", "x")]);
    assert_eq!(played.events(), ["a: current"]);
    assert_eq!(state(&played, "a"), CacheState::Acked);
}
