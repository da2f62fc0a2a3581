//! Names in requests, and the responses to them: S-1 … S-16, S-21.

use std::time::Duration;

use oxds_core::session::{Event, Interest};
use oxds_types::ResourceType;

use super::{CDS, EDS, synced};
use crate::support::{Stream, World, stream::sotw};

#[test]
fn s1_first_request_without_names_gets_all_resources() {
    let world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    let reply = stream.reply(&world);
    assert_eq!(reply.resources, ["A=1", "B=1", "C=1"]);
    assert_eq!(reply.type_url, CDS.type_url());
    assert!(!reply.version.is_empty() && reply.version.len() <= 16);
    assert!(!reply.nonce.is_empty());
    assert_eq!(stream.events(), [Event::Watched(CDS, vec![Interest::All])]);
}

#[test]
fn s2_ack_gets_no_response() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.take(&world);
    stream.silent(&world);
    stream.pass(Duration::from_secs(3600));
    stream.silent(&world);
}

#[test]
fn s3_s4_s5_wildcard_gets_all_resources_on_any_change() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "B=1", "C=1"]);
    world.set(&CDS, &["D=1"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "B=1", "C=1", "D=1"]);
    world.set(&CDS, &["-B"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "C=1", "D=1"]);
    world.set(&CDS, &["-A", "-C", "-D"]);
    assert_eq!(stream.take(&world).resources, [""; 0]);
    stream.silent(&world);
}

#[test]
fn s6_named_clusters_are_sent_together() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1", "D=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &["B", "D"]);
    assert_eq!(stream.take(&world).resources, ["B=1", "D=1"]);
    world.set(&CDS, &["B=2"]);
    assert_eq!(stream.take(&world).resources, ["B=2", "D=1"]);
    world.set(&CDS, &["-D"]);
    assert_eq!(
        stream.take(&world).resources,
        ["B=2"],
        "a missing resource was deleted"
    );
    world.set(&CDS, &["A=2"]);
    stream.silent(&world);
}

#[test]
fn s7_named_assignments_are_sent_when_they_change() {
    for resource_type in [ResourceType::ENDPOINT, ResourceType::ROUTE] {
        let mut world = World::of(&resource_type, &["A=1", "B=1", "C=1", "D=1"]);
        let mut stream = Stream::sotw();
        stream.ask(&resource_type, &["B", "D"]);
        assert_eq!(stream.take(&world).resources, ["B=1", "D=1"]);
        world.set(&resource_type, &["B=2", "A=2"]);
        assert_eq!(stream.take(&world).resources, ["B=2"]);
    }
}

#[test]
fn s8_missing_name_is_sent_when_it_is_created() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A", "Z"]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s8_unknown_names_get_no_response() {
    let mut world = World::empty();
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["Z"]);
    stream.silent(&world);
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s9_added_name_is_sent_at_the_same_version() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    stream.ask(&EDS, &["A", "B"]);
    assert_eq!(stream.take(&world).resources, ["B=1"]);
}

/// "even if it previously sent those resources without having been asked for them" (xDS protocol).
#[test]
fn s9_name_that_replaces_the_wildcard_is_sent_again() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    for first in [&[][..], &["*"]] {
        let mut stream = synced(&world, &CDS, first);
        stream.ask(&CDS, &["A"]);
        assert_eq!(stream.take(&world).resources, ["A=1"]);
        stream.silent(&world);
    }
}

#[test]
fn s10_name_unsubscribed_and_added_again_is_sent_again() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.ask(&EDS, &["B"]);
    stream.silent(&world);
    stream.ask(&EDS, &["A", "B"]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
}

#[test]
fn s11_changes_of_other_names_get_no_response() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["B=2"]);
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

#[test]
fn s12_empty_names_end_the_subscription() {
    for resource_type in [CDS, EDS] {
        let mut world = World::of(&resource_type, &["A=1"]);
        let mut stream = synced(&world, &resource_type, &["A"]);
        stream.ask(&resource_type, &[]);
        stream.silent(&world);
        world.set(&resource_type, &["A=2", "B=1"]);
        stream.silent(&world);
        let unwatched = Event::Unwatched(resource_type.clone(), vec![Interest::Name("A".into())]);
        assert!(stream.events().contains(&unwatched));
    }
}

#[test]
fn s13_names_end_the_legacy_wildcard() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    stream.ask(&CDS, &["*", "A"]);
    stream.drain(&world);
    world.set(&CDS, &["B=2"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1", "B=2"],
        "the wildcard is still in effect"
    );
    stream.ask(&CDS, &["A"]);
    stream.drain(&world);
    world.set(&CDS, &["B=3"]);
    stream.silent(&world);
    world.set(&CDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
    stream.ask(&CDS, &[]);
    world.set(&CDS, &["A=3"]);
    stream.silent(&world);
}

#[test]
fn s14_empty_names_after_names_are_not_a_wildcard() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &["A"]);
    stream.ask(&CDS, &[]);
    stream.silent(&world);
}

#[test]
fn s15_stale_nonce_with_same_names_gets_no_response() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let first = stream.take(&world);
    world.set(&EDS, &["A=2"]);
    stream.reply(&world);
    stream.ack(&first);
    stream.silent(&world);
    assert!(
        stream.session.status()[0].waiting_since.is_some(),
        "the second response has no answer yet"
    );
}

#[test]
fn s16_stale_nonce_with_new_names_gets_them_at_once() {
    let mut world = World::of(&EDS, &["A=1", "C=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    // The client subscribes to C while A is in flight.
    let mut request = sotw(&EDS, &["A", "C"]);
    request.response_nonce = "1".into();
    let in_flight = stream.reply(&world);
    stream.will_ask(&EDS, &["A", "C"]);
    stream.send(request);
    let reply = stream.reply(&world);
    assert_eq!(reply.resources, ["C=1"]);
    // Both ACKs count.
    stream.ack(&in_flight);
    stream.ack(&reply);
    stream.silent(&world);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

#[test]
fn s21_latest_of_two_requests_before_a_response_counts() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    stream.ask(&EDS, &["B"]);
    assert_eq!(stream.reply(&world).resources, ["B=1"]);
}
