//! Keys that were changed without a publish (G-14).

use oxds_etcd::publisher::{Foreign, PublishError, PublishOptions};
use oxds_etcd::{Key, Segment};

use super::history::{chain, latest};
use super::rig::{Writer, cluster, folder, lane, options, prefix, publish, state_of, stored};
use crate::model::Etcd;

fn key_of(name: &str) -> String {
    let key = prefix().key(&Key::Entry(lane("main"), cluster(name)));
    String::from_utf8(key.to_vec()).unwrap()
}

/// A published folder in which one value was changed, one added, one removed and one damaged.
fn changed_by_hand() -> Etcd {
    let mut etcd = Etcd::default();
    publish(
        &mut etcd,
        1,
        folder([("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]),
    );
    etcd.put(
        &key_of("a"),
        stored(&cluster("a"), b"by hand").encoded().clone(),
    );
    etcd.put(
        &key_of("new"),
        stored(&cluster("new"), b"by hand").encoded().clone(),
    );
    etcd.delete(&key_of("b"));
    etcd
}

fn with(foreign: Foreign, id: u128) -> PublishOptions {
    PublishOptions {
        foreign,
        ..options(id)
    }
}

#[test]
fn g14_publish_fails_after_changes_by_hand() {
    let mut etcd = changed_by_hand();
    let revision = etcd.revision();
    let writer = publish(&mut etcd, 2, folder([("e", "1")]));
    let keys = ["a", "b", "new"].map(|name| cluster(name).to_string());
    assert_eq!(writer.error(), &PublishError::Foreign { keys: keys.into() });
    let text = writer.error().to_string();
    assert!(
        text.contains("--repair") && text.contains("--adopt"),
        "{text}"
    );
    assert_eq!(etcd.revision(), revision);
}

#[test]
fn g14_changed_keys_are_named_after_a_compaction_too() {
    let mut etcd = changed_by_hand();
    etcd.compact(etcd.revision());
    let writer = publish(&mut etcd, 2, folder([("e", "1")]));
    // A removed key leaves no trace.
    let keys = ["a", "new"].map(|name| cluster(name).to_string());
    assert_eq!(writer.error(), &PublishError::Foreign { keys: keys.into() });
    let repair = Writer::new(with(Foreign::Repair, 3), folder([])).run(&mut etcd);
    assert!(
        matches!(repair.error(), PublishError::Irreparable { .. }),
        "{}",
        repair.error()
    );
}

#[test]
fn g14_repair_restores_the_published_state() {
    let mut etcd = changed_by_hand();
    let junk = format!(
        "{}r/not a type/x",
        prefix().lane(&lane("main")).start.escape_ascii()
    );
    etcd.put(&junk, "junk");
    etcd.put(&key_of("d"), "not a value");
    let writer = Writer::new(with(Foreign::Repair, 2), folder([("e", "1")])).run(&mut etcd);
    // Then a new publish has the state before the changes, and the wanted change.
    assert_eq!(writer.seq(), 2);
    let expected = folder([("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1")]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&expected));
    assert!(
        publish(&mut etcd, 3, expected)
            .outcome()
            .is_some_and(Result::is_ok)
    );
}

/// given damaged, changed and removed values / when a repair prunes their entries / then nothing is left of them.
#[test]
fn g14_repair_with_prune_deletes_damaged_values() {
    let mut etcd = changed_by_hand();
    etcd.put(&key_of("d"), "not a value");
    let wanted = folder([("c", "1")]);
    let options = PublishOptions {
        prune: true,
        ..with(Foreign::Repair, 2)
    };
    let writer = Writer::new(options, wanted.clone()).run(&mut etcd);
    assert_eq!(writer.seq(), 2);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&wanted));
    let next = publish(&mut etcd, 3, folder([("c", "2")]));
    assert_eq!(next.seq(), 3, "no key is foreign any more");
}

#[test]
fn g14_adopt_publishes_the_changes() {
    let mut etcd = changed_by_hand();
    let writer = Writer::new(with(Foreign::Adopt, 2), folder([("e", "1")])).run(&mut etcd);
    assert_eq!(writer.seq(), 2);
    let expected = folder([
        ("a", "by hand"),
        ("c", "1"),
        ("d", "1"),
        ("e", "1"),
        ("new", "by hand"),
    ]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&expected));
}

#[test]
fn g14_values_that_cannot_be_read_are_not_adopted() {
    let mut etcd = changed_by_hand();
    etcd.put(&key_of("d"), "not a value");
    let of_group = Key::Entry(
        lane("main"),
        oxds_etcd::Entry::Matcher(Segment::group("g").unwrap()),
    );
    let matcher = String::from_utf8(prefix().key(&of_group).to_vec()).unwrap();
    etcd.put(
        &matcher,
        stored(&cluster("a"), b"a cluster").encoded().clone(),
    );
    let writer = Writer::new(with(Foreign::Adopt, 2), folder([])).run(&mut etcd);
    let PublishError::Unreadable { keys } = writer.error() else {
        panic!("{}", writer.error());
    };
    assert!(
        keys.len() == 2
            && keys[0].starts_with(&cluster("d").to_string())
            && keys[1].starts_with("g/g"),
        "{keys:?}"
    );
}

#[test]
fn g14_entries_without_a_head_are_foreign() {
    let mut etcd = Etcd::default();
    etcd.put(
        &key_of("a"),
        stored(&cluster("a"), b"by hand").encoded().clone(),
    );
    let writer = publish(&mut etcd, 1, folder([("b", "1")]));
    let keys = vec![cluster("a").to_string()];
    assert_eq!(writer.error(), &PublishError::Foreign { keys });
    let repair = Writer::new(with(Foreign::Repair, 2), folder([("b", "1")])).run(&mut etcd);
    assert_eq!(repair.seq(), 1);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("b", "1")]))
    );
}

#[test]
fn g14_options_do_nothing_without_foreign_changes() {
    for foreign in [Foreign::Repair, Foreign::Adopt] {
        let mut etcd = Etcd::default();
        publish(&mut etcd, 1, folder([("a", "1")]));
        let writer = Writer::new(with(foreign, 2), folder([("a", "2")])).run(&mut etcd);
        assert_eq!((writer.seq(), chain(&etcd, &lane("main")).len()), (2, 2));
    }
}
