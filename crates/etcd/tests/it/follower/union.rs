//! Several lanes: their union, and entries that two of them have.

use oxds_etcd::follower::FindingKind;

use super::world::World;
use super::writer::{entry, lane};

fn is_duplicate(kind: &FindingKind) -> bool {
    matches!(kind, FindingKind::Duplicate { .. })
}

#[test]
fn g6_replica_serves_the_union_of_two_lanes() {
    let mut world = World::serving(&[("a", Some(1)), ("edge:", Some(1))]);
    world.publish_in("canary", &[("b", Some(1)), ("edge:a", Some(1))]);
    world.drive();
    world.check_current();
    assert_eq!(world.served.len(), 4);
    world.publish_in("canary", &[("b", None)]);
    world.drive();
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g6_entry_of_another_lane_is_an_error_and_changes_nothing() {
    // Given lane main with "a".
    let mut world = World::serving(&[("a", Some(1))]);
    world.publish_in("canary", &[("b", Some(1))]);
    world.drive();
    // When lane canary publishes "a", too, with another change.
    world.publish_in("canary", &[("a", Some(2)), ("c", Some(2))]);
    world.drive();
    // Then nothing of that publish is served, and the finding names both lanes.
    assert!(!world.served.contains_key(&entry("c")));
    let finding = &world.findings[0];
    let duplicate = FindingKind::Duplicate {
        other: lane("main"),
        entry: entry("a"),
    };
    assert_eq!(finding.kind, duplicate);
    assert!(
        finding
            .to_string()
            .starts_with("etcd:l/canary/head: duplicate")
    );
    // The lanes stay independent of each other.
    world.publish(&[("d", Some(1))]);
    world.drive();
    assert!(world.served.contains_key(&entry("d")));
    // When main removes it, then the waiting publish is served.
    world.publish(&[("a", None)]);
    world.drive();
    world.check_current();
    assert!(world.findings.is_empty());
}

#[test]
fn g6_two_lanes_may_exchange_entries_while_a_replica_is_away() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.publish_in("canary", &[("b", Some(1))]);
    world.drive();
    // When a moves from main to canary, and b the other way, and the history is compacted.
    world.publish(&[("a", None)]);
    world.publish_in("canary", &[("b", None), ("a", Some(1))]);
    world.publish(&[("b", Some(1))]);
    let revision = world.etcd.revision();
    world.etcd.compact(revision);
    world.pass_seconds(10);
    world.check_current();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
}

#[test]
fn g6_replica_that_starts_with_a_duplicate_is_not_ready() {
    // It has no state to stay at, and a part of the lanes would remove resources from clients.
    let mut world = World::new();
    world.publish(&[("a", Some(1))]);
    world.publish_in("canary", &[("a", Some(2)), ("b", Some(1))]);
    world.pass_seconds(20);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    assert!(
        world.has_finding(is_duplicate),
        "{:?}",
        world.finding_texts()
    );
    // The lane that had it first has no finding.
    assert_eq!(world.findings.len(), 1);
    assert!(world.finding_texts()[0].starts_with("etcd:l/canary/"));
    world.publish_in("canary", &[("a", None)]);
    world.drive();
    assert!(world.follower.is_ready());
    world.check_current();
}

#[test]
fn g6_lane_that_waits_costs_the_other_lane_nothing() {
    // Given a lane that waits with many entries.
    let mut world = World::serving(&[("a", Some(1))]);
    let names: Vec<String> = (0..500).map(|n| format!("c{n:03}")).collect();
    let mut changes: Vec<_> = names.iter().map(|name| (&**name, Some(1))).collect();
    changes.push(("a", Some(2)));
    world.publish_in("canary", &changes);
    world.drive();
    assert!(world.has_finding(is_duplicate));
    // When the other lane publishes, then the duplicate is found at once again.
    world.publish(&[("b", Some(1))]);
    world.drive();
    assert_eq!(world.findings.len(), 1);
    assert_eq!(world.served.len(), 2);
}
