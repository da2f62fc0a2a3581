//! C-264, C-267, C-268: what sources without a stream say, played on the machine.

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

/// Given a resource that is held and one that is not; when polls fail / the one stays, with a remark, and of the other
/// there is an error; when the server says that nothing changed / the remark is taken back.
#[test]
fn c267_c268_a_poll_that_fails_changes_nothing_and_one_without_news_ends_the_remark() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "1", "", vec![cluster("a", "x")]);
    played.request();
    played.events();
    for _ in 0..2 {
        let server = ServerId::default();
        played.client.handle_unanswered(server, "503");
    }
    let told = played.events();
    assert_eq!(told.len(), 2, "said once: {told:?}");
    assert!(told[0].starts_with("a: ambient: "), "{told:?}");
    assert!(told[0].contains("cannot be had: 503"), "{told:?}");
    assert!(told[1].starts_with("b: error: "), "{told:?}");
    assert_eq!(state(&played, "a"), CacheState::Acked);
    assert_eq!(played.transmit(), None, "the stream is as it was");
    played.client.handle_unchanged(ServerId::default());
    assert_eq!(played.events(), ["a: current"]);
}

/// Given a file that held a cluster; when it cannot be read / the cluster stays and counts as rejected, with the reason;
/// when it can be read again / that is over.
#[test]
fn c264_a_document_that_cannot_be_read_rejects_all_and_takes_nothing() {
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
