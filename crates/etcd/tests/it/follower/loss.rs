//! Loss of etcd and its return: outages, compaction, restored backups, other clusters, denied permissions.

use std::time::Duration;

use oxds_etcd::follower::{FailureKind, FindingKind, Follower, FollowerConfig, Notice, ReadReason};

use super::cluster::Member;
use super::world::{World, config};
use super::writer::{entry, key, lane};
use crate::model::Etcd;
use oxds_etcd::{Digest, Head, Key, PublishId, Segment};

#[test]
fn g5_changes_of_another_prefix_cost_nothing() {
    let mut world = World::serving(&[("a", Some(1))]);
    let before = world.updates.len();
    // Given changes of another prefix for a minute.
    for _ in 0..60 {
        world.etcd.put("/oxds/other/format", "1");
        world.pass_seconds(1);
    }
    let status = world.follower.status(world.now);
    assert!(
        status.revision >= world.etcd.revision() - 5,
        "progress advanced it"
    );
    // When they are compacted, and the replica reconnects.
    world.etcd.compact(world.etcd.revision() - 5);
    world.disconnect();
    world.pass_seconds(10);
    // Then it resumes; nothing was read again, and nothing changed.
    assert_eq!((world.complete_reads(), world.updates.len()), (1, before));
}

#[test]
fn g18_compacted_resume_revision_leads_to_the_difference() {
    let mut world = World::serving(&[
        ("a", Some(1)),
        ("b", Some(1)),
        ("gone", Some(1)),
        ("edge:", Some(1)),
    ]);
    world.publish(&[("edge:gone", Some(1))]);
    world.drive();
    // Given an outage, in which keys are changed, created and removed, and the history is compacted.
    (0..3).for_each(|member| world.set_member(member, Member::Down));
    world.disconnect();
    world.pass_seconds(60);
    world.publish(&[("a", Some(2)), ("gone", None), ("edge:gone", None)]);
    world.publish(&[("new", Some(1)), ("edge:", None)]);
    world.etcd.compact(world.etcd.revision());
    // When it ends.
    let before = world.updates.len();
    (0..3).for_each(|member| world.set_member(member, Member::Up));
    world.pass_seconds(30);
    // Then one change set has exactly the difference, removals included.
    assert_eq!(world.updates.len(), before + 1);
    let changes = world.last_changes();
    assert_eq!(
        changes,
        (vec!["a".into(), "new".into()], vec!["gone".into()])
    );
    world.check_current();
    assert_eq!(world.complete_reads(), 2);
}

#[test]
fn g20_silent_member_is_left_within_10_s() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.pass_seconds(12);
    let member = world.member();
    world.set_member(member, Member::Silent);
    world.publish(&[("a", Some(2))]);
    world.pass_seconds(10);
    assert_ne!(world.member(), member);
    world.check_current();
    let silent = |notice: &Notice| matches!(notice, Notice::Disconnected(f) if f.kind == FailureKind::Silent);
    assert!(world.notices.iter().any(silent));
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g20_member_without_a_quorum_is_left_within_10_s() {
    // It answers progress requests, so only the linearizable read reveals it.
    let mut world = World::serving(&[("a", Some(1))]);
    world.pass_seconds(12);
    let member = world.member();
    world.set_member(member, Member::Alone);
    world.publish(&[("a", Some(2))]);
    world.pass_seconds(10);
    assert_ne!(world.member(), member);
    world.check_current();
}

#[test]
fn g20_silent_member_is_left_in_every_phase() {
    for steps in 0..4 {
        let mut world = World::new();
        world.publish(&[("a", Some(1))]);
        let member = world.member();
        if steps > 0 {
            world.set_member(member, Member::Silent);
            world.pass_seconds(60);
            assert_ne!(world.member(), member);
        }
        world.drive();
        world.set_member(world.member(), Member::Silent);
        world.disconnect();
        world.pass_seconds(60);
        world.check_current();
    }
}

#[test]
fn g24_outage_of_days_changes_nothing() {
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
    (0..3).for_each(|member| world.set_member(member, Member::Down));
    world.disconnect();
    let start = world.attempts.len();
    world.pass_seconds(2 * 24 * 3600);
    // Then the replica serves and is ready, and the status shows the cause.
    assert!(world.follower.is_ready());
    world.check_current();
    let status = world.follower.status(world.now);
    let (since, failure) = status.trouble.expect("no connection");
    assert!(!status.is_connected && failure.kind == FailureKind::Unreachable);
    assert!(world.now - since > Duration::from_secs(47 * 3600));
    assert_eq!(
        status.lanes[0].serving.as_ref().map(|head| head.seq),
        Some(1)
    );
    // Retries are at most 30 s apart, and go on over all members.
    let attempts = &world.attempts[start..];
    let gaps: Vec<_> = attempts.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(
        gaps.iter().all(|gap| *gap <= Duration::from_secs(30)),
        "{gaps:?}"
    );
    assert!(gaps.len() > 5_000 && gaps.len() < 10_000, "{}", gaps.len());
    let members: std::collections::BTreeSet<_> =
        attempts.iter().map(|(_, member)| member).collect();
    assert_eq!(members.len(), 3);
    // When etcd returns, then only the difference is applied.
    world.publish(&[("b", Some(2))]);
    (0..3).for_each(|member| world.set_member(member, Member::Up));
    world.pass_seconds(30);
    assert_eq!(world.last_changes(), (vec!["b".into()], vec![]));
    assert!(world.follower.status(world.now).trouble.is_none());
}

/// Changes keys of another prefix.
fn other_keys(etcd: &mut Etcd, count: usize) {
    for _ in 0..count {
        etcd.put("/other", "1");
    }
}

/// Given a store that was restored from a backup of seq 1 while seq 3 is served.
fn restored() -> World {
    let mut world = World::serving(&[("a", Some(1))]);
    let backup = (world.etcd.clone(), world.writers.clone());
    world.publish(&[("b", Some(1))]);
    world.publish(&[("a", Some(2))]);
    world.drive();
    let restored = backup.1[&lane("main")].clone();
    world.etcd = backup.0;
    world.writer("main").rewind(&restored);
    world
}

#[test]
fn g27_restored_store_is_held() {
    let mut world = restored();
    let served = world.served.clone();
    // When the replica reconnects.
    world.disconnect();
    world.pass_seconds(60);
    // Then it serves as before, stays ready and reports what it found.
    assert_eq!(world.served, served);
    assert!(world.follower.is_ready());
    let texts = world.finding_texts();
    assert_eq!(
        texts,
        ["etcd:l/main/head: store went back: serving 3, store has 1"]
    );
    assert!(world.follower.status(world.now).lanes[0].is_held);
    // A publish that does not accept the restore is not followed while its seq is less.
    world.publish(&[("z", Some(1))]);
    world.pass_seconds(10);
    assert_eq!(world.served, served);
    // When the restore is accepted, then it follows at once, with one change set.
    let updates = world.updates.len();
    world.write("main", |writer, etcd| writer.accept_restored(etcd, 3));
    world.drive();
    assert_eq!(world.updates.len(), updates + 1);
    world.check_current();
    assert!(world.findings.is_empty());
}

/// given a replica that has just read a restored store, and holds / when the restore is accepted / then the replica
/// follows on the same connection, and reads nothing again.
#[test]
fn g27_accepted_restore_is_followed_without_a_read() {
    let mut world = restored();
    world.disconnect();
    world.pass_seconds(3);
    assert!(world.follower.status(world.now).lanes[0].is_held);
    let before = (world.complete_reads(), world.attempts.len());
    world.write("main", |writer, etcd| writer.accept_restored(etcd, 3));
    world.drive();
    world.check_current();
    world.pass_seconds(10);
    assert_eq!((world.complete_reads(), world.attempts.len()), before);
}

/// given a replica that holds / when it reads the store again / then its finding does not change during the read.
#[test]
fn g27_finding_stays_while_the_store_is_read_again() {
    let mut world = restored();
    world.disconnect();
    world.pass_seconds(60);
    let before = (world.reports, world.complete_reads());
    let found = world.finding_texts();
    other_keys(&mut world.etcd, 10);
    world.etcd.compact(world.etcd.revision());
    world.disconnect();
    world.pass_seconds(60);
    assert_eq!(world.finding_texts(), found);
    assert!(world.complete_reads() > before.1);
    assert_eq!(world.reports, before.0);
}

#[test]
fn g27_option_follows_a_restored_store_without_hold() {
    let mut config = config();
    config.accept_restored = true;
    let mut world = World::with_config(config);
    world.publish(&[("a", Some(1))]);
    let backup = (world.etcd.clone(), world.writers.clone());
    world.publish(&[("b", Some(1))]);
    world.drive();
    (world.etcd, world.writers) = backup;
    world.disconnect();
    world.pass_seconds(20);
    assert_eq!(world.history(), [2, 1]);
    world.check_current();
}

#[test]
fn g27_replica_that_starts_on_a_restored_store_is_not_ready() {
    // Given a restored store, and another replica that serves a later seq.
    let mut world = restored();
    let status = r#"{"id":"r2","lanes":{"main":{"seq":3,"publish":"0","digest":"0"}},"held":true}"#;
    world.etcd.put("/oxds/default/x/r2", status);
    world.follower = Follower::new(config());
    world.served.clear();
    world.updates.clear();
    world.pass_seconds(60);
    // Then it is not ready.
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    let went_back = FindingKind::WentBack {
        serving: 3,
        store: Some(1),
        replica: Some(Segment::replica("r2").unwrap()),
    };
    assert!(
        world.has_finding(|kind| *kind == went_back),
        "{:?}",
        world.finding_texts()
    );
    // When the restore is accepted, then it follows.
    world.write("main", |writer, etcd| writer.accept_restored(etcd, 3));
    world.drive();
    assert!(world.follower.is_ready());
    world.check_current();
}

/// given a restore / when the replica meets an empty store, then the backup, and members of the old and of the new
/// cluster in turn / then it serves as before all the time, and follows the old cluster at once.
#[test]
fn g27_window_of_a_restore_removes_nothing() {
    let mut world = World::serving(&[("a", Some(1))]);
    let backup = world.etcd.clone();
    world.publish(&[("b", Some(1))]);
    world.drive();
    let (old, served, updates) = (
        world.etcd.clone(),
        world.served.clone(),
        world.updates.len(),
    );
    for present in [
        Etcd::default(),
        backup.clone(),
        old.clone(),
        Etcd::default(),
        backup,
        old,
    ] {
        world.etcd = present;
        world.disconnect();
        world.pass_seconds(60);
        assert_eq!((&world.served, world.updates.len()), (&served, updates));
        assert!(world.follower.is_ready());
    }
    world.check_current();
    assert!(world.findings.is_empty());
}

/// given a replica that starts on the empty store of a restore / then it serves nothing, not even an empty
/// configuration; when the backup is there and another replica serves a later seq, it is not ready.
#[test]
fn g27_start_before_the_restore_serves_nothing() {
    let mut world = restored();
    let backup = std::mem::take(&mut world.etcd);
    world.follower = Follower::new(config());
    world.served.clear();
    world.updates.clear();
    world.pass_seconds(60);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
    world.etcd = backup;
    let status = r#"{"id":"r2","lanes":{"main":{"seq":3}},"held":true}"#;
    world.etcd.put("/oxds/default/x/r2", status);
    world.disconnect();
    world.pass_seconds(60);
    assert!(!world.follower.is_ready() && world.updates.is_empty());
}

#[test]
fn g27_head_that_is_gone_is_held() {
    // When all keys are deleted by hand, then no resource is removed.
    let mut world = World::serving(&[("a", Some(1))]);
    world.etcd.delete(&key(&Key::Head(lane("main"))));
    world
        .etcd
        .delete(&key(&Key::Entry(lane("main"), entry("a"))));
    world.pass_seconds(60);
    assert!(world.served.contains_key(&entry("a")) && world.follower.is_ready());
    assert_eq!(
        world.finding_texts()[0],
        "etcd:l/main/head: store went back: serving 1, store has no head"
    );
    // Nor by a replica that reads everything.
    world.etcd.compact(world.etcd.revision());
    world.disconnect();
    world.pass_seconds(60);
    assert!(world.served.contains_key(&entry("a")));
}

#[test]
fn g28_other_history_beyond_the_old_revision_is_found() {
    // Given a restored store, which was written past revision and seq of the replica.
    let mut world = restored();
    for content in 0..9 {
        world.publish(&[("c", Some(content))]);
    }
    // When the replica reconnects.
    let updates = world.updates.len();
    world.disconnect();
    world.pass_seconds(20);
    // Then it reads everything again, and the difference is one change set.
    assert_eq!(world.complete_reads(), 2);
    assert_eq!(world.updates.len(), updates + 1);
    world.check_current();
    assert!(
        !world.served.contains_key(&entry("b")),
        "it was never in this history"
    );
}

#[test]
fn g28_other_history_with_the_same_seq_is_found() {
    let mut world = restored();
    world.publish(&[("c", Some(1))]);
    world.publish(&[("d", Some(1))]);
    // The revision grows by other keys, so it does not reveal the restore.
    other_keys(&mut world.etcd, 9);
    world.disconnect();
    world.pass_seconds(20);
    world.check_current();
    let broken = Notice::ChainBroken {
        lane: lane("main"),
        from: 3,
        to: 3,
    };
    assert!(world.notices.contains(&broken), "{:?}", world.notices);
}

#[test]
fn g28_other_history_that_ends_before_the_old_revision_is_found() {
    // Given publishes of the other history that are all before the revision that the replica knows.
    let mut world = World::serving(&[("a", Some(1))]);
    let backup = (world.etcd.clone(), world.writers[&lane("main")].clone());
    world.publish(&[("b", Some(1))]);
    other_keys(&mut world.etcd, 9);
    world.pass_seconds(6);
    world.etcd = backup.0;
    world.writer("main").rewind(&backup.1);
    world.publish(&[("c", Some(1))]);
    world.publish(&[("d", Some(1))]);
    other_keys(&mut world.etcd, 20);
    // When the replica reconnects, a watch after its revision would be silent.
    world.disconnect();
    world.pass_seconds(20);
    world.check_current();
}

#[test]
fn g29_other_cluster_at_the_same_address_is_read_as_a_whole() {
    let mut world = World::serving(&[("a", Some(1)), ("b", Some(1))]);
    // Given another cluster with a later publish and the same revisions.
    let mut other = Etcd::new(2);
    other.put("/oxds/default/format", "1");
    let mut writer = world.writer("main").clone();
    writer.publish(&mut other, &[("a", Some(1)), ("b", None)]);
    world.etcd = other;
    world.writers.insert(lane("main"), writer);
    world.etcd.put("/other", "1");
    // When it answers.
    world.disconnect();
    world.pass_seconds(10);
    let other = Notice::Reading(ReadReason::OtherCluster);
    assert!(
        world.notices.contains(&other),
        "no watch is resumed: {:?}",
        world.notices
    );
    world.check_current();
}

#[test]
fn g29_other_cluster_that_answers_a_watch_is_noticed() {
    let mut world = World::serving(&[("a", Some(1))]);
    let mut other = Etcd::new(2);
    other.put("/oxds/default/format", "1");
    let mut writer = world.writer("main").clone();
    writer.publish(&mut other, &[("a", Some(1)), ("c", Some(1))]);
    other_keys(&mut other, 9);
    world.etcd = other;
    world.writers.insert(lane("main"), writer);
    world.pass_seconds(10);
    world.check_current();
}

#[test]
fn g31_stream_is_renewed_every_10_minutes_without_a_loss() {
    let mut world = World::serving(&[("a", Some(1))]);
    let follows = |world: &World| {
        let notices = world.notices.iter();
        notices
            .filter(|notice| matches!(notice, Notice::Following { .. }))
            .count()
    };
    let before = follows(&world);
    for content in 0..61 {
        world.publish(&[("a", Some(content))]);
        world.pass_seconds(60);
    }
    assert_eq!(follows(&world) - before, 6);
    assert_eq!((world.complete_reads(), world.attempts.len()), (1, 1));
    world.check_current();
    assert_eq!(world.history().len(), 62);
}

#[test]
fn g31_revoked_permission_ends_following_and_removes_nothing() {
    let mut world = World::serving(&[("a", Some(1))]);
    (0..3).for_each(|member| world.set_member(member, Member::Denied));
    world.pass_seconds(601);
    let status = world.follower.status(world.now);
    let (_, failure) = status.trouble.expect("it does not follow");
    assert_eq!(failure.kind, FailureKind::PermissionDenied);
    assert!(world.follower.is_ready());
    world.check_current();
}

/// Given a lane whose keys contradict its head: a key was changed by hand, and a head followed that does not count it.
fn diverged() -> World {
    let mut world = World::serving(&[("a", Some(1))]);
    let parent = world.writers[&lane("main")].head.clone().unwrap();
    let digest = Digest::parse(&"7".repeat(32)).unwrap();
    let head = Head::new(PublishId(77), Some(parent.publish), 2, digest);
    world
        .etcd
        .put(&key(&Key::Head(lane("main"))), head.encode());
    world
}

#[test]
fn g36_diverged_lane_is_read_again_at_once_and_then_reported() {
    let mut world = diverged();
    world.pass_seconds(2);
    let reads = world.complete_reads();
    assert!(reads >= 2, "{:?}", world.notices);
    assert!(world.findings.is_empty());
    world.pass_seconds(12);
    let diverged = FindingKind::Diverged { store: 2 };
    assert!(
        world.has_finding(|kind| *kind == diverged),
        "{:?}",
        world.finding_texts()
    );
    // It serves on, and does not read again and again.
    assert!(world.follower.is_ready());
    assert_eq!(world.history(), [1]);
    world.pass_seconds(300);
    assert!(
        world.complete_reads() <= reads + 2,
        "{}",
        world.complete_reads()
    );
    let status = world.follower.status(world.now);
    assert!(status.is_connected && status.lanes[0].diverged_for > Duration::from_secs(300));
}

#[test]
fn g36_diverged_replica_is_not_ready_if_another_has_the_head() {
    let mut world = diverged();
    let status = |id: &str| {
        let (publish, digest) = (PublishId(77), "7".repeat(32));
        format!(
            r#"{{"id":"{id}","lanes":{{"main":{{"seq":2,"publish":"{publish}","digest":"{digest}"}}}}}}"#
        )
    };
    // Its own status does not count.
    world.etcd.put("/oxds/default/x/r1", status("r1"));
    world.pass_seconds(20);
    assert!(world.follower.is_ready());
    world.etcd.put("/oxds/default/x/r2", status("r2"));
    world.pass_seconds(1);
    assert!(!world.follower.is_ready());
    // When the other replica ends, it serves on.
    world.etcd.delete("/oxds/default/x/r2");
    world.pass_seconds(1);
    assert!(world.follower.is_ready());
}

#[test]
fn g36_diverged_lane_does_not_keep_other_lanes_waiting() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.publish_in("canary", &[("b", Some(1))]);
    world.drive();
    world
        .etcd
        .put(&key(&Key::Entry(lane("canary"), entry("b"))), "damaged");
    world.publish_in("canary", &[("c", Some(1))]);
    world.pass_seconds(20);
    let reads = world.complete_reads();
    for content in 2..20 {
        // When both lanes publish.
        world.publish(&[("a", Some(content))]);
        world.publish_in("canary", &[("c", Some(content))]);
        world.pass_seconds(1);
        let served = world.served[&entry("a")];
        assert_eq!(served, world.writers[&lane("main")].state[&entry("a")]);
    }
    assert!(
        world.complete_reads() <= reads + 2,
        "{}",
        world.complete_reads()
    );
    // A publish that repairs the lane is served at once.
    world.publish_in("canary", &[("b", Some(2))]);
    world.drive();
    world.check_current();
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
}

#[test]
fn timing_of_a_follower_can_be_changed() {
    let mut config: FollowerConfig = config();
    config.timing.probe = Duration::from_secs(60);
    let mut world = World::with_config(config);
    world.publish(&[("a", Some(1))]);
    world.drive();
    world.reads.clear();
    world.pass_seconds(59);
    assert!(world.reads.is_empty());
}
