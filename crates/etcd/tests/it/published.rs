//! One read of everything that is published.

use std::collections::BTreeMap;

use oxds_etcd::published::{PublishedLane, PublishedRead, ReadError};
use oxds_etcd::{Entry, FormatError, Segment};

use super::model::Etcd;
use super::publisher::rig::{
    Fault, Writer, cluster, folder, lane, large, limited, many, options, prefix, publish,
    publish_limited, state_of,
};

fn read(etcd: &Etcd) -> Result<BTreeMap<Segment, PublishedLane>, ReadError> {
    let mut read = PublishedRead::new(prefix());
    loop {
        let page = etcd.range(&read.request()).expect("not compacted");
        if let Some(lanes) = read.take(page)? {
            return Ok(lanes);
        }
    }
}

fn contents(lane: &PublishedLane) -> BTreeMap<Entry, oxds_etcd::Stored> {
    let entries = lane.entries.iter();
    entries
        .map(|(entry, stored)| (entry.clone(), (**stored).clone()))
        .collect()
}

#[test]
fn g1_read_has_what_was_published_in_several_pages() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, many(300, "1"));
    let lanes = read(&etcd).unwrap();
    let main = &lanes[&lane("main")];
    assert_eq!(main.head.as_ref().map(|head| head.seq), Some(1));
    assert!(main.is_vouched && main.unreadable.is_empty());
    assert!(contents(main) == state_of(&many(300, "1")));
}

#[test]
fn g8_read_applies_the_stage_that_a_head_names() {
    // Given a large publish whose writer was killed after the commit, before the moves:
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, folder([("before", "1")]));
    let mut writer = Writer::new(limited(2), large());
    let seq = |etcd: &Etcd| {
        let lanes = read(etcd).unwrap();
        lanes[&lane("main")].head.as_ref().map(|head| head.seq)
    };
    while seq(&etcd) == Some(1) {
        writer.step(&mut etcd, Fault::None);
    }
    // Then the read has all of it.
    let lanes = read(&etcd).unwrap();
    let mut expected = state_of(&folder([("before", "1")]));
    expected.extend(state_of(&large()));
    assert!(lanes[&lane("main")].is_vouched);
    assert!(contents(&lanes[&lane("main")]) == expected);
}

#[test]
fn g14_read_shows_that_no_head_vouches_for_keys() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1"), ("b", "1")]));
    etcd.put(
        "/oxds/default/l/main/r/envoy.config.cluster.v3.Cluster/c",
        "?",
    );
    let lanes = read(&etcd).unwrap();
    let main = &lanes[&lane("main")];
    assert!(main.is_vouched, "the key cannot be read, so it is no entry");
    let (key, _) = &main.unreadable[0];
    assert_eq!(key, "l/main/r/envoy.config.cluster.v3.Cluster/c");
    etcd.delete(&format!("/oxds/default/l/main/{}", cluster("a")));
    assert!(!read(&etcd).unwrap()[&lane("main")].is_vouched);
}

#[test]
fn g4_read_of_a_newer_format_is_an_error() {
    let mut etcd = Etcd::default();
    let writer = Writer::new(options(1), folder([("a", "1")])).run(&mut etcd);
    assert_eq!(writer.seq(), 1);
    etcd.put("/oxds/default/format", "7");
    let error = read(&etcd).unwrap_err();
    assert_eq!(error, ReadError::Format(FormatError::Newer { found: 7 }));
}
