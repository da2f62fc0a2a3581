//! Parsers: one or several Rust types per resource type, with and without rules.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as Message;
use envoy_types::pb::envoy::service::runtime::v3::Runtime;
use oxds_core::ads::{CacheState, ClientEvent};
use oxds_core::resource::{Cluster, Invalid, ParsedResource, ResourceParser, ResourceParsers};
use oxds_types::ResourceType;

use super::{Played, any, bad_cluster, cluster};

/// A client with exactly these parsers.
fn played(types: impl IntoIterator<Item = ResourceParser>) -> Played {
    Played::with(|config| {
        config.parsers = ResourceParsers::default();
        for read_as in types {
            config.parsers.register(read_as);
        }
    })
}

fn watching(played: &mut Played, name: &str) {
    played.watch(&ResourceType::CLUSTER, name);
    played.open();
    played.request();
}

fn value(played: &mut Played) -> ParsedResource {
    match played.client.poll_event() {
        Some(ClientEvent::Changed {
            resource: Ok(resource),
            ..
        }) => resource,
        other => panic!("{other:?}"),
    }
}

/// Given a cluster that is invalid for gRPC. When it is watched as the generated message, then it is valid, decoded
/// once, and shared by all watchers.
#[test]
fn generated_message_is_decoded_once_without_grpc_rules() {
    let mut played = played([ResourceParser::of::<Message>()]);
    watching(&mut played, "c");
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![bad_cluster("c")]);
    let first = value(&mut played).get::<Message>().unwrap();
    assert_eq!(first.name, "c");
    let again = played
        .client
        .watch(Default::default(), &ResourceType::CLUSTER, &"c".into());
    let ClientEvent::Changed { resource, .. } = &again[0] else {
        panic!("{again:?}");
    };
    let second = resource.as_ref().unwrap().get::<Message>().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(played.client.counters().decoded, 1);
    assert!(played.request().error_detail.is_none());
}

#[test]
fn type_without_parser_is_not_decoded() {
    let mut played = played([]);
    watching(&mut played, "c");
    // Field 1, and then bytes that do not form a message.
    let any = oxds_types::discovery::Any {
        value: b"\x0a\x01c\xff\xff".as_slice().into(),
        ..cluster("c", "")
    };
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![any.clone()]);
    assert_eq!(value(&mut played).value(), &any.value);
    assert_eq!(played.client.counters().decoded, 0);
}

/// Given a parser with a rule; then a resource that breaks it is rejected with the rule, and so is one that makes it
/// panic.
#[test]
fn parser_rules_reject_resources() {
    let rule = |cluster: &Message| match cluster.alt_stat_name.as_str() {
        "" => Err(Invalid::new("must not be empty").at("alt_stat_name")),
        "panic" => panic!("a rule that was not made for this"),
        _ => Ok(()),
    };
    let mut played = played([ResourceParser::checked(rule)]);
    watching(&mut played, "c");
    for (stat, expected) in [
        ("", Some("c: alt_stat_name: must not be empty")),
        ("panic", Some("c: makes ")),
        ("x", None),
    ] {
        let cluster = Message {
            name: "c".to_owned(),
            alt_stat_name: stat.to_owned(),
            ..Message::default()
        };
        played.respond(
            &ResourceType::CLUSTER,
            "v1",
            "n1",
            vec![any(&ResourceType::CLUSTER, &cluster)],
        );
        let detail = played.request().error_detail.map(|detail| detail.message);
        match expected {
            Some(expected) => assert!(detail.as_ref().unwrap().contains(expected), "{detail:?}"),
            None => assert_eq!(detail, None),
        }
    }
}

/// Given a resource type with two parsers; then both must accept a resource, and each has its own value of it.
#[test]
fn resource_must_be_accepted_by_both_parsers() {
    let mut played = played([
        ResourceParser::of::<Message>(),
        ResourceParser::of::<Cluster>(),
    ]);
    watching(&mut played, "c");
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![bad_cluster("c")]);
    assert!(played.request().error_detail.is_some());
    played.events();
    played.respond(&ResourceType::CLUSTER, "v2", "n2", vec![cluster("c", "e")]);
    let resource = value(&mut played);
    assert_eq!(resource.get::<Message>().unwrap().name, "c");
    assert_eq!(&*resource.get::<Cluster>().unwrap().eds_service_name, "e");
}

/// Given a cached resource. When its type gets another parser, then the resource is parsed by it, if it accepts the
/// bytes.
#[test]
fn late_parser_reads_cached_resources() {
    let mut played = played([ResourceParser::of::<Message>()]);
    played.watch(&ResourceType::CLUSTER, "good");
    watching(&mut played, "bad");
    let both = vec![cluster("good", "e"), bad_cluster("bad")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", both);
    played.events();
    played.client.register(ResourceParser::of::<Cluster>());
    let held = |name| {
        let cached = played.client.cached(&ResourceType::CLUSTER, name).unwrap();
        assert_eq!(cached.state, CacheState::Acked);
        cached.held.unwrap().resource.clone()
    };
    assert!(held("good").get::<Cluster>().is_some() && held("good").get::<Message>().is_some());
    assert!(held("bad").get::<Cluster>().is_none() && held("bad").get::<Message>().is_some());
}

/// Resource types without a view are named by field 1 as well.
#[test]
fn type_without_view_is_named_by_its_message() {
    let mut played = played([ResourceParser::of::<Runtime>()]);
    played.watch(&ResourceType::RUNTIME, "layer");
    played.open();
    played.request();
    let runtime = Runtime {
        name: "layer".to_owned(),
        layer: None,
    };
    played.respond(
        &ResourceType::RUNTIME,
        "v1",
        "n1",
        vec![any(&ResourceType::RUNTIME, &runtime)],
    );
    assert_eq!(*value(&mut played).get::<Runtime>().unwrap(), runtime);
}
