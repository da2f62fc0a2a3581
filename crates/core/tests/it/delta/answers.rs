//! ACKs, NACKs and nonces: S-44 … S-48.

use std::time::Duration;

use oxds_core::session::Event;

use super::{CDS, EDS, synced};
use crate::support::{Stream, World, stream::delta};

#[test]
fn s44_stale_nonce_does_not_delay_a_subscription() {
    let mut world = World::of(&EDS, &["A=1", "C=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    let in_flight = stream.reply(&world);
    let mut request = delta(&EDS, &["C"], &[]);
    request.response_nonce = "999".into();
    stream.send(request);
    let reply = stream.reply(&world);
    assert_eq!(reply.resources, ["C=1"]);
    assert!(stream.events().contains(&Event::StaleNonce(EDS)));
    stream.ack(&in_flight);
    stream.ack(&reply);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

/// Given a client that answers each response only after the next change, so that it never has answered everything, then
/// what it has answered advances with each answer, and not before.
#[test]
fn g37_answers_count_while_changes_go_on() {
    for (resource_type, names) in [(CDS, vec![]), (EDS, vec!["A", "B"])] {
        let mut world = World::of(&resource_type, &["A=0", "B=0"]);
        let mut stream = synced(&world, &resource_type, &names);
        world.set(&resource_type, &["A=1"]);
        let mut outstanding = stream.reply(&world);
        for n in 2..6 {
            let sent = world.snapshot.revision();
            world.set(&resource_type, &[&format!("A={n}")]);
            let through = |stream: &Stream| stream.session.answered_through(&world.snapshot);
            assert!(through(&stream).is_none_or(|through| through < sent));
            stream.ack(&outstanding);
            assert_eq!(through(&stream), Some(sent), "{resource_type} {n}");
            assert!(!stream.session.has_answered_all(&world.snapshot));
            outstanding = stream.reply(&world);
        }
        stream.ack(&outstanding);
        let all = stream.session.answered_through(&world.snapshot);
        assert_eq!(all, Some(world.snapshot.revision()));
    }
}

#[test]
fn s45_nack_can_subscribe_too() {
    let world = World::of(&EDS, &["A=bad", "D=1"]);
    let mut stream = Stream::delta();
    stream.change(&EDS, &["A"], &[]);
    let bad = stream.reply(&world);
    let mut request = delta(&EDS, &["D"], &[]);
    request.response_nonce.clone_from(&bad.nonce);
    request.error_detail = Some(Default::default());
    stream.send(request);
    assert_eq!(stream.take(&world).resources, ["D=1"]);
    let rejected: Vec<_> = stream
        .session
        .nacked_resources(&EDS)
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(rejected, ["A"]);
}

#[test]
fn s46_nacked_resource_is_sent_again_after_a_change() {
    for (resource_type, names) in [(CDS, vec![]), (EDS, vec!["A", "B"])] {
        let mut world = World::of(&resource_type, &["A=1", "B=1"]);
        let mut stream = synced(&world, &resource_type, &names);
        world.set(&resource_type, &["A=2"]);
        let bad = stream.reply(&world);
        stream.nack(&bad, "A is bad");
        stream.silent(&world);
        world.set(&resource_type, &["B=2"]);
        assert_eq!(
            stream.take(&world).resources,
            ["B=2"],
            "{resource_type}: A is omitted"
        );
        let status = stream.session.resource_status(&resource_type, "A").unwrap();
        assert!(status.nacked.is_some() && status.acked.is_some());
        world.set(&resource_type, &["A=3"]);
        assert_eq!(stream.take(&world).resources, ["A=3"]);
        assert_eq!(stream.session.nacked_resources(&resource_type).count(), 0);
    }
}

#[test]
fn nacked_resource_is_sent_once_per_content() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=poison"]);
    let bad = stream.reply(&world);
    stream.nack(&bad, "A");
    let mut sent = 0;
    for n in 0..10 {
        // A is reverted and set again between two polls, and B changes each time.
        world.set(&CDS, &["A=1"]);
        world.set(&CDS, &["A=poison", &format!("B={n}")]);
        for reply in stream.drain(&world) {
            sent += reply
                .resources
                .iter()
                .filter(|text| *text == "A=poison")
                .count();
        }
        stream.pass(Duration::from_secs(60));
    }
    assert_eq!(sent, 0);
}

#[test]
fn s47_unknown_nonce_is_ignored() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    for nonce in ["", "foreign", "77"] {
        let mut request = delta(&CDS, &[], &[]);
        request.response_nonce = nonce.into();
        stream.send(request);
        stream.silent(&world);
    }
    let mut request = delta(&CDS, &[], &[]);
    request.response_nonce = "77".into();
    request.error_detail = Some(Default::default());
    stream.send(request);
    assert_eq!(
        stream.session.status()[0].nacks,
        0,
        "the nonce is not one that was sent"
    );
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s48_request_without_nonce_does_not_affect_a_later_ack() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    let first = stream.reply(&world);
    stream.change(&EDS, &["B"], &[]);
    let second = stream.reply(&world);
    stream.ack(&first);
    let status = stream.session.resource_status(&EDS, "A").unwrap();
    assert_eq!(status.sent, status.acked);
    stream.ack(&second);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn session_without_acks_has_constant_memory() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.change(&CDS, &[], &[]);
    stream.reply(&world);
    let footprint = {
        stream.events();
        stream.session.footprint()
    };
    for n in 0..1000 {
        world.set(&CDS, &[&format!("A={n}"), &format!("N{n}=1")]);
        stream.silent(&world);
    }
    assert_eq!(stream.session.footprint(), footprint);
}
