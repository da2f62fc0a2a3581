//! Sequences that the property found, one test each.

use super::{Op, WHOLE, play};

/// A full state with a bad cluster is in flight when that cluster is removed and another is added.
#[test]
fn late_nack_of_removed_resource_blocks_nothing() {
    play(&[
        Op::Stall,
        Op::Watch(false, 0),
        Op::Watch(true, 3),
        Op::Cluster(3, Some(3)),
        Op::Assignment(0, Some(0)),
        Op::Pass(20),
        Op::Cluster(3, None),
        Op::Watch(true, 0),
        Op::Cluster(0, Some(0)),
        Op::Cluster(0, Some(0)),
    ]);
}

/// The client uses c1 of a response that it NACKs for c3. c1 is bad before the next response: the client keeps its
/// copy.
#[test]
fn s80_copy_from_a_nacked_response_stays_in_use() {
    play(&[
        Op::Watch(true, 3),
        Op::Stall,
        Op::Cluster(1, Some(0)),
        Op::Cluster(3, Some(3)),
        Op::Watch(true, 1),
        Op::Pass(20),
        Op::Cluster(1, Some(3)),
    ]);
}

/// A resource with a TTL is replaced by content that the client NACKs.
#[test]
fn s49_copy_in_use_after_nack_is_confirmed() {
    play(&[
        Op::Watch(true, 2),
        Op::Cluster(2, Some(2)),
        Op::Pass(20),
        Op::Cluster(2, Some(3)),
    ]);
}

/// A wildcard response is in flight when the client changes to a subscription by name.
#[test]
fn s49_resource_from_wildcard_is_confirmed_by_name() {
    play(&[
        Op::Watch(true, WHOLE),
        Op::Watch(true, 1),
        Op::Pass(41),
        Op::Unwatch(true, WHOLE),
        Op::Cluster(1, Some(2)),
    ]);
}

/// A resource in flight by name is removed, and the client subscribes to the wildcard.
#[test]
fn removal_in_flight_is_sent_to_new_wildcard() {
    play(&[
        Op::Watch(true, 2),
        Op::Pass(60),
        Op::Cluster(2, Some(0)),
        Op::Cluster(2, None),
        Op::Stall,
        Op::Watch(true, WHOLE),
    ]);
}

/// The cluster of a removed assignment is added again after a reconnect.
#[test]
fn s54_removed_member_is_reported_if_its_cluster_changes() {
    play(&[
        Op::Watch(false, WHOLE),
        Op::Cluster(3, Some(1)),
        Op::Assignment(1, Some(0)),
        Op::Pass(40),
        Op::Assignment(1, None),
        Op::Break,
        Op::Watch(true, 3),
    ]);
}

/// Subscribed by name, then for a moment by wildcard, during which nothing is sent.
#[test]
fn s49_named_resource_is_confirmed_after_empty_wildcard() {
    play(&[
        Op::Cluster(2, Some(2)),
        Op::Watch(true, 2),
        Op::Pass(40),
        Op::Watch(true, WHOLE),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// A resource whose new version the client NACKed is removed while the client is away.
#[test]
fn c276_copy_under_nack_is_reported_on_reconnect() {
    play(&[
        Op::Watch(true, WHOLE),
        Op::Pass(60),
        Op::Stall,
        Op::Cluster(0, Some(0)),
        Op::Cluster(0, Some(3)),
        Op::Stall,
        Op::Pass(60),
        Op::Cluster(0, None),
        Op::Break,
    ]);
}

/// A name is subscribed besides the wildcard, and the wildcard ends before the name is sent.
#[test]
fn s39_name_added_just_before_wildcard_ends_is_sent() {
    play(&[
        Op::Cluster(2, Some(3)),
        Op::Watch(true, WHOLE),
        Op::Pass(40),
        Op::Watch(true, 2),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// Accepted by name, and NACKed in the first response to a wildcard.
#[test]
fn s49_named_copy_is_confirmed_after_wildcard_nack() {
    play(&[
        Op::Watch(true, 0),
        Op::Cluster(0, Some(2)),
        Op::Pass(20),
        Op::Cluster(0, Some(3)),
        Op::Watch(true, WHOLE),
    ]);
}

/// NACKed through the wildcard, then subscribed by name alone.
#[test]
fn s49_copy_under_nack_is_confirmed_after_wildcard() {
    play(&[
        Op::Cluster(1, Some(2)),
        Op::Watch(true, WHOLE),
        Op::Watch(true, 1),
        Op::Pass(20),
        Op::Cluster(1, Some(3)),
        Op::Pass(60),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// The wildcard ends while a removal is held.
#[test]
fn s52_held_removal_is_sent_after_wildcard_ends() {
    play(&[
        Op::Cluster(2, Some(0)),
        Op::Watch(true, 2),
        Op::Watch(true, WHOLE),
        Op::Watch(false, 2),
        Op::Pass(60),
        Op::Assignment(2, Some(0)),
        Op::Cluster(2, None),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// Unsubscribed and subscribed again while a resource is in flight that is removed by then.
#[test]
fn removal_in_flight_is_sent_on_resubscription() {
    for is_cluster in [true, false] {
        let set = |content| {
            if is_cluster {
                Op::Cluster(0, content)
            } else {
                Op::Assignment(0, content)
            }
        };
        play(&[
            Op::Stall,
            set(Some(0)),
            Op::Watch(is_cluster, WHOLE),
            Op::Pass(20),
            Op::Unwatch(is_cluster, WHOLE),
            Op::Watch(is_cluster, WHOLE),
            set(None),
        ]);
    }
}

/// NACKed through the wildcard, then subscribed by name too, and NACKed again.
#[test]
fn s49_copy_under_nack_is_confirmed_after_second_nack() {
    play(&[
        Op::Cluster(2, Some(2)),
        Op::Watch(true, WHOLE),
        Op::Pass(20),
        Op::Cluster(2, Some(3)),
        Op::Pass(60),
        Op::Watch(true, 2),
    ]);
}

/// Accepted through a wildcard that ended, while the next version is in flight by name.
#[test]
fn s49_resource_from_ended_wildcard_is_confirmed() {
    play(&[
        Op::Watch(true, 0),
        Op::Watch(true, WHOLE),
        Op::Pass(60),
        Op::Watch(true, 1),
        Op::Unwatch(true, WHOLE),
        Op::Cluster(0, Some(2)),
        Op::Cluster(0, Some(3)),
    ]);
}

/// A cluster that the client NACKed through the wildcard, and subscribes to by name when it leaves that.
#[test]
fn nack_by_name_after_the_wildcard_is_recorded() {
    play(&[
        Op::Cluster(3, Some(3)),
        Op::Watch(false, 0),
        Op::Watch(true, WHOLE),
        Op::Pass(60),
        Op::Unwatch(true, WHOLE),
        Op::Watch(true, 3),
        Op::Watch(true, 0),
        Op::Cluster(0, Some(0)),
        Op::Cluster(0, None),
    ]);
}

/// c2 is removed while a response with it and the bad c0 is in flight; its removal is held when the NACK makes it due
/// again.
#[test]
fn s52_held_removal_ends_after_nack_of_its_response() {
    play(&[
        Op::Cluster(0, Some(3)),
        Op::Watch(true, 0),
        Op::Cluster(2, Some(1)),
        Op::Pass(19_380),
        Op::Watch(true, 2),
        Op::Break,
        Op::Stall,
        Op::Pass(73),
        Op::Watch(true, 1),
        Op::Watch(false, 1),
        Op::Cluster(2, None),
        Op::Pass(7028),
    ]);
}

/// c0 has a TTL, and comes while the client leaves the wildcard and returns to it, beside two NACKed clusters. The
/// response to the first wildcard is answered only then; its answer says nothing about c3, whose NACK is forgotten.
#[test]
fn s49_resource_with_ttl_survives_return_to_wildcard() {
    play(&[
        Op::Watch(true, WHOLE),
        Op::Cluster(3, Some(3)),
        Op::Pass(166),
        Op::Watch(false, WHOLE),
        Op::Cluster(1, Some(3)),
        Op::Unwatch(true, WHOLE),
        Op::Cluster(0, Some(2)),
        Op::Watch(true, WHOLE),
    ]);
}

/// The wildcard ends while the part of a NACKed response that was sent again is in flight: c1, which has a TTL.
#[test]
fn s49_resource_sent_again_after_a_nack_is_confirmed_by_name() {
    play(&[
        Op::Watch(true, 1),
        Op::Watch(true, 3),
        Op::Cluster(1, Some(1)),
        Op::Pass(7732),
        Op::Cluster(3, Some(3)),
        Op::Cluster(1, Some(2)),
        Op::Watch(true, WHOLE),
        Op::Pass(43),
        Op::Unwatch(true, WHOLE),
    ]);
}
