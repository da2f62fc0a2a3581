//! Publishes of any size: one change set each, in order, and memory that follows the size of a change.

use super::cluster::Member;
use super::world::World;
use super::writer::{Writer, entry};

pub(super) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("c{n:05}")).collect()
}

pub(super) fn all(names: &[String], content: usize) -> Vec<(&str, Option<usize>)> {
    names.iter().map(|name| (&**name, Some(content))).collect()
}

#[test]
fn g7_small_publish_is_one_change_set() {
    let mut world = World::serving(&[("a", Some(1)), ("gone", Some(1))]);
    for count in [1, 127, 128, 3_000] {
        let names = numbered(count);
        let mut changes = all(&names, count % 100);
        changes.push(("edge:", Some(count)));
        world.publish(&changes);
        world.drive();
        assert_eq!(world.last_changes().0.len(), count);
        world.check_current();
    }
    assert_eq!(world.history(), [1, 2, 3, 4, 5]);
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g7_large_publish_is_one_change_set_and_moves_change_nothing() {
    let mut world = World::serving(&[("a", Some(1)), ("gone", Some(1)), ("edge:gone", Some(1))]);
    // When a stage is written and its head is set.
    let names = numbered(300);
    let mut changes = all(&names, 1);
    changes.extend([("a", Some(2)), ("gone", None), ("edge:gone", None)]);
    changes.extend([("edge:", Some(1)), ("edge:a", Some(1))]);
    world.write("main", |writer, etcd| writer.stage(etcd, &changes));
    world.drive();
    // Then the whole publish is one change set, before a key was moved; the watch has shown it, so nothing is read.
    assert_eq!(world.history(), [1, 2]);
    world.check_current();
    assert!(world.reads_of_stages().is_empty());
    // Each move changes nothing.
    while world.write("main", Writer::move_one) {
        world.drive();
    }
    world.drive();
    assert_eq!(world.updates.len(), 2);
    // The next publish builds on it.
    world.publish(&[("a", Some(3))]);
    world.drive();
    assert_eq!(world.last_changes(), (vec!["a".into()], vec![]));
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g19_pages_of_a_stage_and_of_all_keys_may_be_too_large() {
    // Given values of which a replica accepts 20 in a response.
    let mut world = World::serving(&[("a", Some(1))]);
    (0..3).for_each(|member| world.set_member(member, Member::Large(20)));
    // When a stage of 100 is committed, of which the watch shows nothing.
    let names = numbered(100);
    world.stage_unseen(&all(&names, 1));
    let attempts = world.attempts.len();
    world.drive();
    // Then the replica reads it on the same connection, and serves it as one change set.
    assert_eq!(world.attempts.len(), attempts);
    assert_eq!(world.history(), [1, 2]);
    world.check_current();
    // When a replica starts, then it reads all keys once.
    world.restart(false);
    world.drive();
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
    assert_eq!(world.attempts.len(), attempts + 1);
}

#[test]
fn g7_moves_may_overtake_the_read_of_the_stage() {
    // Given a member that answers no reads while the keys of a stage are moved.
    let mut world = World::serving(&[("a", Some(1))]);
    world.stage_unseen(&[("a", Some(2)), ("b", Some(2))]);
    world.write("main", |writer, etcd| {
        writer.finish(etcd);
        writer.publish(etcd, &[("b", Some(3))]);
    });
    // When all events come at once, then the state of each head is served when it is complete.
    world.drive();
    assert_eq!(world.history().last(), Some(&3));
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g7_stage_is_read_at_the_revision_of_the_head() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.stage_unseen(&[("a", Some(2)), ("b", Some(2))]);
    let revision = world.etcd.revision();
    world.write("main", Writer::move_one);
    world.drive();
    assert_eq!(world.reads_of_stages(), [revision]);
    world.check_current();
}

#[test]
fn g7_stage_is_taken_from_the_watch() {
    let mut world = World::serving(&[("a", Some(1)), ("gone", Some(1))]);
    // Given stages of a writer that died, which the next writer deletes before it writes its own.
    world.write("main", |writer, etcd| {
        let mut dead = writer.clone();
        dead.write_stage(etcd, &[("a", Some(7)), ("b", Some(7))]);
        dead.write_stage(etcd, &[("a", Some(8)), ("c", Some(8))]);
    });
    world.drive();
    assert_eq!(world.history(), [1]);
    let other = world.etcd.keys("/oxds/default/l/main/s/");
    world.write("main", |writer, etcd| {
        for kv in &other {
            etcd.delete(std::str::from_utf8(&kv.key).unwrap());
        }
        writer.write_stage(etcd, &[("a", Some(2)), ("gone", None)]);
    });
    // When the connection breaks before the head comes.
    world.drive();
    world.disconnect();
    world.pass_seconds(1);
    world.write("main", |writer, etcd| writer.commit_stage(etcd));
    world.drive();
    // Then the stage is served without a read of it.
    assert_eq!(world.history(), [1, 2]);
    assert!(world.reads_of_stages().is_empty());
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g7_stage_that_the_watch_shows_in_part_is_read() {
    // Given a replica whose watch begins between the batches of a stage.
    let mut world = World::serving(&[("a", Some(1)), ("gone", Some(1))]);
    let names = numbered(150);
    let mut changes = all(&names, 1);
    changes.push(("gone", None));
    world.write("main", |writer, etcd| writer.write_stage(etcd, &changes));
    world.restart(true);
    world.drive();
    // When some of its keys are written again, and its head is set.
    for kv in &world.etcd.keys("/oxds/default/l/main/s/")[..70] {
        let key = std::str::from_utf8(&kv.key).unwrap();
        world.etcd.put(key, kv.value.clone());
    }
    world.write("main", |writer, etcd| writer.commit_stage(etcd));
    let revision = world.etcd.revision();
    world.drive();
    // Then all of it is read, and served at once.
    assert_eq!(world.reads_of_stages(), [revision]);
    assert_eq!(world.history(), [1, 2]);
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g19_greatest_stages_are_read_when_their_heads_come() {
    // Given the events of a stage of 70 MB.
    let mut world = World::serving(&[("a", Some(1))]);
    world.disconnect();
    let names = numbered(70);
    world.write("main", |writer, etcd| {
        writer.write_stage(etcd, &all(&names, 1_000_000));
    });
    // When they come, then the follower keeps up to 64 MiB of them, and nothing when there are more.
    let responses = world.open_and_take();
    let (mut kept, mut most) = (0, 0);
    for (stream, response) in &responses {
        let one = allocation_counter::measure(|| {
            world.follower.handle_watch(world.now, *stream, response);
        });
        kept += one.bytes_current;
        most = kept.max(most);
    }
    assert!(60_000_000 < most && most < 70_000_000, "{most}");
    assert!(kept < 1_000_000, "{kept}");
    // When the head comes, then the stage is read.
    world.write("main", |writer, etcd| writer.commit_stage(etcd));
    world.drive();
    assert!(!world.reads_of_stages().is_empty());
    world.check_current();
}

#[test]
fn g7_stage_whose_revision_was_compacted_is_read_at_the_latest() {
    // Given a replica that is away while a stage is committed and the history is compacted.
    let mut world = World::serving(&[("a", Some(1))]);
    world.write("main", |writer, etcd| {
        writer.stage(etcd, &[("a", Some(2)), ("b", Some(2))]);
    });
    let revision = world.etcd.revision();
    world.etcd.put("/oxds/default/x/r9", "{}");
    world.etcd.compact(revision + 1);
    world.drive();
    world.check_current();
    assert_eq!(world.history(), [1, 2]);
}

#[test]
fn g7_stage_compacted_between_pages_is_not_served_in_part() {
    let mut world = World::serving(&[("a", Some(1)), ("gone", Some(1))]);
    let names = numbered(100);
    let mut changes = all(&names, 1);
    changes.push(("gone", None));
    world.stage_unseen(&changes);
    world.compact_after_reads = Some(world.reads.len() + 1);
    world.drive();
    world.check_current();
    assert_eq!(world.history(), [1, 2]);
    assert_eq!(world.complete_reads(), 2);
}

#[test]
fn gb9_cost_of_a_change_does_not_follow_the_size_of_the_state() {
    // Given states of 100 and of 3,000 entries, when the same change comes, then about as many allocations are made.
    let [few, many] = [100, 3_000].map(|count| {
        let mut world = World::serving(&[("a", Some(1))]);
        let names = numbered(count);
        world.publish(&all(&names, 1));
        world.drive();
        world.disconnect();
        world.publish(&[("a", Some(2)), ("c00001", None)]);
        let responses = world.open_and_take();
        let cost = allocation_counter::measure(|| {
            for (stream, response) in &responses {
                world.follower.handle_watch(world.now, *stream, response);
            }
            while world.follower.poll_event().is_some() {}
        });
        assert_eq!(world.follower.status(world.now).lanes[0].behind, 0);
        cost
    });
    assert!(
        many.count_total.abs_diff(few.count_total) <= 10,
        "{few:?}, {many:?}"
    );
    assert!(many.bytes_total < 2 * few.bytes_total, "{few:?}, {many:?}");
}

#[test]
fn g8_stage_without_a_head_is_never_served() {
    let mut world = World::serving(&[("a", Some(1))]);
    // When a writer dies after it wrote its stage, then nothing of it is served, also after a restart of the replica.
    let mut other = world.etcd.clone();
    let mut writer = world.writer("main").clone();
    writer.stage(&mut other, &[("b", Some(2))]);
    let staged = other.keys("/oxds/default/l/main/s/");
    let kv = &staged[0];
    world
        .etcd
        .put(std::str::from_utf8(&kv.key).unwrap(), kv.value.clone());
    world.pass_seconds(30);
    world.follower = oxds_etcd::follower::Follower::new(super::world::config());
    world.served.clear();
    world.pass_seconds(30);
    assert!(!world.served.contains_key(&entry("b")));
    assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
}

#[test]
fn g17_replica_resumes_after_the_last_applied_publish() {
    let mut world = World::serving(&[("a", Some(1))]);
    for content in 2..20 {
        // When the connection is reset, sometimes with a publish in between.
        world.disconnect();
        world.publish(&[("a", Some(content))]);
        if content % 3 == 0 {
            let member = world.member();
            world.set_member(member, Member::Down);
            world.pass_seconds(40);
            world.set_member(member, Member::Up);
        }
        world.pass_seconds(1);
        world.publish(&[("b", Some(content))]);
        world.drive();
        world.check_current();
    }
    // Then each publish is in the history once, in order, and nothing was read again.
    let history = world.history();
    assert!(history.is_sorted_by(|a, b| a < b), "{history:?}");
    assert_eq!(
        world
            .updates
            .iter()
            .map(|update| update.publishes)
            .sum::<u64>(),
        37
    );
    assert_eq!(world.complete_reads(), 1);
    let sent: Vec<_> = world
        .updates
        .iter()
        .map(|update| update.changes.upserts.len())
        .collect();
    assert!(
        sent.iter().all(|sent| *sent <= 1),
        "no resource twice: {sent:?}"
    );
}

#[test]
fn g19_fragments_of_one_revision_are_applied_together() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.fragment = Some(1);
    let names = numbered(200);
    world.publish(&all(&names, 1));
    world.publish(&[("a", None)]);
    world.drive();
    assert_eq!(world.history(), [1, 2, 3]);
    world.check_current();
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g19_stream_that_ends_within_a_revision_resumes_before_it() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.fragment = Some(2);
    let names = numbered(9);
    world.publish(&all(&names, 1));
    // When the connection breaks after each number of fragments.
    for inputs in 1..6 {
        world.drive_inputs(inputs);
        world.disconnect();
        world.pass_seconds(1);
        world.check_current();
        world.publish(&all(&names, inputs + 1));
    }
    assert_eq!(world.complete_reads(), 1);
}

#[test]
fn g19_memory_of_a_catch_up_follows_the_largest_publish() {
    // Given 4,000 publishes of 10 KB, 40 MB, to catch up with.
    let mut world = World::serving(&[("a", Some(1))]);
    world.disconnect();
    for content in 0..4_000 {
        world.publish(&[("a", Some(10_000 + content % 2))]);
    }
    // When the events come one by one.
    let mut responses = world.open_and_take();
    assert!(responses.len() > 4_000, "{}", responses.len());
    let mut most = 0;
    let info = allocation_counter::measure(|| {
        for (stream, response) in &mut responses {
            let one = allocation_counter::measure(|| {
                world.follower.handle_watch(world.now, *stream, response);
            });
            most = most.max(one.bytes_current);
        }
    });
    // Then the follower keeps one value, although no update was polled.
    assert!(info.bytes_current < 100_000, "{}", info.bytes_current);
    world.poll_events();
    assert_eq!(world.updates.last().unwrap().publishes, 4_000);
}

#[test]
fn g23_publishes_coalesce_while_the_store_is_slow() {
    let mut world = World::serving(&[("a", Some(1))]);
    world.is_busy = true;
    for content in 0..1_000 {
        world.publish(&[("a", Some(content)), ("b", Some(content))]);
        world.drive();
        world.pass(std::time::Duration::from_millis(1));
    }
    // Then the status shows the lag in seq and in seconds.
    let status = world.follower.status(world.now);
    assert_eq!(status.lanes[0].behind, 1_000);
    assert!(status.lanes[0].behind_for >= std::time::Duration::from_millis(990));
    // And one update brings the store to the last head.
    world.is_busy = false;
    world.drive();
    assert_eq!(world.history(), [1, 1_001]);
    assert_eq!(world.updates[1].changes.upserts.len(), 2);
    assert_eq!(world.follower.status(world.now).lanes[0].behind, 0);
    world.check_current();
}
