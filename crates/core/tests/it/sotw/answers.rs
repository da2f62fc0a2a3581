//! Responses on first and later streams, and their versions: S-22 … S-29.

use oxds_core::snapshot::Awaited;
use oxds_types::ResourceType;

use super::{CDS, EDS, synced};
use crate::support::{
    Stream, World,
    stream::{node, sotw},
};

#[test]
fn s22_node_of_the_first_request_is_kept() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::sotw();
    let mut request = sotw(&CDS, &[]);
    request.node = node("envoy-1");
    stream.send(request);
    stream.take(&world);
    let mut request = sotw(&EDS, &["A"]);
    request.node = node("somebody-else");
    stream.send(request);
    assert_eq!(stream.session.node().unwrap().id, "envoy-1");
}

#[test]
fn s23_resource_types_are_independent() {
    let mut world = World::of(&CDS, &["A=1"]);
    world.set(&EDS, &["A=other"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.ask(&EDS, &["A"]);
    let replies = stream.poll(&world);
    assert_eq!(
        replies
            .iter()
            .map(crate::support::stream::Reply::resource_type)
            .collect::<Vec<_>>(),
        ["cds", "eds"]
    );
    assert_ne!(replies[0].version, replies[1].version);
    stream.nack(&replies[0], "A");
    stream.ack(&replies[1]);
    world.set(&EDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
    let status = stream.session.status();
    assert!(status[0].nack.is_some() && status[1].nack.is_none());
}

#[test]
fn s24_up_to_date_wildcard_gets_no_response() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    let version = stream.take(&world).version;

    let mut again = Stream::sotw();
    again.ask_again(&CDS, &[], &version);
    again.silent(&world);
    assert!(again.session.is_in_sync(&world.snapshot));
    world.set(&CDS, &["B=2"]);
    assert_eq!(again.take(&world).resources, ["A=1", "B=2"]);

    let mut other = Stream::sotw();
    other.ask_again(&CDS, &[], &version);
    assert_eq!(other.take(&world).resources, ["A=1", "B=2"]);
}

#[test]
fn s24_named_subset_has_its_own_version() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut named = Stream::sotw();
    named.ask(&CDS, &["A"]);
    let version = named.take(&world).version;
    let mut wildcard = Stream::sotw();
    wildcard.ask_again(&CDS, &[], &version);
    assert_eq!(wildcard.take(&world).resources, ["A=1", "B=1"]);
}

#[test]
fn s25_names_get_a_response_after_reconnect_at_same_version() {
    let world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let version = stream.take(&world).version;
    let mut again = Stream::sotw();
    again.ask_again(&EDS, &["A"], &version);
    assert_eq!(again.take(&world).resources, ["A=1"]);
}

#[test]
fn s26_request_before_data_is_answered_when_data_arrives() {
    let version = {
        let mut stream = Stream::sotw();
        stream.ask(&CDS, &[]);
        stream.take(&World::of(&CDS, &["A=1"])).version
    };
    let mut world = World::unloaded();
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &[], &version);
    stream.silent(&world);
    world.set(&CDS, &["A=1"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1"],
        "the version is the same"
    );
}

/// Given a client that returns with its version before the first load, when the load was announced, then it gets
/// nothing that it has: otherwise each restart of a server would send everything again.
#[test]
fn g25_client_that_waited_for_a_restart_gets_nothing_again() {
    let version = {
        let mut stream = Stream::sotw();
        stream.ask(&CDS, &[]);
        stream.take(&World::of(&CDS, &["A=1"])).version
    };
    let mut world = World::unloaded();
    assert!(world.snapshot.set_awaited(Awaited::Everything));
    assert!(!world.snapshot.set_awaited(Awaited::Everything));
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &[], &version);
    stream.silent(&world);
    world.set(&CDS, &["A=1"]);
    stream.silent(&world);
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

/// Given a type that is not known yet, then clients get nothing of it, and other types as usual. When it is known, they
/// get an answer, which tells what does not exist.
#[test]
fn g25_type_that_is_not_known_yet_is_not_answered() {
    let secret = ResourceType::SECRET;
    let world = World::of(&CDS, &["A=1"]);
    let _ = world
        .snapshot
        .set_awaited(Awaited::Types([secret.clone()].into()));
    assert!(world.snapshot.is_awaited(&secret) && !world.snapshot.is_awaited(&CDS));
    let mut stream = Stream::delta();
    stream.change(&secret, &["key"], &[]);
    stream.change(&CDS, &["A"], &[]);
    let replies = stream.poll(&world);
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].resources, ["A=1"]);
    let _ = world.snapshot.set_awaited(Awaited::Nothing);
    assert_eq!(stream.take(&world).removed, ["key"]);
}

#[test]
fn s27_wildcard_of_an_empty_type_gets_an_empty_response() {
    let world = World::empty();
    for resource_type in [CDS, ResourceType::LISTENER] {
        let mut stream = Stream::sotw();
        stream.ask(&resource_type, &[]);
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources.len(), reply.type_url.as_str()),
            (0, resource_type.type_url())
        );
        stream.silent(&world);
    }
}

#[test]
fn s28_nonces_are_unique_per_stream() {
    let mut world = World::of(&CDS, &["A=1"]);
    world.set(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.ask(&EDS, &["A"]);
    let mut nonces: Vec<_> = stream.drain(&world).into_iter().map(|r| r.nonce).collect();
    // The same content again, at the same revision.
    stream.ask(&EDS, &[]);
    stream.ask(&EDS, &["A"]);
    nonces.push(stream.take(&world).nonce);
    assert_eq!(nonces.len(), 3);
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 3);
}

#[test]
fn s29_equal_content_has_equal_versions() {
    let version = |world: &World, names: &[&str]| {
        let mut stream = Stream::sotw();
        stream.ask(&CDS, names);
        stream.take(world).version
    };
    let one = World::of(&CDS, &["A=1", "B=2"]);
    let mut other = World::of(&CDS, &["B=1"]);
    other.set(&CDS, &["C=1", "A=1"]);
    other.set(&CDS, &["-C", "B=2"]);
    for names in [&[][..], &["A"], &["A", "B"]] {
        assert_eq!(version(&one, names), version(&other, names));
    }
    other.set(&CDS, &["B=3"]);
    assert_ne!(version(&one, &[]), version(&other, &[]));
}

#[test]
fn change_reverted_before_it_is_sent_gets_no_response() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=2"]);
    world.set(&CDS, &["A=1"]);
    stream.silent(&world);
}

#[test]
fn revert_is_sent_to_a_client_with_the_new_content() {
    for (resource_type, names) in [(CDS, vec![]), (CDS, vec!["A"]), (EDS, vec!["A"])] {
        let mut world = World::of(&resource_type, &["A=1"]);
        let mut stream = synced(&world, &resource_type, &names);
        world.set(&resource_type, &["A=2"]);
        stream.take(&world);
        world.set(&resource_type, &["A=1"]);
        assert_eq!(
            stream.take(&world).resources,
            ["A=1"],
            "{resource_type} {names:?}"
        );
    }
}

#[test]
fn changes_coalesce_behind_the_outstanding_response() {
    let mut world = World::of(&EDS, &["A=0", "B=0"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    world.set(&EDS, &["A=1"]);
    let first = stream.reply(&world);
    for n in 2..50 {
        world.set(&EDS, &[&format!("A={n}"), &format!("B={n}")]);
        stream.silent(&world);
    }
    stream.ack(&first);
    assert_eq!(stream.take(&world).resources, ["A=49", "B=49"]);
}
