//! Publishes of any size, and writers that are killed in the middle of one.

use super::{Store, clusters, key_of};
use crate::support::{cluster, folder};

/// given etcd's default limits / when this number of resources changes / then one publish has all of them.
#[test]
fn g7_each_size_is_one_publish() {
    for count in [127, 128, 4_032, 4_033] {
        let store = Store::start();
        let dir = folder(&[("all.yaml", &clusters(count, ""))]);
        let texts = [&*format!("published 1 to lane main: {count} added")];
        store.publish(dir.path(), []).expect(0, &texts);
        let keys = store.keys();
        assert_eq!((keys.names("main").len(), keys.staged()), (count, 0));
        assert_eq!(keys.head("main").expect("a head").staged, None);
    }
}

/// given etcd's default limits / when the changes have more bytes than a request / then one publish has all of them.
#[test]
fn g7_each_number_of_bytes_is_one_publish() {
    for kib in [1_400, 1_600, 5_000] {
        let store = Store::start();
        let text = "x".repeat(20_000);
        let count = kib * 1024 / 20_000;
        let dir = folder(&[("all.yaml", &clusters(count, &text))]);
        store.publish(dir.path(), []).expect(0, &["published 1"]);
        let keys = store.keys();
        assert_eq!((keys.names("main").len(), keys.staged()), (count, 0));
    }
}

/// given a large publish / when its writer is killed at any step / then the whole old or the whole new state is
/// published, and the next publish completes or undoes it, and leaves none of its keys.
#[test]
fn g8_killed_writer_leaves_a_whole_state() {
    let limit = ["--max-request-bytes", "6000"];
    let text = "y".repeat(900);
    let large = folder(&[("all.yaml", &clusters(12, &text))]);
    let old = [key_of("before")];
    let (mut was_old, mut was_new) = (0, 0);
    for step in 0.. {
        let store = Store::start();
        store
            .publish(folder(&[("a.yaml", &cluster("before"))]).path(), [])
            .expect(0, &[]);
        let before = store.etcd.activity().calls;
        let calls = before.iter().filter(|(method, _)| **method != "Status");
        let calls = calls.map(|(_, count)| count).sum::<usize>();
        // Given a writer that is killed after this number of requests:
        store.etcd.hold_after(step);
        let mut writer = store.begin(&store.etcd, large.path(), limit);
        let is_done = store.waits_or_ends(&mut writer, calls + step + 1);
        writer.kill().expect("a signal");
        writer.wait().expect("ended");
        let gone = store.etcd.reach(|activity| activity.connections == 0);
        store
            .runtime
            .block_on(gone)
            .expect("the connection ends with its process");
        store.etcd.release();
        // Then the state is whole.
        let names = store.keys().names("main");
        match store.seq() {
            1 => assert_eq!(names, old, "killed after {step} requests"),
            _ => assert_eq!(names.len(), 13, "killed after {step} requests"),
        }
        was_old += usize::from(names.len() == 1);
        was_new += usize::from(names.len() == 13);
        // And the next publish cleans up, once the lease has ended.
        store.end_leases();
        let seq = store.seq();
        store
            .publish(folder(&[("b.yaml", &cluster("after"))]).path(), limit)
            .expect(0, &[]);
        let keys = store.keys();
        assert_eq!(
            (keys.staged(), store.seq()),
            (0, seq + 1),
            "killed after {step} requests"
        );
        assert_eq!(keys.names("main").len(), names.len() + 1);
        if is_done {
            break;
        }
    }
    assert!(was_old > 4 && was_new > 4, "{was_old} old, {was_new} new");
}
