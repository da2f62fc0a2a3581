//! The check finds a history that is not clean.

use oxds_etcd::{Digest, Head, PublishId};

use super::content::{Change, LANES, single};
use super::record::Record;
use super::sight::{Sight, WIPED};
use crate::Fallible;
use crate::subscriber::{Clusters, Received};
use crate::wire::Protocol;

/// A record of publishes 1 and 2, one of each lane, and of more of the first lane.
fn record(more: usize) -> Record {
    let mut record = Record::default();
    for number in 1..=2 + more {
        let lane = usize::from(number == 2);
        begin(&mut record, number, lane);
        publish(&mut record, number, lane).expect("a chain");
        record.acknowledge(number, Some(id(number)));
    }
    record
}

/// Each publish has a cluster of its own.
fn begin(record: &mut Record, number: usize, lane: usize) {
    record.begin(Change {
        number,
        lane,
        upserts: [single(lane, number)].into(),
        ..Change::default()
    });
}

fn id(number: usize) -> PublishId {
    PublishId(u128::try_from(number).expect("small"))
}

/// The head of a publish on the tip of its lane.
fn head(record: &Record, number: usize, lane: usize) -> Head {
    let seq = record.state(lane).len().max(1);
    let seq = u64::try_from(seq).expect("small");
    let head = Head::new(id(number), record.tip(lane), seq, Digest::default());
    head.described("", 0, &format!("{}#{number}", LANES[lane]))
}

fn publish(record: &mut Record, number: usize, lane: usize) -> Fallible {
    let head = head(record, number, lane);
    record.publish(lane, &head)
}

fn fails(done: Fallible, text: &str) {
    let error = done.expect_err("a fault").to_string();
    assert!(error.contains(text), "{error}");
}

/// All clusters after the first publishes of both lanes and `more` of the first one.
fn state(more: usize) -> Clusters {
    let record = record(more);
    let states = [record.state(0), record.state(1)];
    states.into_iter().flatten().collect()
}

fn sotw(changed: Clusters) -> Received {
    Received {
        changed,
        ..Received::default()
    }
}

fn sight(protocol: Protocol) -> Sight {
    Sight::new("client".to_owned(), protocol, true)
}

#[test]
fn g40_clean_chain_passes() {
    let record = record(3);
    record.check_acknowledged().expect("clean");
    assert_eq!(record.tips(), [Some(3), Some(0)]);
}

#[test]
fn g40_lost_publish_is_found() {
    let mut record = record(1);
    begin(&mut record, 4, 0);
    record.check_acknowledged().expect("not acknowledged");
    record.acknowledge(4, None);
    fails(record.check_acknowledged(), "publish 4 was lost");
}

#[test]
fn g40_publish_under_another_id_is_found() {
    let mut record = record(1);
    record.acknowledge(3, Some(id(9)));
    fails(record.check_acknowledged(), "acknowledged as");
}

#[test]
fn g40_doubled_publish_is_found() {
    let mut record = record(1);
    // Another id, as a writer that tries again has, and the same id.
    let again = Head::new(id(99), record.tip(0), 3, Digest::default());
    let done = record.publish(0, &again.described("", 0, "main#3"));
    fails(done, "publish 3 was done twice");
    fails(publish(&mut record, 1, 0), "in the chain twice");
}

#[test]
fn g40_broken_chain_is_found() {
    let mut record = record(1);
    begin(&mut record, 4, 0);
    let orphan = Head::new(id(4), Some(id(1)), 3, Digest::default());
    fails(
        record.publish(0, &orphan.described("", 0, "main#4")),
        "parent",
    );
    let skipping = Head::new(id(4), record.tip(0), 4, Digest::default());
    let skipping = skipping.described("", 0, "main#4");
    fails(record.publish(0, &skipping), "head 4 where 3 was expected");
    let foreign = head(&record, 5, 0);
    fails(record.publish(0, &foreign), "no writer began");
    fails(record.publish(1, &head(&record, 4, 0)), "parent");
}

/// given a restore / then a seq may skip those that replicas serve, publishes after the backup count as published, and
/// an unknown head is found.
#[test]
fn g40_restored_store_goes_on_from_its_backup() {
    let mut record = record(2);
    let unknown = head(&record, 9, 0);
    fails(record.restore(0, &unknown), "unknown head");
    let backup = Head::new(id(1), None, 1, Digest::default());
    record.restore(0, &backup).expect("a known head");
    begin(&mut record, 5, 0);
    let next = Head::new(id(5), Some(id(1)), 4, Digest::default());
    let next = next.described("", 0, "main#5");
    record.publish(0, &next).expect("on the backup");
    record.check_acknowledged().expect("lost rightly");
    assert!(!record.state(0).contains_key("main-n3"));
}

#[test]
fn g40_states_in_order_pass() {
    let record = record(3);
    let mut client = sight(Protocol::Sotw);
    for more in [0, 1, 1, 3] {
        client.see(&record, &sotw(state(more))).expect("in order");
    }
    let mut client = sight(Protocol::Delta);
    let (before, mut changes) = (state(1), state(2));
    client.see(&record, &sotw(before.clone())).expect("all");
    changes.retain(|name, text| before.get(name) != Some(text));
    client.see(&record, &sotw(changes)).expect("changes");
}

#[test]
fn g40_mix_of_two_publishes_is_found() {
    let record = record(2);
    let mut mixed = state(2);
    mixed.insert("main-n1".to_owned(), "main#4".to_owned());
    fails(
        sight(Protocol::Sotw).see(&record, &sotw(mixed)),
        "not the state of main#4",
    );
    let mut partial = state(2);
    partial.remove("main-n3");
    fails(
        sight(Protocol::Sotw).see(&record, &sotw(partial)),
        "main-n3 is None",
    );
    let mut empty = state(2);
    empty.retain(|name, _| !name.starts_with("canary"));
    fails(
        sight(Protocol::Sotw).see(&record, &sotw(empty)),
        "no canary-stamp",
    );
    let mut client = sight(Protocol::Delta);
    client.see(&record, &sotw(state(0))).expect("all");
    let stamp = [("main-stamp".to_owned(), "main#4".to_owned())];
    fails(
        client.see(&record, &sotw(stamp.into())),
        "not the state of main#4",
    );
}

#[test]
fn g40_unpublished_state_is_found() {
    let record = record(1);
    let done = sight(Protocol::Sotw).see(&record, &sotw(state(2)));
    fails(done, "main#4 was never published");
}

#[test]
fn g40_reordered_states_are_found() {
    let record = record(3);
    let mut client = sight(Protocol::Sotw);
    client.see(&record, &sotw(state(2))).expect("a state");
    fails(client.see(&record, &sotw(state(1))), "went back");
}

/// given a replica that was killed / when it starts again / then it may serve its saved state, but no state before the
/// last healing; without a state it may not go back.
#[test]
fn g40_restarted_replica_goes_back_within_limits() {
    let record = record(3);
    let mut client = sight(Protocol::Sotw);
    client.see(&record, &sotw(state(1))).expect("a state");
    client.heal([Some(1), Some(0)]);
    client.see(&record, &sotw(state(3))).expect("later");
    let of_process = |process, more| Received {
        process,
        ..sotw(state(more))
    };
    client.see(&record, &of_process(1, 2)).expect("saved");
    fails(
        client.see(&record, &of_process(2, 0)),
        "began at position 0",
    );
    let mut client = sight(Protocol::Sotw);
    client.see(&record, &sotw(state(3))).expect("a state");
    fails(client.see(&record, &of_process(WIPED, 2)), "went back");
}

/// given a delta client on a new stream / when the removal of a cluster is held / then the cluster does not count until
/// then, and on the same stream it would.
#[test]
fn g40_held_removal_counts_on_the_same_stream_only() {
    let mut record = record(1);
    let change = Change {
        number: 4,
        removals: [single(0, 3)].into(),
        ..Change::default()
    };
    record.begin(change);
    let next = Head::new(id(4), record.tip(0), 3, Digest::default());
    let next = next.described("", 0, "main#4");
    record.publish(0, &next).expect("a chain");
    let stamp = [("main-stamp".to_owned(), "main#4".to_owned())];
    let of_stream = |stream| Received {
        stream,
        ..sotw(stamp.clone().into())
    };
    let mut client = sight(Protocol::Delta);
    client.see(&record, &sotw(state(1))).expect("all");
    fails(client.see(&record, &of_stream(0)), "main-n3 is Some");
    let mut client = sight(Protocol::Delta);
    client.see(&record, &sotw(state(1))).expect("all");
    client.see(&record, &of_stream(1)).expect("held");
    let removal = Received {
        removed: vec![single(0, 3)],
        stream: 1,
        ..Received::default()
    };
    client.see(&record, &removal).expect("removed");
}
