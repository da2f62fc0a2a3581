//! Writers that are killed at any step (G-8).

use std::time::Duration;

use oxds_etcd::publisher::{PublishEvent, PublishRequest};

use super::history::{chain, latest, staged_keys};
use super::rig::{
    Fault, Writer, folder, lane, large, limited, many, options, publish_limited, state_of,
};
use crate::model::Etcd;

fn published() -> Etcd {
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, folder([("before", "1")]));
    etcd
}

/// Returns the number of requests of the large publish.
fn all_steps() -> usize {
    publish_limited(&mut published(), 2, large()).requests.len()
}

/// Kills the writer of a large publish after each number of requests, and passes the store on.
fn kill_at_each_step(then: impl Fn(usize, Etcd)) {
    let steps = all_steps();
    assert!(
        steps > 9,
        "{steps} steps: reads, lease, alive, 2 batches, commit, moves, the end"
    );
    for step in 0..=steps {
        let mut etcd = published();
        Writer::new(limited(2), large()).steps(&mut etcd, step);
        then(step, etcd);
    }
}

#[test]
fn g8_killed_writer_leaves_the_old_or_the_new_state() {
    let after: Vec<usize> = (0..=all_steps())
        .map(|step| {
            let mut etcd = published();
            Writer::new(limited(2), large()).steps(&mut etcd, step);
            // The check of the chain: at each revision, a head vouches for what is served.
            chain(&etcd, &lane("main")).len()
        })
        .collect();
    let old = after.iter().filter(|publishes| **publishes == 1).count();
    let new = after.iter().filter(|publishes| **publishes == 2).count();
    assert_eq!(old + new, after.len());
    assert!(old > 4 && new > 4, "the commit is in the middle: {after:?}");
}

#[test]
fn g8_next_publish_completes_or_undoes_a_killed_one() {
    kill_at_each_step(|step, mut etcd| {
        // Given a killed writer, whose lease has ended; when another writer publishes:
        let was_published = latest(&etcd, &lane("main")).0.seq == 2;
        etcd.expire();
        let next = publish_limited(&mut etcd, 3, folder([("after", "1")]));
        // Then nothing of the stage is left, and the state is whole.
        assert_eq!(staged_keys(&etcd), 0, "killed after {step} requests");
        let mut expected = state_of(&folder([("before", "1"), ("after", "1")]));
        if was_published {
            expected.extend(state_of(&large()));
        }
        assert!(
            latest(&etcd, &lane("main")).1 == expected,
            "killed after {step} requests"
        );
        assert_eq!(next.seq(), 2 + u64::from(was_published));
        chain(&etcd, &lane("main"));
    });
}

#[test]
fn g12_nothing_is_written_before_the_wanted_state() {
    kill_at_each_step(|step, mut etcd| {
        // When a writer reads before it has its wanted state, then it cleans up nothing yet.
        etcd.expire();
        let (revision, staged) = (etcd.revision(), staged_keys(&etcd));
        let writer = Writer::reading(limited(3), &mut etcd);
        assert_eq!((writer.outcome(), etcd.revision()), (None, revision));
        // When it has it, then it does what a writer does that had it from the beginning, and reads nothing twice.
        let mut other = etcd.clone();
        let writer = writer.with(folder([("after", "1")]), &mut etcd);
        let expected = publish_limited(&mut other, 3, folder([("after", "1")]));
        assert_eq!(writer.requests, expected.requests, "{staged} after {step}");
        assert_eq!(writer.events, expected.events, "{staged} after {step}");
    });
}

#[test]
fn g8_publish_without_changes_cleans_up_as_well() {
    kill_at_each_step(|step, mut etcd| {
        etcd.expire();
        let again = publish_limited(&mut etcd, 3, folder([("before", "1")]));
        assert!(again.outcome().is_some_and(Result::is_ok));
        assert_eq!(staged_keys(&etcd), 0, "killed after {step} requests");
    });
}

#[test]
fn g8_writer_that_cleans_up_may_be_killed_as_well() {
    kill_at_each_step(|first, etcd| {
        // Only a few steps of the second writer, for time: reads, deletion or completion.
        for second in [2, 3, 4, 5] {
            let mut etcd = etcd.clone();
            etcd.expire();
            let mut writer = Writer::new(limited(3), folder([("after", "1")]));
            for _ in 0..second {
                writer.step(&mut etcd, Fault::None);
            }
            etcd.expire();
            let third = publish_limited(&mut etcd, 4, folder([("last", "1")]));
            assert!(
                third.outcome().is_some_and(Result::is_ok),
                "{first}, {second}"
            );
            assert_eq!(staged_keys(&etcd), 0, "{first}, {second}");
            latest(&etcd, &lane("main"));
        }
    });
}

#[test]
fn g8_stage_of_a_live_writer_is_left_alone() {
    // Given a writer in the middle of its stage, when another one publishes:
    let mut etcd = published();
    let mut slow = Writer::new(limited(2), large());
    while staged_keys(&etcd) < 2 {
        slow.step(&mut etcd, Fault::None);
    }
    let staged = staged_keys(&etcd);
    let fast = publish_limited(&mut etcd, 3, folder([("fast", "1")]));
    assert_eq!((fast.seq(), staged_keys(&etcd)), (2, staged));
    // Then the slow one notices it at its commit, and publishes on top of it.
    let slow = slow.run(&mut etcd);
    assert_eq!((slow.seq(), staged_keys(&etcd)), (3, 0));
    let mut expected = state_of(&folder([("before", "1"), ("fast", "1")]));
    expected.extend(state_of(&large()));
    assert!(latest(&etcd, &lane("main")).1 == expected);
}

#[test]
fn g8_writer_whose_stage_was_deleted_begins_again() {
    let steps = all_steps();
    for step in 0..=steps {
        // Given a writer that was stopped for longer than its lease, and another one that cleaned up:
        let mut etcd = published();
        let stopped = Writer::new(limited(2), large()).steps(&mut etcd, step);
        etcd.expire();
        publish_limited(&mut etcd, 3, folder([("fast", "1")]));
        // When the first one goes on, then it publishes its whole change, once.
        let stopped = stopped.run(&mut etcd);
        assert!(
            stopped.outcome().is_some_and(Result::is_ok),
            "stopped after {step} requests"
        );
        assert_eq!(staged_keys(&etcd), 0, "stopped after {step} requests");
        let mut expected = state_of(&folder([("before", "1"), ("fast", "1")]));
        expected.extend(state_of(&large()));
        assert!(
            latest(&etcd, &lane("main")).1 == expected,
            "stopped after {step} requests"
        );
        assert_eq!(chain(&etcd, &lane("main")).len(), 3);
    }
}

#[test]
fn g8_late_moves_do_not_overwrite_a_later_publish() {
    // Given a writer that was stopped between its commit and the moves:
    let mut etcd = published();
    let mut stopped = Writer::new(limited(2), large());
    while latest(&etcd, &lane("main")).0.seq == 1 {
        stopped.step(&mut etcd, Fault::None);
    }
    // When another writer completes it, and publishes another value of an entry in it:
    let later = many(1, "later");
    publish_limited(&mut etcd, 3, later.clone());
    let before = latest(&etcd, &lane("main"));
    // Then the first writer ends well, and changes nothing any more.
    let stopped = stopped.run(&mut etcd);
    assert_eq!(stopped.seq(), 2);
    assert!(latest(&etcd, &lane("main")) == before);
    let later = state_of(&later);
    assert!(
        later
            .iter()
            .all(|(entry, stored)| before.1.get(entry) == Some(stored))
    );
    chain(&etcd, &lane("main"));
}

#[test]
fn g8_commit_never_names_a_deleted_stage() {
    for step in 0..all_steps() {
        // Given a stopped writer whose lease has ended, and another one that cleans up without a new head:
        let mut etcd = published();
        let stopped = Writer::new(limited(2), large()).steps(&mut etcd, step);
        etcd.expire();
        publish_limited(&mut etcd, 3, folder([("before", "1")]));
        // When the first one goes on, then it publishes its whole change.
        let stopped = stopped.run(&mut etcd);
        assert_eq!((stopped.seq(), staged_keys(&etcd)), (2, 0));
        let mut expected = state_of(&folder([("before", "1")]));
        expected.extend(state_of(&large()));
        assert!(
            latest(&etcd, &lane("main")).1 == expected,
            "stopped after {step} requests"
        );
        chain(&etcd, &lane("main"));
    }
}

/// given a large publish / when it is committed / then etcd has time for the replicas before the moves, which need no
/// read.
#[test]
fn g8_moves_begin_after_a_pause() {
    let mut etcd = published();
    let mut writer = Writer::new(limited(2), large());
    while latest(&etcd, &lane("main")).0.seq == 1 {
        assert!(writer.step(&mut etcd, Fault::None), "it has ended");
    }
    let committed = writer.now;
    assert_eq!(writer.machine.poll_transmit(committed), None);
    let until = writer.machine.poll_timeout().expect("a pause");
    assert_eq!(until - committed, Duration::from_millis(250));
    let before = writer.requests.len();
    let writer = writer.run(&mut etcd);
    let after = &writer.requests[before..];
    assert!(
        !after
            .iter()
            .any(|request| matches!(request, PublishRequest::Range(_))),
        "{after:?}"
    );
    assert_eq!((writer.now, staged_keys(&etcd)), (until, 0));
}

#[test]
fn g8_events_name_the_completed_and_the_undone_publish() {
    let (mut completed, mut undone) = (0, 0);
    for step in 0..all_steps() {
        let mut etcd = published();
        Writer::new(limited(2), large()).steps(&mut etcd, step);
        etcd.expire();
        for event in publish_limited(&mut etcd, 3, folder([("after", "1")])).events {
            match event {
                PublishEvent::Completed { publish, by } => {
                    assert_eq!((publish, &*by), (options(2).id, "writer-2"));
                    completed += 1;
                }
                PublishEvent::Undone { publish } => {
                    assert_eq!(publish, options(2).id);
                    undone += 1;
                }
                _ => {}
            }
        }
    }
    assert!(
        completed >= 3 && undone >= 2,
        "{completed} completed, {undone} undone"
    );
}

#[test]
fn g8_long_stage_renews_its_lease() {
    // Given a stage of 37 batches of which each takes 4 s:
    let mut etcd = published();
    let wanted = many(100, &"x".repeat(500_000));
    let mut writer = Writer::new(options(2), wanted);
    while writer.step(&mut etcd, Fault::None) {
        writer.now += Duration::from_secs(4);
    }
    // Then the lease of 30 s is renewed at least every 15 s.
    let renewals = writer
        .requests
        .iter()
        .filter(|request| matches!(request, PublishRequest::KeepAlive(_)));
    let batches = writer
        .requests
        .iter()
        .filter(|request| matches!(request, PublishRequest::Txn(_)));
    let (renewals, batches) = (renewals.count(), batches.count());
    assert!(
        renewals * 4 >= batches / 2 - 4 && renewals > 5,
        "{renewals} renewals, {batches} batches"
    );
    assert_eq!(writer.seq(), 2);
}
