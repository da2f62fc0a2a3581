//! C-280: watches of more than one name, and aliases.

use oxds_core::ads::{AdsTransmit, ClientConfig, Protocol, Server, ServerId};
use oxds_types::ResourceType;
use oxds_types::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Resource as Wrapper,
};

use super::{Played, any, assignment, bad_cluster, cluster};

fn played() -> Played {
    let server = Server {
        protocol: Protocol::Delta,
        ..Server::new("cp:18000")
    };
    Played::of(ClientConfig::with_server(server, Node::default()))
}

fn request(played: &mut Played) -> DeltaDiscoveryRequest {
    match played.transmit() {
        Some(AdsTransmit::DeltaRequest(request)) => *request,
        other => panic!("no request: {other:?}"),
    }
}

fn wrapped(name: &str, version: &str, any: Any) -> Wrapper {
    Wrapper {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(any),
        ..Wrapper::default()
    }
}

fn send(
    played: &mut Played,
    resource_type: &ResourceType,
    resources: Vec<Wrapper>,
    removed: &[&str],
) {
    let response = DeltaDiscoveryResponse {
        resources,
        type_url: resource_type.type_url().to_owned(),
        removed_resources: removed.iter().map(|name| (*name).to_owned()).collect(),
        nonce: "n".to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let (now, server) = (played.now, ServerId::default());
    played.client.handle_delta_response(now, server, response);
}

/// Given a watch of all clusters, and one of `a`; then both names are subscribed; events have the names of single
/// resources; a new stream sends the versions of all cached resources.
#[test]
fn c280_wildcard_and_name_are_watched_together() {
    let mut played = played();
    played.watch(&ResourceType::CLUSTER, "*");
    played.watch(&ResourceType::CLUSTER, "a");
    played.open();
    let first = request(&mut played);
    assert_eq!(first.resource_names_subscribe, ["*", "a"]);
    let two = vec![
        wrapped("a", "1", cluster("a", "")),
        wrapped("b", "1", cluster("b", "")),
    ];
    send(&mut played, &ResourceType::CLUSTER, two, &[]);
    assert_eq!(played.events(), ["a: changed", "b: changed"]);
    request(&mut played);
    // A new watcher gets all of them.
    assert_eq!(
        played.watch(&ResourceType::CLUSTER, "*"),
        ["a: changed", "b: changed"]
    );
    send(
        &mut played,
        &ResourceType::CLUSTER,
        vec![wrapped("c", "1", bad_cluster("c"))],
        &["b"],
    );
    let events = played.events();
    assert!(
        events[0].starts_with("b: error: ") && events[1].starts_with("c: error: "),
        "{events:?}"
    );
    request(&mut played);
    let held: Vec<_> = played
        .client
        .resources()
        .map(|(_, name, _)| &**name)
        .collect();
    assert_eq!(held, ["a"], "what went is forgotten");

    played.close("broken");
    played.wait(std::time::Duration::from_secs(2));
    played.open();
    let again = request(&mut played);
    assert_eq!(again.resource_names_subscribe, ["*", "a"]);
    assert_eq!(again.initial_resource_versions.len(), 1);

    // Without the wildcard watch, the name stays.
    for _ in 0..2 {
        played.unwatch(&ResourceType::CLUSTER, "*");
    }
    assert_eq!(request(&mut played).resource_names_unsubscribe, ["*"]);
    assert!(played.client.cached(&ResourceType::CLUSTER, "a").is_some());
}

#[test]
fn c280_unreachable_server_is_one_event_for_the_collection() {
    let mut played = played();
    played.watch(&ResourceType::CLUSTER, "*");
    played.transmit();
    played.close("refused");
    let events = played.events();
    assert!(
        events.len() == 1 && events[0].starts_with("*: error: ") && events[0].contains("refused"),
        "{events:?}"
    );
    played.wait(std::time::Duration::from_secs(2));
    played.open();
    request(&mut played);
    send(&mut played, &ResourceType::CLUSTER, vec![], &[]);
    assert_eq!(played.events(), ["*: current"]);
}

/// Given a watch of an xdstp collection; then its members are added and removed; names elsewhere or deeper are not
/// members; a missing collection is an error of its own.
#[test]
fn c280_collection_members_are_added_and_removed() {
    const ALL: &str = "xdstp://a/T/shop/*";
    let mut played = played();
    played.watch(&ResourceType::ENDPOINT, ALL);
    played.open();
    assert_eq!(request(&mut played).resource_names_subscribe, [ALL]);
    let named = ["xdstp://a/T/shop/x", "xdstp://a/T/shop/deep/y", "plain"];
    let sent = named.map(|name| wrapped(name, "1", assignment(name)));
    send(&mut played, &ResourceType::ENDPOINT, sent.to_vec(), &[]);
    assert_eq!(played.events(), ["xdstp://a/T/shop/x: changed"]);
    send(&mut played, &ResourceType::ENDPOINT, vec![], &[named[0]]);
    assert!(played.events()[0].starts_with("xdstp://a/T/shop/x: error: "));
    assert_eq!(played.client.resources().count(), 0);
    send(&mut played, &ResourceType::ENDPOINT, vec![], &[ALL]);
    assert!(played.events()[0].starts_with("xdstp://a/T/shop/*: error: "));
}

/// Given a watched alias. When the resource comes with its own name, then the watcher gets it. When an element without
/// a body has the alias, then no resource exists (as in VHDS).
#[test]
fn c280_resource_is_found_by_its_alias() {
    let resource_type = ResourceType::VIRTUAL_HOST;
    let mut played = played();
    played.watch(&resource_type, "routes/shop.example");
    played.open();
    request(&mut played);
    let host = envoy_types::pb::envoy::config::route::v3::VirtualHost {
        name: "shop".to_owned(),
        domains: vec!["shop.example".to_owned()],
        ..Default::default()
    };
    let by_alias = Wrapper {
        aliases: vec!["routes/shop.example".to_owned()],
        ..wrapped("routes/shop", "1", any(&resource_type, &host))
    };
    send(&mut played, &resource_type, vec![by_alias.clone()], &[]);
    assert_eq!(played.events(), ["routes/shop.example: changed"]);
    let nothing = Wrapper {
        resource: None,
        ..by_alias
    };
    send(&mut played, &resource_type, vec![nothing], &[]);
    let events = played.events();
    assert!(
        events[0].starts_with("routes/shop.example: error: "),
        "{events:?}"
    );
}

/// Given a watched alias: when the server spells it in another way, then the watcher gets the resource, and its
/// absence.
#[test]
fn alias_is_found_in_any_spelling() {
    let resource_type = ResourceType::VIRTUAL_HOST;
    let mut played = played();
    played.watch(&resource_type, "xdstp://a/V/routes/x?a=1&b=2");
    played.open();
    request(&mut played);
    let host = envoy_types::pb::envoy::config::route::v3::VirtualHost {
        name: "x".to_owned(),
        domains: vec!["x".to_owned()],
        ..Default::default()
    };
    let spelt = Wrapper {
        aliases: vec!["xdstp://a/V/routes/%78?b=2&a=1".to_owned()],
        ..wrapped("routes/host", "1", any(&resource_type, &host))
    };
    send(&mut played, &resource_type, vec![spelt.clone()], &[]);
    assert_eq!(played.events(), ["xdstp://a/V/routes/x?a=1&b=2: changed"]);
    let nothing = Wrapper {
        resource: None,
        ..spelt
    };
    send(&mut played, &resource_type, vec![nothing], &[]);
    let events = played.events();
    assert!(
        events.len() == 1 && events[0].contains(": error: "),
        "{events:?}"
    );
}

/// On SotW streams, absence deletes members of a wildcard watch.
#[test]
fn c280_wildcard_watch_over_sotw() {
    let mut played = Played::new();
    played.watch(&ResourceType::CLUSTER, "*");
    played.open();
    assert_eq!(played.request().resource_names, ["*"]);
    let two = vec![cluster("a", ""), cluster("b", "")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", two);
    assert_eq!(played.events(), ["a: changed", "b: changed"]);
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![cluster("b", "")]);
    let events = played.events();
    assert!(
        events.len() == 1 && events[0].starts_with("a: error: "),
        "{events:?}"
    );
}
