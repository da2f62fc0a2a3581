//! C-66 – C-71, C-78 – C-86: the ACK or NACK of a response.

use bytes::Bytes;
use oxds_core::ads::{Duplicates, ServerId};
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, Resource};
use prost::Message;

use super::{Played, any, assignment, bad_cluster, cluster};

#[test]
fn c66_first_request_has_neither_version_nor_nonce() {
    let (_, request) = Played::watching_clusters(&["a"]);
    assert_eq!(
        (
            request.version_info.as_str(),
            request.response_nonce.as_str()
        ),
        ("", "")
    );
}

#[test]
fn c67_ack_has_version_nonce_and_all_names() {
    let (mut played, _) = Played::watching_clusters(&["a", "b"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("b", "")],
    );
    let ack = played.request();
    assert_eq!(
        (ack.version_info.as_str(), ack.response_nonce.as_str()),
        ("v1", "n1")
    );
    assert_eq!(ack.resource_names, ["a", "b"]);
    assert_eq!(ack.error_detail, None);
    assert!(played.requests().is_empty());
}

#[test]
fn c68_nack_has_every_reason_and_version_before() {
    let (mut played, _) = Played::watching_clusters(&["a", "b", "c"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("b", ""), cluster("c", "")],
    );
    played.request();
    let resources = vec![bad_cluster("a"), cluster("b", "new"), bad_cluster("c")];
    played.respond(&ResourceType::CLUSTER, "v2", "n2", resources);
    let nack = played.request();
    assert_eq!(
        (nack.version_info.as_str(), nack.response_nonce.as_str()),
        ("v1", "n2")
    );
    let detail = nack.error_detail.unwrap();
    assert_eq!(detail.code, 3, "INVALID_ARGUMENT");
    for part in [
        "a: type: ",
        "c: type: ",
        "only EDS, LOGICAL_DNS and aggregates are",
    ] {
        assert!(
            detail.message.contains(part),
            "{part:?} in {:?}",
            detail.message
        );
    }
}

#[test]
fn c69_nack_of_first_response_has_empty_version() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![bad_cluster("a")]);
    let nack = played.request();
    assert_eq!(
        (nack.version_info.as_str(), nack.response_nonce.as_str()),
        ("", "n1")
    );
    assert!(nack.error_detail.is_some());
}

#[test]
fn c70_subscription_change_after_nack_is_no_nack() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![bad_cluster("a")]);
    assert!(played.request().error_detail.is_some());
    played.watch(&ResourceType::CLUSTER, "b");
    let change = played.request();
    assert_eq!(
        (change.version_info.as_str(), change.response_nonce.as_str()),
        ("v1", "n2")
    );
    assert_eq!(change.error_detail, None);
    assert_eq!(change.resource_names, ["a", "b"]);
}

#[test]
fn c71_types_have_separate_versions_and_nonces() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "a");
    played.watch(&ResourceType::ENDPOINT, "a");
    played.open();
    assert_eq!(played.requests().len(), 2);
    played.respond(&ResourceType::CLUSTER, "c1", "1", vec![cluster("a", "")]);
    played.respond(&ResourceType::ENDPOINT, "e1", "2", vec![assignment("a")]);
    let acks = played.requests();
    let of = |resource_type: &ResourceType| {
        let ack = acks
            .iter()
            .find(|ack| ack.type_url == resource_type.type_url())
            .unwrap();
        (ack.version_info.as_str(), ack.response_nonce.as_str())
    };
    assert_eq!(of(&ResourceType::CLUSTER), ("c1", "1"));
    assert_eq!(of(&ResourceType::ENDPOINT), ("e1", "2"));
    played.respond(
        &ResourceType::ENDPOINT,
        "e2",
        "3",
        vec![any(&ResourceType::ENDPOINT, &String::new())],
    );
    let nack = played.request();
    assert_eq!(nack.type_url, ResourceType::ENDPOINT.type_url());
    assert_eq!(
        played
            .client
            .version(ServerId::default(), &ResourceType::CLUSTER),
        "c1"
    );
}

#[test]
fn c78_response_of_unknown_type_is_not_acknowledged() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::SECRET, "v1", "n1", vec![]);
    assert!(played.requests().is_empty());
    played.respond(&ResourceType::CLUSTER, "v1", "n2", vec![cluster("a", "")]);
    assert_eq!(played.request().response_nonce, "n2", "the stream goes on");
}

#[test]
fn c79_type_without_subscriptions_is_still_acknowledged() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.watch(&ResourceType::ENDPOINT, "a");
    played.requests();
    played.unwatch(&ResourceType::CLUSTER, "a");
    played.requests();
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    let ack = played.request();
    assert_eq!(
        (ack.version_info.as_str(), ack.response_nonce.as_str()),
        ("v1", "n1")
    );
    assert!(ack.resource_names.is_empty());
}

#[test]
fn c80_valid_unrequested_resource_is_ignored() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(
        &ResourceType::CLUSTER,
        "v1",
        "n1",
        vec![cluster("a", ""), cluster("z", "")],
    );
    assert_eq!(played.request().error_detail, None);
    assert_eq!(played.events(), ["a: changed"]);
    assert!(played.client.cached(&ResourceType::CLUSTER, "z").is_none());
    played.respond(
        &ResourceType::CLUSTER,
        "v2",
        "n2",
        vec![cluster("a", ""), bad_cluster("z")],
    );
    assert!(
        played.request().error_detail.is_some(),
        "an invalid one is rejected all the same"
    );
}

#[test]
fn c81_valid_resources_of_nacked_response_apply() {
    let (mut played, _) = Played::watching_clusters(&["a", "b", "c"]);
    let resources = vec![cluster("a", ""), bad_cluster("b"), cluster("c", "")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", resources);
    assert!(played.request().error_detail.is_some());
    let events = played.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[..2], ["a: changed", "c: changed"]);
    assert!(events[2].starts_with("b: error: "), "{}", events[2]);
}

#[test]
fn c83_wrapped_resource_has_the_name_of_its_wrapper() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    let wrapper = Resource {
        name: "a".to_owned(),
        resource: Some(cluster("a", "")),
        ..Resource::default()
    };
    let wrapped = Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource".to_owned(),
        value: Bytes::from(wrapper.encode_to_vec()),
    };
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![wrapped]);
    assert_eq!(played.request().error_detail, None);
    assert_eq!(played.events(), ["a: changed"]);
}

#[test]
fn c84_unreadable_resource_is_nacked_by_index() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    let garbage = Any {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        value: Bytes::from_static(&[0xff, 0xff]),
    };
    let resources = vec![cluster("a", ""), garbage, assignment("a")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", resources);
    let detail = played.request().error_detail.unwrap().message;
    assert!(
        detail.contains("resources[1]: cannot be decoded"),
        "{detail}"
    );
    assert!(
        detail.contains("resources[2].type_url: must be a envoy.config.cluster.v3.Cluster"),
        "{detail}"
    );
    assert_eq!(played.events(), ["a: changed"]);
}

#[test]
fn c86_identical_bytes_are_acked_without_event() {
    let (mut played, _) = Played::watching_clusters(&["a"]);
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![cluster("a", "")]);
    played.request();
    assert_eq!(played.events(), ["a: changed"]);
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![cluster("a", "")]);
    assert_eq!(played.request().version_info, "v2");
    assert!(played.events().is_empty());
    let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
    assert_eq!(&*cached.held.unwrap().version, "v2");
}

#[test]
fn c82_duplicate_name_is_rejected_if_configured() {
    for (duplicates, reason) in [
        (Duplicates::Accept, None),
        (
            Duplicates::Reject,
            Some("invalid envoy.config.cluster.v3.Cluster: a: is in the response twice"),
        ),
    ] {
        let mut played = Played::with(|config| config.duplicates = duplicates);
        played.watch(&ResourceType::CLUSTER, "a");
        played.open();
        played.request();
        let twice = vec![cluster("a", "first"), cluster("a", "second")];
        played.respond(&ResourceType::CLUSTER, "v1", "n1", twice);
        let detail = played.request().error_detail;
        assert_eq!(detail.map(|detail| detail.message).as_deref(), reason);
        // The resource itself is valid, so watchers get no error.
        assert_eq!(played.events()[0], "a: changed");
    }
}
