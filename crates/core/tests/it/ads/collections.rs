//! C-280: watches of more than one name, and names that are others' aliases.

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

/// given a watch of all clusters, and one of `a` / then both names are asked for; what comes is told by its own name, and so
/// is what goes; a new stream says all that is held.
#[test]
fn c280_everything_is_watched_beside_a_name() {
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
    // Who comes later is told of all.
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

    // Without the whole, the name stays.
    for _ in 0..2 {
        played.unwatch(&ResourceType::CLUSTER, "*");
    }
    assert_eq!(request(&mut played).resource_names_unsubscribe, ["*"]);
    assert!(played.client.cached(&ResourceType::CLUSTER, "a").is_some());
}

#[test]
fn c280_a_server_that_is_lost_is_one_word_on_the_whole() {
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

/// given a watch of an xdstp collection / then its members come and go; others, deeper ones too, are not its members; a
/// collection that there is not is an error of its own.
#[test]
fn c280_the_members_of_a_collection_come_and_go() {
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

/// given a name that is an alias / when the resource comes by its own name / then it is what was asked for; when a
/// resource without a body says the alias / then there is none (as VHDS has it).
#[test]
fn c280_a_resource_is_found_by_its_alias() {
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

/// Over full states, a name that stands for all is deleted from by absence.
#[test]
fn c280_everything_over_full_states() {
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
