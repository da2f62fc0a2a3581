//! What resources are read as: one type or several, with rules or without.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as Message;
use envoy_types::pb::envoy::service::runtime::v3::Runtime;
use oxds_core::ads::{CacheState, ClientEvent};
use oxds_core::resource::{Cluster, Invalid, ParsedResource, ResourceParser, ResourceParsers};
use oxds_types::ResourceType;

use super::{Played, any, bad_cluster, cluster};

/// A client whose resources are read as these types, and no others.
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

/// given a cluster that no gRPC client can use / when it is watched as the message / then it is valid, decoded once, and the
/// same for all.
#[test]
fn a_message_has_no_rules_of_grpc_and_is_decoded_once() {
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
fn what_nobody_reads_is_not_decoded() {
    let mut played = played([]);
    watching(&mut played, "c");
    // Field 1, and then no message.
    let any = oxds_types::discovery::Any {
        value: b"\x0a\x01c\xff\xff".as_slice().into(),
        ..cluster("c", "")
    };
    played.respond(&ResourceType::CLUSTER, "v1", "n1", vec![any.clone()]);
    assert_eq!(value(&mut played).value(), &any.value);
    assert_eq!(played.client.counters().decoded, 0);
}

/// given a type with a rule of its own / then what breaks it is rejected with the rule; so is what makes it panic.
#[test]
fn a_type_brings_its_rules() {
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

/// given a kind that is read as two types / then both must take a resource, and each has its own of it.
#[test]
fn of_two_types_both_must_take_a_resource() {
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

/// given something held / when its kind is read as one type more / then it is read as that, too, if that type takes it.
#[test]
fn a_type_that_comes_late_reads_what_is_held() {
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

/// Kinds that gRPC does not know are named as all others are, in field 1.
#[test]
fn a_type_without_a_view_is_named_by_itself() {
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
