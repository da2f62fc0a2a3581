//! State of the world: S-1 … S-29.

use std::time::Duration;

use oxds_core::session::{Event, Interest};
use oxds_types::Kind;

use crate::support::{
    Stream, World,
    stream::{node, sotw},
};

const CDS: Kind = Kind::CLUSTER;
const EDS: Kind = Kind::ENDPOINT;

/// A stream that is in sync with the world, all of one kind or some names of it.
fn synced(world: &World, kind: &Kind, names: &[&str]) -> Stream {
    let mut stream = Stream::sotw();
    stream.ask(kind, names);
    stream.drain(world);
    stream
}

#[test]
fn s1_a_first_request_without_names_gets_all() {
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
fn s2_an_ack_is_followed_by_nothing() {
    let world = World::of(&CDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.take(&world);
    stream.silent(&world);
    stream.pass(Duration::from_secs(3600));
    stream.silent(&world);
}

#[test]
fn s3_s4_s5_any_change_of_a_wildcard_yields_the_full_state() {
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
fn s6_named_clusters_come_all_together() {
    let mut world = World::of(&CDS, &["A=1", "B=1", "C=1", "D=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &["B", "D"]);
    assert_eq!(stream.take(&world).resources, ["B=1", "D=1"]);
    world.set(&CDS, &["B=2"]);
    assert_eq!(stream.take(&world).resources, ["B=2", "D=1"]);
    world.set(&CDS, &["-D"]);
    assert_eq!(stream.take(&world).resources, ["B=2"], "absence is removal");
    world.set(&CDS, &["A=2"]);
    stream.silent(&world);
}

#[test]
fn s7_named_assignments_come_as_they_change() {
    for kind in [Kind::ENDPOINT, Kind::ROUTE] {
        let mut world = World::of(&kind, &["A=1", "B=1", "C=1", "D=1"]);
        let mut stream = Stream::sotw();
        stream.ask(&kind, &["B", "D"]);
        assert_eq!(stream.take(&world).resources, ["B=1", "D=1"]);
        world.set(&kind, &["B=2", "A=2"]);
        assert_eq!(stream.take(&world).resources, ["B=2"]);
    }
}

#[test]
fn s8_a_name_that_does_not_exist_comes_when_it_does() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A", "Z"]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s8_of_names_that_do_not_exist_there_is_nothing_to_say() {
    let mut world = World::empty();
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["Z"]);
    stream.silent(&world);
    world.set(&EDS, &["Z=1"]);
    assert_eq!(stream.take(&world).resources, ["Z=1"]);
}

#[test]
fn s9_an_added_name_is_sent_though_no_version_changed() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    stream.ask(&EDS, &["A", "B"]);
    assert_eq!(stream.take(&world).resources, ["B=1"]);
}

#[test]
fn s10_a_name_that_left_and_came_back_is_sent_again() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A", "B"]);
    stream.ask(&EDS, &["B"]);
    stream.silent(&world);
    stream.ask(&EDS, &["A", "B"]);
    assert_eq!(stream.take(&world).resources, ["A=1"]);
}

#[test]
fn s11_other_names_change_unnoticed() {
    let mut world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["B=2"]);
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2"]);
}

#[test]
fn s12_no_names_any_more_is_no_subscription_any_more() {
    for kind in [CDS, EDS] {
        let mut world = World::of(&kind, &["A=1"]);
        let mut stream = synced(&world, &kind, &["A"]);
        stream.ask(&kind, &[]);
        stream.silent(&world);
        world.set(&kind, &["A=2", "B=1"]);
        stream.silent(&world);
        let unwatched = Event::Unwatched(kind.clone(), vec![Interest::Name("A".into())]);
        assert!(stream.events().contains(&unwatched));
    }
}

#[test]
fn s13_the_legacy_wildcard_ends_with_the_first_names() {
    let mut world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    stream.ask(&CDS, &["*", "A"]);
    stream.drain(&world);
    world.set(&CDS, &["B=2"]);
    assert_eq!(
        stream.take(&world).resources,
        ["A=1", "B=2"],
        "still everything"
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
fn s14_names_first_and_none_later_is_not_everything() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut stream = synced(&world, &CDS, &["A"]);
    stream.ask(&CDS, &[]);
    stream.silent(&world);
}

#[test]
fn s15_a_stale_nonce_with_the_same_names_gets_nothing() {
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
        "the second is unanswered"
    );
}

#[test]
fn s16_a_stale_nonce_with_new_names_is_served_at_once() {
    let mut world = World::of(&EDS, &["A=1", "C=1"]);
    let mut stream = synced(&world, &EDS, &["A"]);
    world.set(&EDS, &["A=2"]);
    // The client asks for C while A is on its way to it.
    let mut request = sotw(&EDS, &["A", "C"]);
    request.response_nonce = "1".into();
    let in_flight = stream.reply(&world);
    stream.will_ask(&EDS, &["A", "C"]);
    stream.send(request);
    let reply = stream.reply(&world);
    assert_eq!(reply.resources, ["C=1"]);
    // Both answers count.
    stream.ack(&in_flight);
    stream.ack(&reply);
    stream.silent(&world);
    assert!(stream.session.is_in_sync(&world.snapshot));
}

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
        &*status.rejected.as_ref().unwrap().reason,
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
        (status.rejected, status.sent),
        (None, status.acked),
        "an ACK clears the error"
    );
}

#[test]
fn s17_the_first_response_rejected_is_not_repeated_either() {
    for kind in [CDS, EDS] {
        let world = World::of(&kind, &["A=bad"]);
        let mut stream = Stream::sotw();
        stream.ask(&kind, &["A"]);
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
        stream.session.rejections(&CDS).count(),
        2,
        "an ACK of the rest changes nothing"
    );
    assert_eq!(
        stream.session.resource_status(&CDS, "D").unwrap().acked,
        None
    );
    world.set(&CDS, &["B=2", "D=2"]);
    assert_eq!(stream.take(&world).resources, ["A=2", "B=2", "C=1", "D=2"]);
    assert_eq!(stream.session.rejections(&CDS).count(), 0);
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
        assert_eq!(stream.session.rejections(&CDS).count(), 1);
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
    let world = World::of(&EDS, &["A=bad", "B=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let bad = stream.reply(&world);
    stream.will_ask(&EDS, &["A", "B"]);
    stream.nack(&bad, "A is bad");
    assert_eq!(stream.take(&world).resources, ["B=1"]);
    stream.silent(&world);
}

#[test]
fn s21_of_two_requests_before_a_reply_the_latest_counts() {
    let world = World::of(&EDS, &["A=1", "B=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    stream.ask(&EDS, &["B"]);
    assert_eq!(stream.reply(&world).resources, ["B=1"]);
}

#[test]
fn s22_the_node_is_that_of_the_first_message() {
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
fn s23_kinds_do_not_touch_each_other() {
    let mut world = World::of(&CDS, &["A=1"]);
    world.set(&EDS, &["A=other"]);
    let mut stream = Stream::sotw();
    stream.ask(&CDS, &[]);
    stream.ask(&EDS, &["A"]);
    let replies = stream.poll(&world);
    assert_eq!(
        replies
            .iter()
            .map(crate::support::stream::Reply::kind)
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
fn s24_a_wildcard_that_is_up_to_date_needs_no_answer() {
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
fn s24_a_part_of_the_kind_has_another_version_than_the_whole() {
    let world = World::of(&CDS, &["A=1", "B=1"]);
    let mut named = Stream::sotw();
    named.ask(&CDS, &["A"]);
    let version = named.take(&world).version;
    let mut wildcard = Stream::sotw();
    wildcard.ask_again(&CDS, &[], &version);
    assert_eq!(wildcard.take(&world).resources, ["A=1", "B=1"]);
}

#[test]
fn s25_names_are_answered_after_a_reconnect_at_the_same_version() {
    let world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::sotw();
    stream.ask(&EDS, &["A"]);
    let version = stream.take(&world).version;
    let mut again = Stream::sotw();
    again.ask_again(&EDS, &["A"], &version);
    assert_eq!(again.take(&world).resources, ["A=1"]);
}

#[test]
fn s26_a_request_before_any_data_is_answered_when_there_is_some() {
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
        "though the version is the same"
    );
}

#[test]
fn s27_of_a_kind_without_data_a_wildcard_hears_so() {
    let world = World::empty();
    for kind in [CDS, Kind::LISTENER] {
        let mut stream = Stream::sotw();
        stream.ask(&kind, &[]);
        let reply = stream.take(&world);
        assert_eq!(
            (reply.resources.len(), reply.type_url.as_str()),
            (0, kind.type_url())
        );
        stream.silent(&world);
    }
}

#[test]
fn s28_nonces_are_unique_on_the_stream() {
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
fn s29_equal_content_has_equal_versions_whatever_the_way_there() {
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
fn a_change_that_is_taken_back_before_it_is_sent_is_no_change() {
    let mut world = World::of(&CDS, &["A=1"]);
    let mut stream = synced(&world, &CDS, &[]);
    world.set(&CDS, &["A=2"]);
    world.set(&CDS, &["A=1"]);
    stream.silent(&world);
}

#[test]
fn a_revert_brings_the_old_content_to_a_client_that_has_the_new() {
    for (kind, names) in [(CDS, vec![]), (CDS, vec!["A"]), (EDS, vec!["A"])] {
        let mut world = World::of(&kind, &["A=1"]);
        let mut stream = synced(&world, &kind, &names);
        world.set(&kind, &["A=2"]);
        stream.take(&world);
        world.set(&kind, &["A=1"]);
        assert_eq!(stream.take(&world).resources, ["A=1"], "{kind} {names:?}");
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
