//! Values: those that were changed by hand, and those that cannot be used.

use bytes::Bytes;
use oxds_core::snapshot::Resource;
use oxds_etcd::follower::FindingKind;
use oxds_etcd::{Digest, Entry, Head, Key, Place, PublishId, Stored};
use oxds_types::ResourceType;

use super::world::World;
use super::writer::{entry, key, lane, stored};

fn entry_key(text: &str) -> String {
    key(&Key::Entry(lane("main"), entry(text)))
}

/// Publishes a value under this name that its head counts, and that is of another type.
pub(super) fn publish_invalid(world: &mut World, name: &str) {
    let listener = Resource::new(ResourceType::LISTENER, name, b"");
    publish_value(world, entry(name), &Stored::of_resource(&listener, None));
}

/// Publishes any value.
fn publish_value(world: &mut World, entry: Entry, value: &Stored) {
    let mut writer = world.writer("main").clone();
    let before = writer.head.clone().unwrap();
    let mut served = writer.state.clone();
    served.insert(entry.clone(), value.digest_version());
    let digest: Digest = served.iter().collect();
    let head = Head::new(PublishId(99), Some(before.publish), before.seq + 1, digest);
    // Of an entry that cannot be used, the last good value stays served.
    writer.published.insert(head.publish, writer.state.clone());
    writer.head = Some(head.clone());
    world.writers.insert(lane("main"), writer);
    let entry_key = key(&Key::Entry(lane("main"), entry));
    world.etcd.put(&entry_key, value.encoded().clone());
    world
        .etcd
        .put(&key(&Key::Head(lane("main"))), head.encode());
}

#[test]
fn g14_keys_changed_by_hand_are_not_served_but_reported() {
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1)), ("edge:", Some(1))]);
    let reads = world.complete_reads();
    // When keys are changed, removed and created without a publish.
    let value = stored(&entry("a"), 7).encoded().clone();
    world.etcd.put(&entry_key("a"), value);
    world.etcd.delete(&entry_key("b"));
    world.etcd.put(&entry_key("new"), "garbage");
    world.etcd.delete(&entry_key("edge:"));
    world.pass_seconds(10);
    // Then they are not served, and findings name them within 10 s.
    assert_eq!(world.history(), [1]);
    world.check_current();
    let unpublished = world
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::Unpublished);
    let keys: Vec<_> = unpublished.map(|finding| finding.key.to_string()).collect();
    let cluster = "l/main/r/envoy.config.cluster.v3.Cluster";
    assert_eq!(
        keys,
        [
            "l/main/g/edge".to_owned(),
            format!("{cluster}/a"),
            format!("{cluster}/b"),
            format!("{cluster}/new")
        ]
    );
    assert_eq!(world.complete_reads(), reads);
    // When the published values are restored, then the findings end.
    world
        .etcd
        .put(&entry_key("a"), stored(&entry("a"), 1).encoded().clone());
    world
        .etcd
        .put(&entry_key("b"), stored(&entry("b"), 1).encoded().clone());
    world.etcd.put(
        &entry_key("edge:"),
        stored(&entry("edge:"), 1).encoded().clone(),
    );
    world.etcd.delete(&entry_key("new"));
    world.drive();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
    world.publish(&[("a", Some(3))]);
    world.drive();
    world.check_current();
}

#[test]
fn g14_start_with_changed_keys_does_not_serve_them() {
    let mut world = World::new();
    world.publish(&[("a", Some(1))]);
    let value = stored(&entry("a"), 7).encoded().clone();
    world.etcd.put(&entry_key("a"), value);
    world.pass_seconds(30);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    assert!(world.has_finding(|kind| *kind == FindingKind::Diverged { store: 1 }));
    // When the published value is restored, also without a head, then it is served.
    world
        .etcd
        .put(&entry_key("a"), stored(&entry("a"), 1).encoded().clone());
    world.drive();
    assert!(world.follower.is_ready());
    world.check_current();
    assert!(world.findings.is_empty());
}

#[test]
fn g14_unpublished_keys_of_a_lane_without_a_head_are_reported() {
    let mut world = World::serving(&[("a", Some(1))]);
    let key = key(&Key::Entry(lane("canary"), entry("b")));
    world
        .etcd
        .put(&key, stored(&entry("b"), 1).encoded().clone());
    world.pass_seconds(10);
    assert!(world.has_finding(|kind| *kind == FindingKind::Unpublished));
    world.check_current();
}

#[test]
fn invalid_value_keeps_its_last_good_state_with_a_finding() {
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
    let good = world.served[&entry("a")];
    publish_invalid(&mut world, "a");
    world.drive();
    assert_eq!(world.served[&entry("a")], good);
    let text = &world.finding_texts()[0];
    assert!(
        text.starts_with("etcd:l/main/r/envoy.config.cluster.v3.Cluster/a: type_url ")
            && text.ends_with("; the last good value stays served"),
        "{text}"
    );
}

#[test]
fn invalid_value_is_replaced_by_a_valid_one() {
    let mut world = World::serving(&[("a", Some(1))]);
    publish_invalid(&mut world, "a");
    world.drive();
    assert!(!world.findings.is_empty());
    // The digest of the next publish replaces the invalid value by a valid one.
    let value = stored(&entry("a"), 5);
    let mut writer = world.writer("main").clone();
    writer.state.insert(entry("a"), value.digest_version());
    world.writers.insert(lane("main"), writer);
    publish_value(&mut world, entry("a"), &value);
    world.drive();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
    world.check_current();
}

#[test]
fn invalid_matcher_keeps_the_last_good_one() {
    let mut world = World::serving(&[("edge:", Some(1)), ("edge:a", Some(1))]);
    let not_a_matcher = stored(&entry("b"), 1);
    publish_value(&mut world, entry("edge:"), &not_a_matcher);
    world.drive();
    world.check_current();
    assert!(world.finding_texts()[0].starts_with("etcd:l/main/g/edge: "));
}

#[test]
fn new_value_that_is_invalid_is_left_out() {
    let mut world = World::serving(&[("a", Some(1))]);
    publish_invalid(&mut world, "b");
    world.drive();
    assert_eq!(world.history(), [1, 2]);
    assert!(!world.served.contains_key(&entry("b")));
    assert!(world.has_finding(|kind| matches!(kind, FindingKind::Invalid(_))));
}

#[test]
fn name_that_is_not_canonical_is_invalid() {
    let mut world = World::serving(&[("a", Some(1))]);
    let name = "xdstp://auth/envoy.config.cluster.v3.Cluster/a?b=2&a=1";
    let place: Entry = Place::of_all(ResourceType::CLUSTER, name).into();
    publish_value(&mut world, place.clone(), &stored(&place, 1));
    world.drive();
    let text = world.finding_texts().join("\n");
    assert!(text.contains("canonical"), "{text}");
}

#[test]
fn malformed_head_is_reported_and_not_followed() {
    let mut world = World::serving(&[("a", Some(1))]);
    let head_key = key(&Key::Head(lane("main")));
    world.etcd.put(&head_key, Bytes::from_static(b"{"));
    world.pass_seconds(60);
    assert!(world.finding_texts()[0].starts_with("etcd:l/main/head: malformed head"));
    assert!(world.follower.is_ready());
    assert!(world.complete_reads() < 4, "{:?}", world.notices);
    world.publish(&[("a", Some(2))]);
    world.drive();
    world.check_current();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
}

#[test]
fn keys_that_are_not_in_the_layout_are_ignored() {
    let mut world = World::serving(&[("a", Some(1))]);
    for key in [
        "l/main/x",
        "unknown",
        "l//head",
        "x/",
        "l/main/r/",
        "n/main/r/a",
    ] {
        world.etcd.put(&format!("/oxds/default/{key}"), "1");
    }
    world.publish(&[("a", Some(2))]);
    world.pass_seconds(10);
    world.check_current();
    world.follower = oxds_etcd::follower::Follower::new(super::world::config());
    world.served.clear();
    world.drive();
    world.check_current();
}
