//! Start: the first state, its format, and the saved state of an earlier process.

use std::sync::Arc;
use std::time::Duration;

use oxds_etcd::follower::{FindingKind, Follower, Notice, ReadReason, SavedState};
use oxds_etcd::{Entry, FormatError};
use oxds_types::etcd::RangeRequest;

use super::cluster::Member;
use super::publish::{all, numbered};
use super::world::{World, config};
use super::writer::{Writer, entry, stored};

#[test]
fn g16_replica_starts_with_one_state_read_at_one_revision() {
    // Given 300 published resources, which are several pages.
    let mut world = World::new();
    let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
    let changes: Vec<_> = names.iter().map(|name| (&**name, Some(1))).collect();
    world.publish(&changes);
    // When a replica starts, and others publish after its first page.
    assert!(!world.follower.is_ready());
    world.etcd.put("/oxds/default/x/r9", "{}");
    world.drive();
    // Then the first update is the whole state, and all pages have one revision.
    assert!(world.follower.is_ready());
    assert_eq!(world.updates[0].changes.upserts.len(), 300);
    let revisions: Vec<_> = world.reads.iter().map(|read| read.revision).collect();
    let revision = world.updates[0].revision;
    assert_eq!(
        revisions[0], 0,
        "the first page is the latest, linearizable"
    );
    assert!(revisions.len() > 1 && revisions[1..].iter().all(|read| *read == revision));
    assert!(
        world
            .reads
            .iter()
            .all(|read: &RangeRequest| !read.serializable)
    );
}

#[test]
fn g16_replica_is_not_ready_while_nothing_is_published() {
    let mut world = World::new();
    world.pass_seconds(60);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    assert!(world.follower.status(world.now).is_connected);
    assert_eq!(world.complete_reads(), 1);
    // The first publish arrives by the watch.
    world.publish(&[("a", Some(1))]);
    world.drive();
    assert!(world.follower.is_ready());
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g16_start_in_the_middle_of_a_large_publish_serves_it() {
    // Given a large publish, of which one key was moved to its place.
    let mut world = World::new();
    world.publish(&[("a", Some(1)), ("gone", Some(1))]);
    let changes = [("a", Some(2)), ("b", Some(2)), ("gone", None)];
    world.write("main", |writer, etcd| {
        writer.stage(etcd, &changes);
        writer.move_one(etcd);
    });
    // When a replica starts, then it serves the publish; the other moves change nothing.
    world.drive();
    world.check_current();
    world.write("main", Writer::finish);
    world.drive();
    assert_eq!(world.history(), [2]);
}

#[test]
fn g4_newer_format_at_start_stops_the_replica() {
    let mut world = World::new();
    world.publish(&[("a", Some(1))]);
    world.etcd.put("/oxds/default/format", "2");
    world.pass_seconds(60);
    assert_eq!(world.stopped, [FormatError::Newer { found: 2 }]);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    assert_eq!(world.follower.poll_timeout(), None);
}

#[test]
fn g36_slow_first_read_is_no_divergence() {
    // Given several pages, of which each takes 12 s.
    let mut world = World::new();
    for names in numbered(1_000).chunks(100) {
        world.publish(&all(names, 1));
    }
    world.read_takes = Duration::from_secs(12);
    // When a replica starts.
    world.drive();
    // Then it serves them, and never reports that the keys contradict the head: some were not read yet.
    assert!(world.reads.len() >= 3, "{}", world.reads.len());
    assert_eq!(world.updates[0].changes.upserts.len(), 1_000);
    assert!(!world.was_diverged);
}

#[test]
fn g16_invalid_value_before_the_first_update_is_reported() {
    // Given a replica that has read everything, and whose driver has not polled the first update.
    let mut world = World::new();
    world.publish(&[("a", Some(1))]);
    world.is_busy = true;
    world.drive();
    // When a value that cannot be used is published.
    super::values::publish_invalid(&mut world, "b");
    world.drive();
    world.is_busy = false;
    world.drive();
    // Then the first update has the rest, and the value is reported.
    assert_eq!(world.updates.len(), 1);
    assert_eq!(world.updates[0].changes.upserts.len(), 1);
    let is_invalid = |kind: &FindingKind| matches!(kind, FindingKind::Invalid(_));
    assert!(world.has_finding(is_invalid), "{:?}", world.findings);
}

#[test]
fn gb3_start_copies_each_value_once() {
    // Given 200 resources of 10 KB.
    let mut world = World::new();
    for names in numbered(200).chunks(100) {
        world.publish(&all(names, 10_000));
    }
    // When a replica starts.
    world.drive();
    // Then it allocates little more than the resources need.
    assert_eq!(world.updates[0].changes.upserts.len(), 200);
    let content = 200 * 10_000;
    assert!(world.allocated > content, "{}", world.allocated);
    assert!(world.allocated < content * 3 / 2, "{}", world.allocated);
}

#[test]
fn gb3_next_page_is_requested_before_the_last_is_taken() {
    // Given several pages, and a driver that takes the first one late.
    let mut world = World::new();
    world.publish(&all(&numbered(300), 1));
    world.etcd.put("/oxds/default/format", "2");
    world.is_busy = true;
    world.drive();
    // Then the next page was read before the first one turned out to be of a newer format, and no more.
    assert_eq!(world.reads.len(), 2);
    world.is_busy = false;
    world.drive();
    assert_eq!(world.stopped, [FormatError::Newer { found: 2 }]);
    assert!(world.updates.is_empty());
}

#[test]
fn g4_newer_format_while_running_is_reported_once() {
    let mut world = World::serving(&[("a", Some(1))]);
    // When a newer build takes over the prefix and publishes.
    world.etcd.put("/oxds/default/format", "2");
    world.publish(&[("a", Some(2))]);
    world.pass_seconds(3600);
    // Then the last state stays served, and the replica does not follow.
    assert_eq!(world.stopped, [FormatError::Newer { found: 2 }]);
    assert!(world.follower.is_ready());
    assert_eq!(world.history(), [1]);
    let attempts = world.attempts.len();
    assert_eq!(attempts, 1, "no other connection");
}

#[test]
fn g4_head_of_a_newer_format_stops_the_replica() {
    let mut world = World::serving(&[("a", Some(1))]);
    world
        .etcd
        .put("/oxds/default/l/main/head", r#"{"format":3,"lanes":[]}"#);
    world.pass_seconds(60);
    assert_eq!(world.stopped, [FormatError::Newer { found: 3 }]);
}

/// Makes a follower whose store serves what the world serves.
fn restart(world: &mut World) {
    let head = world.writers.values().map(|writer| {
        let head = writer.head.clone().unwrap();
        (writer.lane.clone(), head)
    });
    let mut state = SavedState {
        heads: head.collect(),
        ..SavedState::default()
    };
    for (entry, content) in [("a", 1), ("b", 1)] {
        let Entry::Resource(place) = super::writer::entry(entry) else {
            unreachable!("a resource")
        };
        let resource = stored(&place.clone().into(), content).resource(&place);
        state.resources.push((place, Arc::new(resource.unwrap())));
    }
    world.disconnect();
    world.updates.clear();
    world.notices.clear();
    world.follower = Follower::with_saved(config(), state);
}

#[test]
fn g25_saved_state_is_ready_and_gets_only_the_difference() {
    // Given a replica that restarts with the state that it served, while no member answers.
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
    restart(&mut world);
    (0..3).for_each(|member| world.set_member(member, Member::Silent));
    world.pass_seconds(60);
    assert!(world.follower.is_ready() && world.updates.is_empty());
    // When the cluster returns, with a later publish.
    world.publish(&[("b", None), ("c", Some(1))]);
    (0..3).for_each(|member| world.set_member(member, Member::Up));
    world.pass_seconds(30);
    // Then the update has only the difference.
    assert_eq!(world.last_changes(), (vec!["c".into()], vec!["b".into()]));
    world.check_current();
}

#[test]
fn g27_saved_state_is_held_if_the_store_went_back() {
    // Given a backup before the last publish.
    let mut world = World::serving(&[("a", Some(1))]);
    let backup = world.etcd.clone();
    world.publish(&[("b", Some(1))]);
    world.drive();
    // When the replica restarts with its state, and the backup was restored.
    world.etcd = backup;
    restart(&mut world);
    world.pass_seconds(60);
    // Then it serves its state and reports that.
    assert!(world.follower.is_ready() && world.updates.is_empty());
    let went_back = FindingKind::WentBack {
        serving: 2,
        store: Some(1),
        replica: None,
    };
    assert!(
        world.has_finding(|kind| *kind == went_back),
        "{:?}",
        world.findings
    );
}

#[test]
fn g25_saved_value_stays_if_the_published_one_is_invalid() {
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
    restart(&mut world);
    super::values::publish_invalid(&mut world, "a");
    world.pass_seconds(1);
    assert!(world.follower.is_ready());
    assert!(
        world.served.contains_key(&entry("a")),
        "the last good value"
    );
    assert!(world.has_finding(|kind| matches!(kind, FindingKind::Invalid(_))));
    assert_eq!(world.notices[0], Notice::Reading(ReadReason::First));
}
