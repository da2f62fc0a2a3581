//! C-109 – C-111, C-118: errors for watchers after invalid resources.

use std::time::Duration;

use oxds_core::ads::CacheState;
use oxds_types::ResourceType;

use super::{Played, bad_cluster, cluster};

#[test]
fn c109_invalid_update_is_ambient_if_cached_else_error() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.events();
    played.respond(
        &ResourceType::CLUSTER,
        "v2",
        "n2",
        vec![bad_cluster("a"), bad_cluster("b")],
    );
    let events = played.events();
    assert!(events[0].starts_with("a: ambient: "), "{events:?}");
    assert!(events[1].starts_with("b: error: "), "{events:?}");
    let told = played.watch(&ResourceType::CLUSTER, "a");
    assert!(
        told[0] == "a: changed" && told[1].starts_with("a: ambient: "),
        "{told:?}"
    );
    let told = played.watch(&ResourceType::CLUSTER, "b");
    assert!(
        told.len() == 1 && told[0].starts_with("b: error: "),
        "{told:?}"
    );
}

#[test]
fn c110_repeated_nack_error_is_sent_once() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    for nonce in ["n1", "n2"] {
        played.respond(&ResourceType::CLUSTER, "v1", nonce, vec![bad_cluster("a")]);
        assert!(played.request().error_detail.is_some());
    }
    assert_eq!(played.events().len(), 1);
}

#[test]
fn c111_same_bytes_after_nack_clear_the_error() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![bad_cluster("a")]);
    played.events();
    played.respond(&ResourceType::CLUSTER, "v3", "n3", vec![cluster("a", "")]);
    assert_eq!(played.events(), ["a: current"]);
    let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
    assert!(cached.state == CacheState::Acked && cached.error.is_none());
}

#[test]
fn c118_error_text_has_node_type_resource_and_server() {
    let (mut played, _) = Played::watching_clusters(&["deleted", "invalid", "silent"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("deleted", "")],
    );
    played.events();
    played.respond(
        &ResourceType::CLUSTER,
        "v2",
        "n2",
        vec![bad_cluster("invalid")],
    );
    played.wait(Duration::from_secs(15));
    let mut errors = played.events();
    played.close("gone");
    played.wait(Duration::from_secs(2));
    played.transmit();
    played.close("connection refused");
    errors.extend(played.events());
    assert!(errors.len() >= 4, "{errors:?}");
    for error in errors {
        let (name, _) = error.split_once(':').unwrap();
        let expected = [
            "node-1",
            "envoy.config.cluster.v3.Cluster",
            &format!("{name:?}"),
            "cp:18000",
        ];
        for part in expected {
            assert!(error.contains(part), "{part} in {error:?}");
        }
    }
}
