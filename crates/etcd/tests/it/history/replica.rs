//! A replica: the follower, a connection with faults, and what its clients have.

use std::collections::BTreeMap;
use std::time::Duration;

use oxds_core::snapshot::{Resource, ResourceKey};
use oxds_core::time::Instant;
use oxds_etcd::follower::{
    ConnectionId, Failure, FailureKind, Follower, FollowerConfig, FollowerEvent, FollowerTransmit,
    FollowerUpdate, SavedState, StreamId,
};
use oxds_etcd::{Head, Place, PublishId, Segment};
use oxds_types::etcd::{Event, WatchResponse};
use std::sync::Arc;

use super::random::Random;
use super::store::{LANES, Store};
use crate::model::{Etcd, EtcdError};
use crate::publisher::rig::{lane, prefix};

/// A replica and its driver.
pub(super) struct Replica {
    id: usize,
    follower: Follower,
    connection: Option<ConnectionId>,
    watch: Option<(StreamId, i64)>,
    served: BTreeMap<ResourceKey, Arc<Resource>>,
    heads: Vec<(Segment, Head)>,
    /// Place in the chain of each lane.
    places: BTreeMap<usize, usize>,
    /// Partition from the store, and the number of actions until it heals.
    cut: Option<(Cut, usize)>,
    /// The replica's clock is ahead of the store's by this time. It steps in both directions, and never goes back
    /// itself.
    ahead: Duration,
    clock: Instant,
}

/// A partition.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// Nothing arrives in either direction, and this is noticed.
    Both,
    /// Requests arrive nowhere, and nothing is noticed: the replica waits for answers.
    Requests,
    /// Answers and events of the store do not arrive.
    Answers,
}

impl Replica {
    pub(super) fn new(id: usize) -> Self {
        Self {
            id,
            follower: Follower::new(config(id)),
            connection: None,
            watch: None,
            served: BTreeMap::new(),
            heads: Vec::new(),
            places: BTreeMap::new(),
            cut: None,
            ahead: Duration::ZERO,
            clock: Instant::EPOCH,
        }
    }

    /// Does one thing, or suffers one fault.
    pub(super) fn act(&mut self, store: &mut Store, random: &mut Random) {
        match random.below(240) {
            0..=3 => self.restart(random.one_in(4)),
            4..=7 => self.fail(store),
            // The process or its connection stands still.
            8..=27 => return,
            28 => {
                let cut = [Cut::Both, Cut::Requests, Cut::Answers][random.below(3)];
                self.cut = Some((cut, 1 + random.below(100)));
            }
            29 => self.ahead = Duration::from_secs(random.below(60) as u64),
            _ => self.go_on(store, random),
        }
        self.heal_partition();
        let now = self.now(store);
        if self.follower.poll_timeout().is_some_and(|at| at <= now) {
            self.follower.handle_timeout(now);
        }
        if !random.one_in(3) {
            self.take(store);
        }
    }

    /// Returns the time of the replica: monotonic, whatever the clock does.
    fn now(&mut self, store: &Store) -> Instant {
        self.clock = self.clock.max(store.now + self.ahead);
        self.clock
    }

    fn heal_partition(&mut self) {
        self.cut = self
            .cut
            .and_then(|(cut, actions)| Some((cut, actions.checked_sub(1)?)));
    }

    /// Does the next action of the follower, or delivers the next events; what a partition lets pass of it.
    fn go_on(&mut self, store: &Store, random: &mut Random) {
        let cut = self.cut;
        match cut {
            None if self.answer(&store.etcd, store) => {}
            None => self.deliver(store, random),
            Some((cut, _)) => {
                let now = self.now(store);
                match self.follower.poll_transmit(now) {
                    Some(FollowerTransmit::Connect { connection, .. }) if cut == Cut::Both => {
                        let failure = Failure::new(FailureKind::Unreachable, "cut");
                        self.follower.handle_failed(now, connection, failure);
                    }
                    Some(FollowerTransmit::Range { id, .. }) if cut == Cut::Both => {
                        let failure = Failure::new(FailureKind::Unreachable, "cut");
                        self.follower.handle_range(now, id, Err(failure));
                    }
                    Some(FollowerTransmit::Disconnect) => {
                        (self.connection, self.watch) = (None, None);
                    }
                    Some(FollowerTransmit::CloseWatch { .. }) => self.watch = None,
                    // The request, or its answer, is lost.
                    Some(_) => {}
                    None if cut == Cut::Requests => self.deliver(store, random),
                    // The events are lost with the connection.
                    None => self.watch = None,
                }
            }
        }
    }

    /// Does all that is due, without faults, until the replica follows.
    pub(super) fn heal(&mut self, store: &mut Store) {
        self.cut = None;
        for _ in 0..200 {
            while self.answer(&store.etcd, store) || self.deliver_next(&store.etcd, store) {}
            self.take(store);
            store.now += Duration::from_secs(1);
            let now = self.now(store);
            if self.follower.poll_timeout().is_some_and(|at| at <= now) {
                self.follower.handle_timeout(now);
            }
        }
    }

    /// The replica serves the heads.
    pub(super) fn check_current(&self, store: &Store) {
        let heads = self.heads.iter();
        let heads: BTreeMap<Segment, PublishId> = heads
            .map(|(lane, head)| (lane.clone(), head.publish))
            .collect();
        assert_eq!(heads, store.heads(), "replica {}", self.id);
        let status = self.follower.status(self.clock);
        for lane in status.lanes {
            assert!(!lane.is_held && lane.behind == 0 && lane.diverged_for.is_zero());
        }
    }

    /// Writes the status key, as the driver does after an update.
    pub(super) fn report(&self, store: &mut Store) {
        let lanes: Vec<_> = self
            .heads
            .iter()
            .map(|(lane, head)| format!("\"{lane}\":{{\"seq\":{}}}", head.seq))
            .collect();
        let status = format!("{{\"lanes\":{{{}}}}}", lanes.join(","));
        store
            .etcd
            .put(&format!("{}x/r{}", prefix(), self.id), status);
    }

    fn restart(&mut self, is_empty: bool) {
        let places = std::mem::take(&mut self.places);
        let (heads, served) = (
            std::mem::take(&mut self.heads),
            std::mem::take(&mut self.served),
        );
        let (cut, ahead, clock) = (self.cut, self.ahead, self.clock);
        if is_empty || heads.is_empty() {
            *self = Self {
                cut,
                ahead,
                clock,
                ..Self::new(self.id)
            };
            return;
        }
        let resources = served.iter().map(|((of, name), resource)| {
            (
                Place::of_all(of.clone(), Arc::clone(name)),
                Arc::clone(resource),
            )
        });
        let saved = SavedState {
            heads: heads.clone(),
            resources: resources.collect(),
            matchers: Vec::new(),
        };
        *self = Self {
            follower: Follower::with_saved(config(self.id), saved),
            served,
            heads,
            places,
            cut,
            ahead,
            clock,
            ..Self::new(self.id)
        };
    }

    fn fail(&mut self, store: &Store) {
        self.watch = None;
        if let Some(connection) = self.connection.take() {
            let failure = Failure::new(FailureKind::Unreachable, "reset");
            let now = self.now(store);
            self.follower.handle_failed(now, connection, failure);
        }
    }

    /// Does the next action of the follower. Returns whether there was one.
    fn answer(&mut self, etcd: &Etcd, store: &Store) -> bool {
        let now = self.now(store);
        match self.follower.poll_transmit(now) {
            None => return false,
            Some(FollowerTransmit::Connect { connection, .. }) => {
                (self.connection, self.watch) = (Some(connection), None);
                self.follower.handle_connected(now, connection);
            }
            Some(FollowerTransmit::Disconnect) => (self.connection, self.watch) = (None, None),
            Some(FollowerTransmit::CloseWatch { .. }) => self.watch = None,
            Some(FollowerTransmit::Range { id, request }) => {
                let answer = etcd.range(&request).map_err(|error| match error {
                    EtcdError::Compacted => Failure::new(FailureKind::Compacted, "compacted"),
                    other => Failure::new(FailureKind::Other, format!("{other:?}")),
                });
                self.follower.handle_range(now, id, answer);
            }
            Some(FollowerTransmit::OpenWatch { stream, request }) => {
                self.watch = Some((stream, request.start_revision));
                let created = WatchResponse {
                    created: true,
                    ..response(etcd, Vec::new())
                };
                self.follower.handle_watch(now, stream, &created);
                if request.start_revision < etcd.compacted() {
                    self.watch = None;
                    let canceled = WatchResponse {
                        canceled: true,
                        compact_revision: etcd.compacted(),
                        ..response(etcd, Vec::new())
                    };
                    self.follower.handle_watch(now, stream, &canceled);
                }
            }
            Some(FollowerTransmit::RequestProgress { stream }) => {
                // etcd reports progress only of a watch that has delivered everything.
                if self.watch.is_some_and(|(_, next)| next > etcd.revision()) {
                    let progress = response(etcd, Vec::new());
                    self.follower.handle_watch(now, stream, &progress);
                }
            }
        }
        true
    }

    /// Delivers the next events: as they are, twice, without the last one, or not at all.
    fn deliver(&mut self, store: &Store, random: &mut Random) {
        let Some((stream, next)) = self.watch else {
            return;
        };
        let Some((revision, events)) = store.etcd.events(next).next() else {
            return;
        };
        let mut events = events.to_vec();
        let mut times = 1;
        match random.below(150) {
            0 => times = 2,
            1 => times = 0,
            2 => drop(events.pop()),
            3 => events.reverse(),
            _ => {}
        }
        self.watch = Some((stream, revision + 1));
        let now = self.now(store);
        for _ in 0..times {
            let response = response(&store.etcd, events.clone());
            self.follower.handle_watch(now, stream, &response);
        }
    }

    fn deliver_next(&mut self, etcd: &Etcd, store: &Store) -> bool {
        let Some((stream, next)) = &mut self.watch else {
            return false;
        };
        let Some((revision, events)) = etcd.events(*next).next() else {
            return false;
        };
        *next = revision + 1;
        let response = response(etcd, events.to_vec());
        let stream = *stream;
        let now = self.now(store);
        self.follower.handle_watch(now, stream, &response);
        true
    }

    /// The server takes all updates. Each must be a state of the chain, later than the one before.
    fn take(&mut self, store: &mut Store) {
        let mut has_new = false;
        while let Some(event) = self.follower.poll_event() {
            match event {
                FollowerEvent::Update(update) => {
                    self.apply(*update, store);
                    has_new = true;
                }
                FollowerEvent::Stopped(error) => panic!("{error}"),
                FollowerEvent::Findings { .. } | FollowerEvent::Notice(_) => {}
            }
        }
        if has_new {
            self.report(store);
        }
    }

    fn apply(&mut self, update: FollowerUpdate, store: &Store) {
        for key in &update.changes.removals {
            self.served.remove(key);
        }
        for new in update.changes.upserts {
            let key = (new.resource_type().clone(), Arc::clone(new.name()));
            self.served.insert(key, new);
        }
        self.heads = update.heads;
        let mut expected = BTreeMap::new();
        for (name, head) in &self.heads {
            let of = LANES.iter().position(|known| lane(known) == *name);
            let of = of.expect("a lane of the test");
            let at = store.position(of, head).expect("a publish of the chain");
            let before = self.places.insert(of, at);
            assert!(
                before.is_none_or(|before| before <= at),
                "lane {name} went back"
            );
            for (entry, stored) in store.state(of, at) {
                let oxds_etcd::Entry::Resource(place) = entry else {
                    panic!("no groups here");
                };
                expected.insert(place.resource_key(), stored.version());
            }
        }
        let served = self.served.iter();
        let served: BTreeMap<_, _> = served
            .map(|(key, one)| (key.clone(), one.version()))
            .collect();
        assert!(
            served == expected,
            "replica {} serves what was not published",
            self.id
        );
    }
}

fn config(id: usize) -> FollowerConfig {
    let replica = Segment::replica(&format!("r{id}")).expect("valid");
    FollowerConfig {
        seed: id as u64,
        ..FollowerConfig::new(prefix(), replica)
    }
}

fn response(etcd: &Etcd, events: Vec<Event>) -> WatchResponse {
    WatchResponse {
        header: Some(etcd.header()),
        events,
        ..WatchResponse::default()
    }
}
