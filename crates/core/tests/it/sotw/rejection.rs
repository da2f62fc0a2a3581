//! NACKs: S-17 … S-20.

use oxds_core::session::Event;

use super::{CDS, EDS, synced};
use crate::support::{Stream, World};

#[test]
fn s17_s18_nacked_resource_is_sent_again_after_a_change() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=bad"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "A: no such lb_policy");
    stream.silent(&world);
    let status = stream.session.resource_status(&CDS, "A").unwrap();
    assert_eq!(
        &*status.nacked.as_ref().unwrap().reason,
        "A: no such lb_policy"
    );
    assert_ne!(
        status.sent, status.acked,
        "the client continues to use the first version"
    );
    assert!(status.acked.is_some());

    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
    let status = stream.session.resource_status(&CDS, "A").unwrap();
    assert_eq!(
        (status.nacked, status.sent),
        (None, status.acked),
        "an ACK clears the error"
    );
    assert_eq!(stream.session.status()[0].nack, None);
}

#[test]
fn s17_nacked_first_response_is_not_repeated() {
    for resource_type in [CDS, EDS] {
        let world = World::of(&resource_type, &["A=bad"]);
        let mut stream = Stream::sotw();
        stream.ask(&resource_type, &["A"]);
        let bad = stream.reply(&world);
        stream.nack(&bad, "no");
        stream.silent(&world);
        assert!(!stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s17_s80_wildcard_response_omits_nacked_versions() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    // The client has another version of B, and never had D.
    world.set(&CDS, &["B=bad", "D=bad"]);
    let bad = stream.reply(&world);
    assert_eq!(bad.resources, ["A=1", "B=bad", "C=1", "D=bad"]);
    stream.nack(&bad, "cluster B: no such policy; cluster D: no such policy");
    stream.silent(&world);

    world.set(&CDS, &["A=2"]);
    let mut reply = stream.take(&world);
    reply.resources.sort();
    assert_eq!(
        reply.resources,
        ["A=2", "B=1", "C=1"],
        "the versions that the client uses"
    );
    assert_eq!(
        stream.session.nacked_resources(&CDS).count(),
        2,
        "an ACK of the other resources does not clear the NACKs"
    );
    assert_eq!(
        stream.session.resource_status(&CDS, "D").unwrap().acked,
        None
    );
    world.set(&CDS, &["B=2", "D=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "B=2", "C=1", "D=2"]);
    assert_eq!(stream.session.nacked_resources(&CDS).count(), 0);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

/// Given a first response that was NACKed because of B, when other resources change, then the responses omit B.
#[test]
fn s17_p13_resource_nacked_in_first_response_is_omitted_later() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=bad"]);
        let mut stream = Stream::sotw();
        stream.ask(&CDS, names);
        let bad = stream.reply(&world);
        assert_eq!(bad.resources, ["A=1", "B=bad"]);
        stream.nack(&bad, "cluster B: no such policy");
        for text in ["A=2", "A=3"] {
            world.set(&CDS, &[text]);
            assert_eq!(stream.take(&world).resources, [text]);
        }
        assert_eq!(stream.session.nacked_resources(&CDS).count(), 1);
        world.set(&CDS, &["B=2"]);
        assert_eq!(stream.take(&world).resources, ["A=3", "B=2"]);
        assert!(stream.session.is_in_sync(&world.snapshot));
    }
}

#[test]
fn s17_nacked_added_name_is_sent_once() {
    let mut world = World::of(&CDS, &["A=1", "B=bad"]);
    let mut stream = synced(&world, &CDS, &["A"]);
    stream.ask(&CDS, &["A", "B"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "cluster B: no such policy");
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

/// Given a client that NACKed B on an earlier stream and ACKed the rest, which its version shows, when it returns, then
/// B is sent once more.
#[test]
fn s17_returning_client_can_nack_a_missing_resource_again() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut earlier = Stream::sotw();
    earlier.ask(&CDS, &[]);
    let version = earlier.take(&world).version;
    world.set(&CDS, &["B=bad"]);
    let mut stream = Stream::sotw();
    stream.ask_again(&CDS, &[], &version);
    let bad = stream.reply(&world);
    stream.nack(&bad, "cluster B: no such policy");
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

/// Given a returning client that may use an older B, when B was NACKed, then the responses still have B: to omit B
/// would remove it, which is worse than another NACK.
#[test]
fn s17_resource_of_a_returning_client_is_not_removed() {
    for names in [&[][..], &["A", "B"]] {
        let mut world = World::of(&CDS, &["A=1", "B=bad"]);
        let mut stream = Stream::sotw();
        stream.ask_again(&CDS, names, "of another server");
        let bad = stream.reply(&world);
        stream.nack(&bad, "cluster B: no such policy");
        world.set(&CDS, &["A=2"]);
        assert_eq!(stream.take(&world).resources, ["A=2", "B=bad"]);
    }
}

#[test]
fn s17_s80_response_to_names_omits_nacked_versions() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &["A", "B"]);
    world.set(&CDS, &["B=bad"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "B is bad");
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "B=1"]);
    assert!(!stream.session.is_in_sync(&world.snapshot));
    world.set(&CDS, &["B=1"]);
    stream.drain(&world);
    assert!(
        stream.session.is_in_sync(&world.snapshot),
        "{:?}",
        stream.session.status()
    );
}

/// Given a NACK whose message names no resource, then both changed resources may be the cause, and both are sent again.
/// An ACK clears both.
#[test]
fn s18_ack_of_all_resources_clears_all_nacks() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=bad", "B=2"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "no");
    assert_eq!(stream.session.suspects(&CDS).count(), 2);
    world.set(&CDS, &["A=3"]);
    assert_eq!(stream.take(&world).resources, ["A=3", "B=2"]);
    assert_eq!(stream.session.nacked_resources(&CDS).count(), 0);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s19_error_detail_is_a_nack_at_any_version() {
    let world = World::of(&EDS, &["A=1", "B=bad"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let first = stream.take(&world);
    stream.ask(&EDS, &["A", "B"]);
    let second = stream.reply(&world);
    assert_eq!(first.version, second.version, "the server did not change");
    stream.nack(&second, "B is bad");
    let event = stream.events().pop().unwrap();
    assert!(matches!(event, Event::Nacked { resources, .. } if *resources == ["B".into()]));
    stream.silent(&world);
}

#[test]
fn s20_nack_with_added_names_gets_only_those() {
    for resource_type in [CDS, EDS] {
        let world = World::of(&resource_type, &["A=bad", "B=1"]);
        let mut stream = Stream::sotw();
        stream.ask(&resource_type, &["A"]);
        let bad = stream.reply(&world);
        stream.will_ask(&resource_type, &["A", "B"]);
        stream.nack(&bad, "A is bad");
        assert_eq!(stream.take(&world).resources, ["B=1"]);
        stream.silent(&world);
    }
}
