//! C-48, C-52 – C-56: servers of both API versions (gRFC A30), and names without federation.

use std::time::Duration;

use oxds_core::ads::{AdsTransmit, ClientConfig, NameSyntax, Protocol, Server};
use oxds_types::discovery::{
    Any, DeltaDiscoveryResponse, DiscoveryResponse, Node, Resource as Wrapper,
};
use oxds_types::{ApiVersion, ResourceType};

use super::{Played, any, assignment, bad_cluster, cluster, response};

const TYPES: [ResourceType; 4] = [
    ResourceType::LISTENER,
    ResourceType::ROUTE,
    ResourceType::CLUSTER,
    ResourceType::ENDPOINT,
];

/// A client of one server, with requests in this API version.
fn with_api_version(version: ApiVersion, protocol: Protocol) -> Played {
    let mut server = Server::new("cp:18000");
    server.version = version;
    server.protocol = protocol;
    Played::of(ClientConfig::with_server(server, Node::default()))
}

fn url(resource_type: &ResourceType, version: ApiVersion) -> String {
    resource_type.type_url_in(version).unwrap().to_owned()
}

/// The same resource with the type URL of another version.
fn named_in(version: ApiVersion, resource_type: &ResourceType, mut resource: Any) -> Any {
    resource.type_url = url(resource_type, version);
    resource
}

/// A response and its resources, with the type URLs of a version.
fn answer_in(
    version: ApiVersion,
    revision: &str,
    nonce: &str,
    clusters: Vec<Any>,
) -> DiscoveryResponse {
    let clusters = clusters.into_iter();
    let clusters = clusters.map(|any| named_in(version, &ResourceType::CLUSTER, any));
    let mut response = response(&ResourceType::CLUSTER, revision, nonce, clusters.collect());
    response.type_url = url(&ResourceType::CLUSTER, version);
    response
}

fn held_in(played: &Played, name: &str) -> ApiVersion {
    let cached = played.client.cached(&ResourceType::CLUSTER, name).unwrap();
    cached.held.unwrap().api
}

#[test]
fn c52_requests_use_type_urls_of_the_stream_version() {
    let asked = |version| {
        let mut played = with_api_version(version, Protocol::Sotw);
        for resource_type in &TYPES {
            played.watch(resource_type, "a");
        }
        played.open();
        let mut urls: Vec<String> = played
            .requests()
            .into_iter()
            .map(|request| request.type_url)
            .collect();
        urls.sort();
        urls
    };
    let named = |messages: [&str; 4]| messages.map(|m| format!("type.googleapis.com/{m}"));
    assert_eq!(
        asked(ApiVersion::V2),
        named([
            "envoy.api.v2.Cluster",
            "envoy.api.v2.ClusterLoadAssignment",
            "envoy.api.v2.Listener",
            "envoy.api.v2.RouteConfiguration",
        ])
    );
    assert_eq!(
        asked(ApiVersion::V3),
        named([
            "envoy.config.cluster.v3.Cluster",
            "envoy.config.endpoint.v3.ClusterLoadAssignment",
            "envoy.config.listener.v3.Listener",
            "envoy.config.route.v3.RouteConfiguration",
        ])
    );
}

#[test]
fn c52_type_without_v2_keeps_its_type_url() {
    let mut played = with_api_version(ApiVersion::V2, Protocol::Sotw);
    played.watch(&ResourceType::EXTENSION_CONFIG, "filter");
    played.open();
    assert_eq!(
        played.request().type_url,
        ResourceType::EXTENSION_CONFIG.type_url()
    );
}

#[test]
fn c53_delta_is_used_only_if_configured() {
    for version in [ApiVersion::V2, ApiVersion::V3] {
        let unless_told = Server::new("cp:18000").protocol;
        let mut played = with_api_version(version, unless_told);
        played.watch(&ResourceType::CLUSTER, "a");
        played.open();
        assert!(matches!(
            played.transmit(),
            Some(AdsTransmit::SotwRequest(_))
        ));

        let mut played = with_api_version(version, Protocol::Delta);
        played.watch(&ResourceType::CLUSTER, "a");
        played.open();
        let Some(AdsTransmit::DeltaRequest(request)) = played.transmit() else {
            panic!("differences were wanted");
        };
        assert_eq!(request.type_url, url(&ResourceType::CLUSTER, version));
    }
}

/// The response and its resources have the same version; the cache shows which one.
#[test]
fn c55_type_urls_of_other_version_are_accepted() {
    use ApiVersion::{V2, V3};
    for (asked, answered) in [(V3, V2), (V2, V3)] {
        let mut played = with_api_version(asked, Protocol::Sotw);
        played.watch(&ResourceType::CLUSTER, "a");
        played.watch(&ResourceType::CLUSTER, "b");
        played.open();
        played.request();
        played.receive(answer_in(answered, "1", "n1", vec![cluster("a", "")]));
        assert_eq!(played.events(), ["a: changed"]);
        assert_eq!(played.request().error_detail, None);
        // Both versions in one response: each resource has its own.
        let mut mixed = answer_in(asked, "2", "n2", vec![cluster("b", "")]);
        let other = named_in(answered, &ResourceType::CLUSTER, cluster("a", "new"));
        mixed.resources.push(other);
        played.receive(mixed);
        assert_eq!(played.events(), ["b: changed", "a: changed"]);
        assert_eq!(
            (held_in(&played, "a"), held_in(&played, "b")),
            (answered, asked)
        );
    }
}

#[test]
fn c55_v2_wrapper_is_unwrapped() {
    let mut played = with_api_version(ApiVersion::V2, Protocol::Sotw);
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    let wrapper = Wrapper {
        name: "a".to_owned(),
        resource: Some(named_in(
            ApiVersion::V2,
            &ResourceType::CLUSTER,
            cluster("a", ""),
        )),
        ..Wrapper::default()
    };
    let mut wrapped = any(&ResourceType::CLUSTER, &wrapper);
    wrapped.type_url = "type.googleapis.com/envoy.api.v2.Resource".to_owned();
    played.respond(&ResourceType::CLUSTER, "1", "n", vec![wrapped]);
    assert_eq!(played.events(), ["a: changed"]);
}

#[test]
fn c55_delta_of_other_version_is_accepted() {
    let mut played = with_api_version(ApiVersion::V3, Protocol::Delta);
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.transmit();
    let wrapper = Wrapper {
        name: "a".to_owned(),
        version: "1".to_owned(),
        resource: Some(named_in(
            ApiVersion::V2,
            &ResourceType::CLUSTER,
            cluster("a", ""),
        )),
        ..Wrapper::default()
    };
    let response = DeltaDiscoveryResponse {
        type_url: url(&ResourceType::CLUSTER, ApiVersion::V2),
        nonce: "n".to_owned(),
        resources: vec![wrapper],
        ..DeltaDiscoveryResponse::default()
    };
    let (now, server) = (played.now, oxds_core::ads::ServerId::default());
    played.client.handle_delta_response(now, server, response);
    assert_eq!(played.events(), ["a: changed"]);
    let Some(AdsTransmit::DeltaRequest(ack)) = played.transmit() else {
        panic!("no answer");
    };
    assert_eq!(ack.type_url, url(&ResourceType::CLUSTER, ApiVersion::V3));
    assert_eq!((&*ack.response_nonce, ack.error_detail), ("n", None));
}

/// The same bytes with another type URL are the same resource: no event follows, but the cache shows the version.
#[test]
fn c55_other_type_url_alone_is_no_change() {
    let mut played = with_api_version(ApiVersion::V3, Protocol::Sotw);
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    played.request();
    played.receive(answer_in(ApiVersion::V2, "1", "n1", vec![cluster("a", "")]));
    assert_eq!(played.events(), ["a: changed"]);
    assert_eq!(held_in(&played, "a"), ApiVersion::V2);
    played.receive(answer_in(ApiVersion::V3, "2", "n2", vec![cluster("a", "")]));
    assert!(played.events().is_empty());
    assert_eq!(held_in(&played, "a"), ApiVersion::V3);
}

#[test]
fn c56_ack_keeps_type_url_of_the_stream_version() {
    use ApiVersion::{V2, V3};
    for (asked, other) in [(V3, V2), (V2, V3)] {
        let mut played = with_api_version(asked, Protocol::Sotw);
        played.watch(&ResourceType::CLUSTER, "a");
        played.open();
        played.request();
        played.receive(answer_in(other, "1", "n1", vec![cluster("a", "")]));
        let ack = played.request();
        let said = (&*ack.type_url, &*ack.version_info, &*ack.response_nonce);
        assert_eq!(said, (&*url(&ResourceType::CLUSTER, asked), "1", "n1"));

        // A response with the stream's own type URL continues the same subscription.
        played.receive(answer_in(asked, "2", "n2", vec![bad_cluster("a")]));
        let nack = played.request();
        let said = (&*nack.version_info, &*nack.response_nonce);
        assert_eq!(said, ("1", "n2"));
        assert!(nack.error_detail.is_some());
        assert_eq!(nack.type_url, url(&ResourceType::CLUSTER, asked));

        // A SotW response deletes by absence, whichever type URL it has.
        played.events();
        played.receive(answer_in(other, "3", "n3", Vec::new()));
        let events = played.events();
        assert!(events[0].contains("the server deleted it"), "{events:?}");
        played.request();
        played.watch(&ResourceType::CLUSTER, "b");
        let more = played.request();
        assert_eq!((&*more.version_info, &*more.response_nonce), ("3", "n3"));
    }
}

/// Given xdstp names; then without federation each spelling is a name of its own.
#[test]
fn c48_opaque_names_are_used_as_spelled() {
    let name = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x?b=2&a=1";
    let sorted = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x?a=1&b=2";
    let events = |names: NameSyntax| {
        let mut played = Played::with(|config| config.name_syntax = names);
        played.watch(&ResourceType::ENDPOINT, name);
        played.open();
        assert_eq!(played.request().resource_names, [name]);
        played.respond(&ResourceType::ENDPOINT, "1", "n1", vec![assignment(sorted)]);
        let mut events = played.events();
        played.respond(&ResourceType::ENDPOINT, "2", "n2", vec![assignment(name)]);
        events.extend(played.events());
        played.wait(Duration::from_secs(15));
        events.extend(played.events());
        events
    };
    assert_eq!(events(NameSyntax::Opaque), [format!("{name}: changed")]);
    // With federation, names are watched in canonical form, so this spelling never comes.
    let federated = events(NameSyntax::Federated);
    assert_eq!(federated.len(), 1);
    assert!(federated[0].contains("does not exist"), "{federated:?}");
}

/// Given a type URL with another prefix; then the cache keeps it, and the usual one if the server returns to that (D8).
#[test]
fn c61_type_url_is_kept_as_received() {
    let unusual = "example.com/envoy.config.cluster.v3.Cluster";
    let (mut played, _) = Played::watching_clusters(&["a"]);
    for (version, url) in [
        ("1", unusual),
        ("2", ResourceType::CLUSTER.type_url()),
        ("3", unusual),
    ] {
        // The second time, the bytes are those in the cache.
        let resource = Any {
            type_url: url.to_owned(),
            ..cluster("a", "")
        };
        played.respond(&ResourceType::CLUSTER, version, version, vec![resource]);
        let cached = played.client.cached(&ResourceType::CLUSTER, "a").unwrap();
        assert_eq!(cached.type_url(&ResourceType::CLUSTER), Some(url));
        assert_eq!(played.request().error_detail, None);
    }
    assert_eq!(played.events(), ["a: changed"]);
}
