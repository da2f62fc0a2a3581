//! Faults of watches (G-21): each leads to the published state, at the latest with the next head, and never to another
//! one. The world checks after each update that the state was published.

use oxds_etcd::follower::{Notice, ReadReason};

use super::cluster::{FAULTS, Fault, Member};
use super::world::World;
use super::writer::{entry, lane};

/// Publishes twice under a fault, and then once without one.
fn play(fault: Fault, large: bool) -> World {
    let mut world = World::serving(&[
        ("a", Some(1)),
        ("b", Some(1)),
        ("edge:", Some(1)),
        ("edge:a", Some(1)),
    ]);
    // Given some history that can come again.
    for content in 2..5 {
        world.publish(&[("a", Some(content)), ("c", Some(content))]);
        world.drive();
    }
    world.disconnect();
    let first = [("a", Some(7)), ("b", None), ("edge:a", None)];
    let second = [("b", Some(8)), ("c", None), ("d", Some(8))];
    world.write("main", |writer, etcd| {
        if large {
            writer.stage(etcd, &first);
            writer.finish(etcd);
            writer.stage(etcd, &second);
            writer.move_one(etcd);
        } else {
            writer.publish(etcd, &first);
            writer.publish(etcd, &second);
        }
    });
    // When the events of both come under the fault.
    world.fault = Some(fault);
    world.drive();
    assert_eq!(world.fault, None, "it took effect");
    // And the next head comes.
    world.write("main", |writer, etcd| {
        writer.finish(etcd);
        writer.publish(etcd, &[("e", Some(9))]);
    });
    world.drive();
    world
}

fn check(fault: Fault) -> World {
    play(fault, true).check_after_fault();
    let world = play(fault, false);
    world.check_after_fault();
    world
}

impl World {
    fn check_after_fault(&self) {
        self.check_current();
        assert!(self.follower.is_ready());
        let history = self.history();
        assert!(history.is_sorted_by(|a, b| a < b), "in order: {history:?}");
    }

    fn reasons(&self) -> Vec<&ReadReason> {
        let reasons = self.notices.iter().filter_map(|notice| match notice {
            Notice::Reading(reason) => Some(reason),
            _ => None,
        });
        reasons.skip(1).collect()
    }
}

#[test]
fn g21_doubled_events_change_nothing() {
    let world = check(Fault::Duplicate);
    assert_eq!(world.complete_reads(), 1, "{:?}", world.notices);
}

#[test]
fn g21_lost_response_is_found_with_the_next_head() {
    let world = check(Fault::Drop);
    let other = ReadReason::OtherHistory(lane("main"));
    assert_eq!(world.reasons(), [&other]);
}

#[test]
fn g21_lost_events_of_heads_are_found_with_the_next_head() {
    check(Fault::DropHead);
}

#[test]
fn g21_reordered_responses_are_found() {
    let world = check(Fault::Reorder);
    assert!(!world.reasons().is_empty());
}

#[test]
fn g21_split_revision_is_not_served_in_part() {
    check(Fault::Split);
}

#[test]
fn g21_delayed_response_is_found() {
    let world = check(Fault::Delay);
    assert!(!world.reasons().is_empty());
}

#[test]
fn g21_events_of_earlier_revisions_are_ignored() {
    let world = check(Fault::Back);
    assert_eq!(world.complete_reads(), 1, "{:?}", world.notices);
    let is_disorder = |notice: &Notice| matches!(notice, Notice::Disorder { .. });
    assert!(world.notices.iter().any(is_disorder));
}

#[test]
fn g21_false_progress_is_found_with_the_next_head() {
    let world = check(Fault::FalseProgress);
    assert!(!world.reasons().is_empty());
}

#[test]
fn g21_events_after_their_progress_are_taken() {
    check(Fault::EarlyProgress);
    // While no read of the heads is compared, nothing has to be read again.
    let mut world = World::serving(&[("a", Some(1))]);
    world.publish(&[("a", Some(2))]);
    world.publish(&[("a", None)]);
    world.fault = Some(Fault::EarlyProgress);
    world.drive();
    assert_eq!(world.history(), [1, 2, 3]);
    assert_eq!(world.complete_reads(), 1, "{:?}", world.notices);
}

#[test]
fn g21_omitted_deletion_is_found_with_its_head() {
    // Given a publish that removes an entry, and loses only the event of that.
    let world = check(Fault::OmitDelete);
    assert!(!world.served.contains_key(&entry("c")));
    let digest = ReadReason::Digest(lane("main"));
    assert_eq!(world.reasons(), [&digest]);
}

#[test]
fn g21_each_fault_is_found_without_another_publish() {
    // When no other head follows, the read of the heads finds what is missing.
    for fault in FAULTS {
        let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
        world.publish(&[("a", Some(2)), ("b", None)]);
        world.fault = Some(fault);
        world.pass_seconds(6);
        world.check_after_fault();
        assert!(
            world.findings.is_empty(),
            "{fault:?}: {:?}",
            world.finding_texts()
        );
    }
}

#[test]
fn g21_member_that_always_errs_is_left_without_a_storm_of_reads() {
    // Given a member whose watches lose every deletion.
    let mut world = World::serving(&[("a", Some(1))]);
    for content in 0..20 {
        world.publish(&[("b", Some(content))]);
        world.drive();
        world.fault = Some(Fault::OmitDelete);
        world.publish(&[("b", None)]);
        world.pass_seconds(1);
    }
    world.fault = None;
    world.pass_seconds(60);
    world.check_current();
    assert!(world.complete_reads() < 15, "{}", world.complete_reads());
    assert!(world.attempts.len() > 2, "other members are tried");
}

#[test]
fn g22_stale_answers_never_take_the_replica_back() {
    // Given a member that answers from an earlier state, also to linearizable reads.
    let mut world = World::serving(&[("a", Some(1))]);
    let stale = world.etcd.clone();
    world.publish(&[("a", Some(2)), ("b", Some(1))]);
    world.drive();
    // When the replica comes to it, with and without a complete read.
    let next = (world.member() + 1) % 3;
    world.set_member(next, Member::Stale(Box::new(stale.clone())));
    world.disconnect();
    world.pass_seconds(30);
    world.check_current();
    assert_ne!(world.member(), next, "another member is used");
    // When all members are stale, then it holds what it serves.
    for member in 0..3 {
        world.set_member(member, Member::Stale(Box::new(stale.clone())));
    }
    world.disconnect();
    world.pass_seconds(60);
    assert_eq!(
        world.served[&entry("b")],
        world.writers[&lane("main")].state[&entry("b")]
    );
    assert_eq!(world.history(), [1, 2]);
    // When they catch up, then it follows.
    (0..3).for_each(|member| world.set_member(member, Member::Up));
    world.publish(&[("a", Some(3))]);
    world.pass_seconds(60);
    world.check_current();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
}

#[test]
fn g21_pages_of_different_states_are_not_put_together() {
    // Given a member that is behind, but not at the first page.
    let mut world = World::new();
    let names: Vec<String> = (0..200).map(|n| format!("c{n:03}")).collect();
    let changes: Vec<_> = names.iter().map(|name| (&**name, Some(1))).collect();
    world.publish(&changes);
    world.publish(&[("c000", None), ("d", Some(1))]);
    // When the second page is of a compacted revision, then the read begins again.
    world.compact_after_reads = Some(1);
    world.drive();
    assert_eq!(world.complete_reads(), 2);
    assert_eq!(world.history(), [2]);
    world.check_current();
}
