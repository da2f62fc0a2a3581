//! What a client rejects: S-17 … S-20.

use oxds_core::session::Event;

use super::{CDS, EDS, synced};
use crate::support::{Stream, World};

#[test]
fn s17_s18_what_was_rejected_waits_for_a_change() {
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
        "the client goes on with the first one"
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
fn s17_the_first_response_rejected_is_not_repeated_either() {
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
fn s17_s80_a_full_state_leaves_out_what_was_rejected() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    // One that the client has in another version, one that it never had.
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
        "what the client goes on with"
    );
    assert_eq!(
        stream.session.nacked_resources(&CDS).count(),
        2,
        "an ACK of the rest changes nothing"
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

/// The first response of a stream is refused for the sake of B: later ones, which go out for the sake of others, do
/// not bring B again.
#[test]
fn s17_p13_what_the_first_response_was_refused_for_stays_out_of_later_ones() {
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
fn s17_a_name_that_is_new_to_the_client_is_refused_once() {
    let mut world = World::of(&CDS, &["A=1", "B=bad"]);
    let mut stream = synced(&world, &CDS, &["A"]);
    stream.ask(&CDS, &["A", "B"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "cluster B: no such policy");
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

/// The client refused B on an earlier stream and accepted the rest: its version says so.
#[test]
fn s17_a_client_that_comes_back_without_it_refuses_it_once_more() {
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

/// It may have a copy of B that still serves. Leaving B out would remove it: worse than refusing it again.
#[test]
fn s17_what_a_returning_client_may_have_is_not_taken_from_it() {
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
fn s17_s80_a_named_full_state_leaves_out_what_was_rejected() {
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

/// The message names nobody, so both changes are suspects, and stay in the full state. Once that is accepted as a
/// whole, nothing in it is refused any more.
#[test]
fn s18_who_accepts_a_full_state_refuses_nothing_of_it() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=bad", "B=2"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "no");
    assert_eq!(stream.session.nacked_resources(&CDS).count(), 2);
    world.set(&CDS, &["A=3"]);
    assert_eq!(stream.take(&world).resources, ["A=3", "B=2"]);
    assert_eq!(stream.session.nacked_resources(&CDS).count(), 0);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s19_an_error_is_a_rejection_whatever_the_version() {
    let world = World::of(&EDS, &["A=1", "B=bad"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let first = stream.take(&world);
    stream.ask(&EDS, &["A", "B"]);
    let second = stream.reply(&world);
    assert_eq!(
        first.version, second.version,
        "nothing changed at the server"
    );
    stream.nack(&second, "B is bad");
    let event = stream.events().pop().unwrap();
    assert!(matches!(event, Event::Nacked { resources, .. } if *resources == ["B".into()]));
    stream.silent(&world);
}

#[test]
fn s20_a_rejection_with_added_names_gets_only_those() {
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
