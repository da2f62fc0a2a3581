//! Several writers: lanes, conflicts, keys changed by hand, a restored store.

use std::process::Child;

use super::{Store, key_of, prefix};
use crate::support::{Ran, cluster, folder};

fn end(child: Child) -> Ran {
    child.wait_with_output().expect("ended").into()
}

/// given two lanes / when both publish / then the union is served, and a name in both is an error.
#[test]
fn g6_lanes_have_different_names() {
    let store = Store::start();
    let one = folder(&[("a.yaml", &cluster("a"))]);
    let two = folder(&[("b.yaml", &cluster("b"))]);
    store.publish(one.path(), []).expect(0, &[]);
    store
        .publish(two.path(), ["--lane", "two"])
        .expect(0, &["published 1 to lane two"]);
    store.get(["cds"]).expect(0, &["a ", "b "]);
    let both = folder(&[("a.yaml", &cluster("a")), ("c.yaml", &cluster("c"))]);
    let before = store.keys();
    store
        .publish(both.path(), ["--lane", "two"])
        .expect(1, &["Cluster/a is in lane main"]);
    assert_eq!(store.keys(), before);
}

/// given two writers at the same time / when they change different names / then both succeed. If they change the same
/// one, the second fails and names the first, unless it has --force.
#[test]
fn g10_concurrent_writers_conflict_only_on_the_same_name() {
    for (second, force, is_published) in
        [("b", false, true), ("a", false, false), ("a", true, true)]
    {
        let store = Store::start();
        let slow_member = store.runtime.block_on(store.etcd.join()).expect("a port");
        store
            .publish(folder(&[("z.yaml", &cluster("z"))]).path(), [])
            .expect(0, &[]);
        // Given a writer that has read the store, and whose next request is held:
        let calls = slow_member.activity().calls.values().sum::<usize>();
        slow_member.hold_after(2);
        let force = if force { &["--force"][..] } else { &[] };
        let text = cluster(second).replace("1s", "9s");
        let dir = folder(&[("x.yaml", &text)]);
        let slow = store.begin(&slow_member, dir.path(), force.iter().copied());
        store.wait_for_calls(&slow_member, calls + 3);
        // When another one publishes first:
        let note = ["--note", "first"];
        store
            .publish(folder(&[("y.yaml", &cluster("a"))]).path(), note)
            .expect(0, &["published 2"]);
        slow_member.release();
        // Then it publishes on top, or fails.
        let ran = end(slow);
        if is_published {
            ran.expect(0, &["published 3"])
        } else {
            ran.expect(1, &["Cluster/a", "in publish 2", "T", "--force"])
        };
        assert_eq!(store.seq(), if is_published { 3 } else { 2 });
        assert!(store.keys().names("main").contains(&key_of("a")));
    }
}

/// given keys that were changed without a publish / when something is published / then that fails and names them, until
/// they are restored or adopted.
#[test]
fn g14_keys_changed_by_hand_stop_a_publish() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let key = format!("{}l/main/{}", prefix(), key_of("a"));
    for (option, has_a) in [("--repair", true), ("--adopt", false)] {
        let store = Store::start();
        store.publish(dir.path(), []).expect(0, &[]);
        store.etcd.delete(key.clone());
        let next = folder(&[("c.yaml", &cluster("c"))]);
        let texts = ["Cluster/a", "--repair", "--adopt"];
        store.publish(next.path(), []).expect(1, &texts);
        assert_eq!(store.seq(), 1);
        store.get(["cds"]).expect(1, &["changed without a publish"]);
        store
            .publish(next.path(), [option])
            .expect(0, &["published 2"]);
        let names = store.keys().names("main");
        assert_eq!(names.contains(&key_of("a")), has_a, "{option}");
        assert!(names.contains(&key_of("c")));
        store.get(["cds"]).expect(0, &["c "]);
    }
    let both = Store::start();
    both.publish(dir.path(), ["--repair", "--adopt"])
        .expect(2, &[]);
}

/// given replicas that serve a later publish than the store has / when something is published / then that needs
/// --accept-restored.
#[test]
fn g27_restored_store_is_published_to_on_request() {
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store.publish(dir.path(), []).expect(0, &[]);
    let status = r#"{"id":"r1","lanes":{"main":{"seq":120}}}"#;
    store.etcd.put(format!("{}x/r1", prefix()), status);
    let next = folder(&[("b.yaml", &cluster("b"))]);
    let texts = [
        "store went back: serving 120, store has 1",
        "--accept-restored",
    ];
    store.publish(next.path(), []).expect(1, &texts);
    assert_eq!(store.seq(), 1);
    store
        .publish(next.path(), ["--accept-restored"])
        .expect(0, &["published 121"]);
    assert_eq!(store.seq(), 121);
}
