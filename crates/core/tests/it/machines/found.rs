//! What the property found, each once.

use super::{Op, WHOLE, play};

/// A full state with a bad cluster is under way when that cluster goes and another comes.
#[test]
fn a_rejection_that_comes_after_what_it_rejects_has_gone_holds_back_nothing_else() {
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

/// What has a TTL is replaced by something that the client refuses.
#[test]
fn s49_what_serves_on_after_a_rejection_lives_on() {
    play(&[
        Op::Watch(true, 2),
        Op::Cluster(2, Some(2)),
        Op::Pass(20),
        Op::Cluster(2, Some(3)),
    ]);
}

/// What was on its way to everybody who asks for everything is accepted by one that asks for it by
/// name by then.
#[test]
fn s49_what_a_wildcard_brought_lives_on_by_name() {
    play(&[
        Op::Watch(true, WHOLE),
        Op::Watch(true, 1),
        Op::Pass(41),
        Op::Unwatch(true, WHOLE),
        Op::Cluster(1, Some(2)),
    ]);
}

/// What has gone while it was on its way by name is not part of all that there is.
#[test]
fn what_has_gone_is_told_to_one_that_asks_for_everything_since() {
    play(&[
        Op::Watch(true, 2),
        Op::Pass(60),
        Op::Cluster(2, Some(0)),
        Op::Cluster(2, None),
        Op::Stall,
        Op::Watch(true, WHOLE),
    ]);
}

/// The cluster of an assignment that has gone meanwhile comes anew, after a reconnect.
#[test]
fn s54_what_is_gone_of_a_collection_is_told_though_its_cluster_changes() {
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

/// Asked for by name, then with everything for a moment in which nothing was sent.
#[test]
fn s49_what_was_accepted_by_name_lives_on_after_a_wildcard_that_brought_nothing() {
    play(&[
        Op::Cluster(2, Some(2)),
        Op::Watch(true, 2),
        Op::Pass(40),
        Op::Watch(true, WHOLE),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// What the client has of everything, and refused in another version, is gone when it comes back.
#[test]
fn c276_what_is_held_under_a_refusal_is_named_after_a_reconnect() {
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

/// Named besides the wildcard, and before it was sent, instead of it.
#[test]
fn s39_what_is_named_just_before_the_wildcard_ends_is_sent() {
    play(&[
        Op::Cluster(2, Some(3)),
        Op::Watch(true, WHOLE),
        Op::Pass(40),
        Op::Watch(true, 2),
        Op::Unwatch(true, WHOLE),
    ]);
}

/// Accepted by name, and refused in the first that the wildcard brings.
#[test]
fn s49_what_was_accepted_by_name_lives_on_under_a_refusal() {
    play(&[
        Op::Watch(true, 0),
        Op::Cluster(0, Some(2)),
        Op::Pass(20),
        Op::Cluster(0, Some(3)),
        Op::Watch(true, WHOLE),
    ]);
}

/// Refused through the wildcard, then asked for by name alone.
#[test]
fn s49_what_lives_on_under_a_refusal_does_so_after_the_wildcard() {
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

/// The wildcard ends while a removal waits.
#[test]
fn s52_a_removal_that_waited_is_told_after_the_wildcard() {
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

/// Let go of, and asked for again, while a part of it is under way that is gone by then.
#[test]
fn what_is_under_way_of_many_and_has_gone_is_told_when_they_are_asked_for_again() {
    for is_cluster in [true, false] {
        let set = |content| match is_cluster {
            true => Op::Cluster(0, content),
            false => Op::Assignment(0, content),
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

/// Refused through the wildcard, then asked for by name too, and refused again.
#[test]
fn s49_what_lives_on_under_a_refusal_does_so_when_it_is_refused_again() {
    play(&[
        Op::Cluster(2, Some(2)),
        Op::Watch(true, WHOLE),
        Op::Pass(20),
        Op::Cluster(2, Some(3)),
        Op::Pass(60),
        Op::Watch(true, 2),
    ]);
}

/// Accepted through a wildcard that has ended, when the next version is under way by name.
#[test]
fn s49_what_was_accepted_through_a_wildcard_lives_on_after_it() {
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
