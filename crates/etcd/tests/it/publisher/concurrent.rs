//! Several writers of one lane (G-10).

use std::collections::BTreeMap;

use oxds_etcd::PublishId;
use oxds_etcd::publisher::{PublishError, PublishOptions, Wanted};

use super::history::{chain, latest};
use super::rig::{Fault, Writer, cluster, folder, lane, options, publish, state_of, stored};
use crate::model::Etcd;

fn published() -> Etcd {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1"), ("b", "1")]));
    etcd
}

/// Starts a publish and stops it before its commit; then another one is made.
fn overtaken(etcd: &mut Etcd, slow: (PublishOptions, Wanted), fast: Wanted) -> Writer {
    let mut writer = Writer::new(slow.0, slow.1);
    while writer.events.is_empty() {
        writer.step(etcd, Fault::None);
    }
    publish(etcd, 3, fast);
    writer.run(etcd)
}

#[test]
fn g10_publishes_of_different_names_both_succeed() {
    // Given two writers whose folders have the same base; each changes another name:
    let mut etcd = published();
    let slow = folder([("a", "2"), ("b", "1")]);
    let slow = overtaken(
        &mut etcd,
        (options(2), slow),
        folder([("a", "1"), ("b", "2")]),
    );
    // Then both changes are there: the second one does not undo the first.
    assert_eq!(slow.seq(), 3);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("a", "2"), ("b", "2")]))
    );
    assert_eq!(chain(&etcd, &lane("main")).len(), 3);
}

#[test]
fn g10_publish_of_another_while_the_state_is_made_is_kept() {
    // Given a writer that has read, when another one publishes before it has its wanted state:
    let mut etcd = published();
    let slow = Writer::reading(options(2), &mut etcd);
    publish(&mut etcd, 3, folder([("c", "1")]));
    let slow = slow.with(folder([("d", "1")]), &mut etcd);
    // Then it reads again, and both are published.
    assert_eq!(slow.seq(), 3);
    let all = folder([("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&all));
}

#[test]
fn g10_publishes_of_the_same_name_conflict() {
    let mut etcd = published();
    let slow = (options(2), folder([("a", "2")]));
    let slow = overtaken(&mut etcd, slow, folder([("a", "3")]));
    // Then the second one fails, and states who changed the name and when.
    let PublishError::Conflicts(conflicts) = slow.error() else {
        panic!("{}", slow.error());
    };
    let [conflict] = &conflicts[..] else {
        panic!("{conflicts:?}");
    };
    assert_eq!(
        (&conflict.entry, conflict.publish),
        (&cluster("a"), options(3).id)
    );
    assert_eq!(
        (&*conflict.by, conflict.at, conflict.seq, conflict.is_exact),
        ("writer-3", 1_003, 2, true)
    );
    let text = slow.error().to_string();
    assert!(
        text.contains("writer-3") && text.contains("--force"),
        "{text}"
    );
    assert_eq!(latest(&etcd, &lane("main")).0.seq, 2);
}

#[test]
fn g10_force_overwrites_a_conflict() {
    let mut etcd = published();
    let options = PublishOptions {
        force: true,
        ..options(2)
    };
    let slow = overtaken(
        &mut etcd,
        (options, folder([("a", "2")])),
        folder([("a", "3"), ("c", "1")]),
    );
    assert_eq!(slow.seq(), 3);
    let expected = folder([("a", "2"), ("b", "1"), ("c", "1")]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&expected));
}

#[test]
fn g10_equal_changes_are_no_conflict() {
    let mut etcd = published();
    let slow = (options(2), folder([("a", "2"), ("b", "2")]));
    let slow = overtaken(&mut etcd, slow, folder([("a", "2")]));
    assert_eq!(slow.seq(), 3);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("a", "2"), ("b", "2")]))
    );
}

#[test]
fn g10_removed_name_that_is_changed_conflicts() {
    let mut etcd = published();
    let mut writer = Writer::new(options(2), folder([("a", "2")]));
    while writer.events.is_empty() {
        writer.step(&mut etcd, Fault::None);
    }
    let remove = Wanted::Changes(BTreeMap::from([(cluster("a"), None)]));
    publish(&mut etcd, 3, remove);
    let writer = writer.run(&mut etcd);
    let PublishError::Conflicts(conflicts) = writer.error() else {
        panic!("{}", writer.error());
    };
    assert_eq!(
        (conflicts.len(), conflicts[0].is_exact, conflicts[0].seq),
        (1, false, 2)
    );
}

#[test]
fn g10_nothing_is_removed_without_prune() {
    let mut etcd = published();
    publish(&mut etcd, 2, folder([("c", "1")]));
    let all = folder([("a", "1"), ("b", "1"), ("c", "1")]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&all));
    let options = PublishOptions {
        prune: true,
        ..options(3)
    };
    Writer::new(options, folder([("c", "1")])).run(&mut etcd);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("c", "1")]))
    );
}

#[test]
fn g10_prune_keeps_names_that_came_after_its_base() {
    let mut etcd = published();
    let prune = PublishOptions {
        prune: true,
        ..options(2)
    };
    let slow = overtaken(
        &mut etcd,
        (prune, folder([("a", "1")])),
        folder([("new", "1")]),
    );
    assert_eq!(slow.seq(), 3);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("a", "1"), ("new", "1")]))
    );
}

#[test]
fn g10_base_makes_later_changes_conflicts() {
    // Given a folder that was made from publish 1, and two later publishes:
    let mut etcd = published();
    publish(&mut etcd, 2, folder([("a", "2")]));
    publish(&mut etcd, 3, folder([("c", "1")]));
    let with_base = |id: u128, base: PublishId| PublishOptions {
        base: Some(base),
        ..options(id)
    };
    let first = options(1).id;
    // When it changes a name that none of them changed, then it undoes neither.
    let wanted = folder([("a", "1"), ("b", "2")]);
    let writer = Writer::new(with_base(4, first), wanted).run(&mut etcd);
    assert_eq!(writer.seq(), 4);
    let expected = folder([("a", "2"), ("b", "2"), ("c", "1")]);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&expected));
    // When it changes one that publish 2 changed, then that is a conflict.
    let writer = Writer::new(with_base(5, first), folder([("a", "3")])).run(&mut etcd);
    let PublishError::Conflicts(conflicts) = writer.error() else {
        panic!("{}", writer.error());
    };
    assert_eq!((conflicts[0].seq, &*conflicts[0].by), (2, "writer-2"));
    // When the base is unknown, then nothing is published.
    let unknown = PublishId(99);
    let writer = Writer::new(with_base(6, unknown), folder([("a", "3")])).run(&mut etcd);
    assert_eq!(writer.error(), &PublishError::UnknownBase(unknown));
    etcd.compact(etcd.revision());
    let writer = Writer::new(with_base(7, first), folder([("a", "3")])).run(&mut etcd);
    assert_eq!(writer.error(), &PublishError::UnknownBase(first));
}

#[test]
fn g6_lanes_do_not_contend() {
    // Given writers of two lanes, when the other one publishes first:
    let mut etcd = published();
    let mut writer = Writer::new(options(2), folder([("a", "2")]));
    while writer.events.is_empty() {
        writer.step(&mut etcd, Fault::None);
    }
    let other = PublishOptions {
        lane: lane("other"),
        ..options(3)
    };
    assert_eq!(
        Writer::new(other, folder([("x", "1")]))
            .run(&mut etcd)
            .seq(),
        1
    );
    // Then the commit of the first one holds, and no key of the other lane is written.
    let requests = writer.requests.len();
    let writer = writer.run(&mut etcd);
    assert_eq!((writer.seq(), writer.requests.len()), (2, requests + 1));
    assert_eq!(
        latest(&etcd, &lane("other")).1,
        state_of(&folder([("x", "1")]))
    );
}

#[test]
fn changes_are_published_without_a_folder() {
    let mut etcd = published();
    let new = stored(&cluster("c"), b"1");
    let absent = cluster("absent");
    let changes = BTreeMap::from([
        (cluster("a"), None),
        (cluster("c"), Some(new)),
        (absent, None),
    ]);
    let writer = publish(&mut etcd, 2, Wanted::Changes(changes));
    assert_eq!(writer.seq(), 2);
    assert_eq!(
        latest(&etcd, &lane("main")).1,
        state_of(&folder([("b", "1"), ("c", "1")]))
    );
}
