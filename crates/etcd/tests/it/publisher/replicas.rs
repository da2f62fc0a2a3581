//! A replica that follows the publisher: each publish is one change set, whatever its size, also of writers that are
//! killed (G-1, G-7, G-8, G-27).

use std::collections::BTreeMap;

use oxds_core::snapshot::ResourceKey;
use oxds_core::time::Instant;
use oxds_etcd::Segment;
use oxds_etcd::follower::{
    Follower, FollowerConfig, FollowerEvent, FollowerTransmit, FollowerUpdate, StreamId,
};
use oxds_etcd::publisher::PublishOptions;
use oxds_types::Version;
use oxds_types::etcd::{Event, WatchResponse};

use super::history::served;
use super::rig::{
    Fault, Writer, cluster, folder, lane, large, limited, many, options, prefix, publish,
};
use crate::model::Etcd;

/// Follower with its driver, before an etcd without faults.
struct Replica {
    follower: Follower,
    /// Open watch, and the next revision that it delivers.
    watch: Option<(StreamId, i64)>,
    served: BTreeMap<ResourceKey, Version>,
    updates: Vec<FollowerUpdate>,
}

impl Replica {
    fn new() -> Self {
        let replica = Segment::replica("r1").unwrap();
        Self {
            follower: Follower::new(FollowerConfig::new(prefix(), replica)),
            watch: None,
            served: BTreeMap::new(),
            updates: Vec::new(),
        }
    }

    /// Lets the follower act until it has seen everything.
    fn drive(&mut self, etcd: &Etcd) {
        while self.answer(etcd) || self.deliver(etcd) {}
        while let Some(event) = self.follower.poll_event() {
            if let FollowerEvent::Update(update) = event {
                for key in &update.changes.removals {
                    self.served.remove(key);
                }
                for new in &update.changes.upserts {
                    let key = (new.resource_type().clone(), new.name().clone());
                    self.served.insert(key, new.version());
                }
                self.updates.push(*update);
            }
        }
    }

    /// Does the next action of the follower. Returns whether there was one.
    fn answer(&mut self, etcd: &Etcd) -> bool {
        let now = Instant::EPOCH;
        match self.follower.poll_transmit(now) {
            None => return false,
            Some(FollowerTransmit::Connect { connection, .. }) => {
                self.follower.handle_connected(now, connection);
            }
            Some(FollowerTransmit::Range { id, request }) => {
                let response = etcd.range(&request).expect("not compacted");
                self.follower.handle_range(now, id, Ok(response));
            }
            Some(FollowerTransmit::OpenWatch { stream, request }) => {
                self.watch = Some((stream, request.start_revision));
                let created = WatchResponse {
                    created: true,
                    ..response(etcd, Vec::new())
                };
                self.follower.handle_watch(now, stream, &created);
            }
            Some(other) => panic!("not needed here: {other:?}"),
        }
        true
    }

    /// Delivers the events of the next revision. Returns whether there was one.
    fn deliver(&mut self, etcd: &Etcd) -> bool {
        let Some((stream, next)) = &mut self.watch else {
            return false;
        };
        let Some((revision, events)) = etcd.events(*next).next() else {
            return false;
        };
        *next = revision + 1;
        let response = response(etcd, events.to_vec());
        self.follower
            .handle_watch(Instant::EPOCH, *stream, &response);
        true
    }

    /// Checks that the replica serves what the head of the lane vouches for.
    fn check(&self, etcd: &Etcd) {
        let published = served(etcd, &lane("main"), etcd.revision());
        let published = published.map(|(_, state)| state).unwrap_or_default();
        let published: BTreeMap<ResourceKey, Version> = published
            .iter()
            .map(|(entry, stored)| match entry {
                oxds_etcd::Entry::Resource(place) => (place.resource_key(), stored.version()),
                oxds_etcd::Entry::Matcher(_) => panic!("no groups here"),
            })
            .collect();
        assert!(self.served == published, "served differs from published");
    }

    fn seqs(&self) -> Vec<u64> {
        self.updates
            .iter()
            .map(|update| update.heads[0].1.seq)
            .collect()
    }
}

fn response(etcd: &Etcd, events: Vec<Event>) -> WatchResponse {
    WatchResponse {
        header: Some(etcd.header()),
        events,
        ..WatchResponse::default()
    }
}

#[test]
fn g7_replica_applies_each_publish_as_one_change_set() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("before", "1")]));
    let mut replica = Replica::new();
    replica.drive(&etcd);
    for (at, count) in [1, 127, 128, 4_032, 4_033].into_iter().enumerate() {
        // When the replica looks after each request of the writer:
        let content = format!("{at}");
        let mut writer = Writer::new(options(at as u128 + 2), many(count, &content));
        while writer.step(&mut etcd, Fault::None) {
            replica.drive(&etcd);
        }
        // Then it has applied one change set with all changes.
        assert_eq!(replica.updates.len(), at + 2, "{count} changes");
        assert_eq!(replica.updates[at + 1].changes.upserts.len(), count);
        replica.check(&etcd);
    }
    assert_eq!(replica.seqs(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn g8_replica_never_serves_a_part_of_a_killed_publish() {
    let mut steps = 0;
    loop {
        let mut etcd = Etcd::default();
        publish(&mut etcd, 1, folder([("before", "1")]));
        let mut running = Replica::new();
        running.drive(&etcd);
        // Given a writer that is killed after some requests:
        let mut killed = Writer::new(limited(2), large());
        let has_ended = (0..steps).any(|_| {
            let has_ended = !killed.step(&mut etcd, Fault::None);
            running.drive(&etcd);
            running.check(&etcd);
            has_ended
        });
        // When another writer completes it or undoes it, then replicas that were there, and new ones, agree.
        etcd.expire();
        let mut next = Writer::new(limited(3), folder([("after", "1")]));
        while next.step(&mut etcd, Fault::None) {
            let mut new = Replica::new();
            for replica in [&mut running, &mut new] {
                replica.drive(&etcd);
                replica.check(&etcd);
            }
        }
        assert_eq!(
            running.updates.len() as u64,
            next.seq(),
            "one change set per publish"
        );
        if has_ended {
            return assert!(steps > 9);
        }
        steps += 1;
    }
}

#[test]
fn g27_replica_follows_a_publish_that_accepts_the_restore() {
    // Given a replica that serves publish 3, and a backup of publish 1:
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1")]));
    let mut backup = etcd.clone();
    for id in 2..4 {
        publish(&mut etcd, id, folder([("a", &*format!("{id}"))]));
    }
    let mut replica = Replica::new();
    replica.drive(&etcd);
    assert_eq!(replica.seqs(), [3]);
    // When the backup is restored, and a publish on top of it accepts that:
    let status = format!("{}x/r1", prefix());
    backup.put(&status, r#"{"lanes":{"main":{"seq":3}}}"#);
    let refused = publish(&mut backup, 4, folder([("b", "1")]));
    assert!(refused.error().to_string().contains("--accept-restored"));
    let options = PublishOptions {
        accept_restored: true,
        ..options(5)
    };
    let writer = Writer::new(options, folder([("b", "1")])).run(&mut backup);
    // Then its seq is greater than the replica's, and a replica that starts serves it at once.
    assert_eq!(writer.seq(), 4);
    let mut new = Replica::new();
    new.drive(&backup);
    assert_eq!(new.seqs(), [4]);
    new.check(&backup);
    assert_eq!(new.served.len(), 2, "{:?}", [cluster("a"), cluster("b")]);
}
