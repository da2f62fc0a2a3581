//! Names in requests, and the responses to them: S-30 … S-41.

use oxds_types::ResourceType;

use super::{CDS, EDS, has, synced};
use crate::support::{Stream, World};

#[test]
fn s30_first_request_without_names_gets_all_resources() {
    let world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    let reply = stream.take(&world);
    assert_eq!(reply.resources, ["A=1", "B=1", "C=1"]);
    assert_eq!(reply.names, has(&["A=1", "B=1", "C=1"]));
    assert!(!reply.nonce.is_empty());
    stream.silent(&world);
}

/// Given Envoy with on-demand virtual hosts, when a name does not exist, then a resource without a body has the name as
/// its alias. Envoy waits for the alias.
#[test]
fn s34_missing_virtual_host_is_reported_by_alias() {
    let vhds = ResourceType::VIRTUAL_HOST;
    let mut world = World::of(&vhds, &["routes/a=1"]);
    let mut stream = Stream::delta();
    stream.change(&vhds, &["routes/a", "routes/b"], &[]);
    let reply = stream.take(&world);
    assert_eq!(reply.resources, ["routes/a=1"]);
    assert_eq!(reply.unresolved, ["routes/b"]);
    stream.silent(&world);
    world.set(&vhds, &["routes/b=1"]);
    assert_eq!(stream.take(&world).resources, ["routes/b=1"]);
    world.set(&vhds, &["-routes/a"]);
    assert_eq!(stream.take(&world).unresolved, ["routes/a"]);
}

#[test]
fn s31_empty_wildcard_gets_empty_response() {
    let world = World::empty();
    for names in [&[][..], &["*"]] {
        let mut stream = Stream::delta();
        stream.change(&CDS, names, &[]);
        let reply = stream.take(&world);
        assert!(reply.resources.is_empty() && reply.removed.is_empty());
        stream.silent(&world);
    }
}

#[test]
fn s32_only_changed_resources_are_sent() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=1"]);
        let mut stream = synced(&world, &CDS, names);
        world.set(&CDS, &["A=2"]);
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources, reply.removed),
            (vec!["A=2".into()], vec![])
        );
        stream.silent(&world);
    }
}

#[test]
fn s33_deleted_resource_is_removed_and_can_return() {
    for (resource_type, names) in [(CDS, vec![]), (EDS, vec!["A", "B"])] {
        let mut world = World::of(&resource_type, &["A=1", "B=1"]);
        let mut stream = synced(&world, &resource_type, &names);
        world.set(&resource_type, &["-B"]);
        let reply = stream.take(&world);
        assert_eq!((reply.resources, reply.removed), (vec![], vec!["B".into()]));
        world.set(&resource_type, &["B=1"]);
        assert_eq!(stream.take(&world).names, has(&["B=1"]));
    }
}

#[test]
fn s34_missing_name_is_removed_and_sent_when_created() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A", "Z"], &[]);
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["A=1".into()], vec!["Z".into()])
    );
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s35_name_subscribed_again_is_sent_again() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.change(&EDS, &["A"], &[]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
    let mut stream = synced(&World::of(&CDS, &["A=1", "B=1"]), &CDS, &["*"]);
    let world = World::of(&CDS, &["A=1", "B=1"]);
    stream.change(&CDS, &["A"], &[]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1"],
        "a name beside the wildcard"
    );
}

/// The resources that the wildcard got are sent again, and missing names are reported again.
#[test]
fn s35_name_that_replaces_the_wildcard_is_sent_again() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    for first in [&[][..], &["*"]] {
        let mut stream = synced(&world, &CDS, first);
        stream.change(&CDS, &["A", "Z"], &["*"]);
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources, reply.removed),
            (vec!["A=1".into()], vec!["Z".into()])
        );
        stream.change(&CDS, &["Z"], &[]);
        assert_eq!(stream.take(&world).removed, ["Z"]);
    }
}

#[test]
fn s36_wildcard_subscribed_again_gets_all_resources() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    for first in [&[][..], &["*"]] {
        let mut stream = synced(&world, &CDS, first);
        stream.change(&CDS, &["*"], &[]);
        assert_eq!(stream.take(&world).resources, ["A=1", "B=1"]);
        stream.silent(&world);
    }
}

#[test]
fn s37_unsubscribed_names_get_no_response() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.change(&EDS, &[], &["B"]);
    stream.silent(&world);
    world.set(&EDS, &["B=2"]);
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

#[test]
fn s38_unsubscribing_an_unknown_name_gets_no_response() {
    let world = World::of(&EDS, &["A=1", "Q=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    stream.change(&EDS, &[], &["Q"]);
    stream.silent(&world);
}

#[test]
fn s39_unsubscribed_name_beside_wildcard_gets_its_state() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &["*", "A", "Z"]);
    stream.change(&CDS, &[], &["A"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1"],
        "the wildcard still has it"
    );
    stream.change(&CDS, &[], &["Z"]);
    assert_eq!(stream.take(&world).removed, ["Z"]);
}

#[test]
fn s40_legacy_wildcard_then_name_then_no_names() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    stream.change(&CDS, &["A"], &[]);
    stream.drain(&world);
    world.set(&CDS, &["A=2", "B=2"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=2", "B=2"],
        "wildcard and A"
    );
    stream.change(&CDS, &[], &["*"]);
    stream.silent(&world);
    world.set(&CDS, &["A=3", "B=3"]);
    assert_eq!(stream.take(&world).resources, ["A=3"], "A only");
    stream.change(&CDS, &[], &["A"]);
    world.set(&CDS, &["A=4", "B=4", "C=4"]);
    stream.silent(&world);
}

#[test]
fn s41_subscribe_and_unsubscribe_of_wildcard_is_no_wildcard() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &["*"], &["*"]);
    stream.silent(&world);
    world.set(&CDS, &["A=2"]);
    stream.silent(&world);
}
