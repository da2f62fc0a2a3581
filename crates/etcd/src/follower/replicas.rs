//! Statuses of the other replicas: which publish of each lane they serve.

use std::collections::BTreeMap;

use crate::head::Head;
use crate::names::Segment;
use crate::replica_status::{ReplicaStatus, ServedPublish};

/// Statuses under `x/`. The keys are leased, so a dead replica is absent after 10 s.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    statuses: BTreeMap<Segment, ReplicaStatus>,
    /// Number of changes.
    version: u64,
}

impl Replicas {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Segment, &ReplicaStatus)> {
        self.statuses.iter()
    }

    pub(super) fn clear(&mut self) {
        self.version += 1;
        self.statuses.clear();
    }

    /// Sets the status of a replica. One that cannot be read is ignored: no decision may depend on it.
    pub(super) fn put(&mut self, replica: Segment, value: &[u8]) {
        self.version += 1;
        match ReplicaStatus::decode(value) {
            Some(status) => self.statuses.insert(replica, status),
            None => self.statuses.remove(&replica),
        };
    }

    pub(super) fn delete(&mut self, replica: &Segment) {
        self.version += 1;
        self.statuses.remove(replica);
    }

    /// Returns the ids of all live replicas.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Segment> {
        self.statuses.keys()
    }

    /// Returns the number of streams of a live replica.
    pub(super) fn streams_of(&self, replica: &Segment) -> Option<u64> {
        self.statuses.get(replica).map(|status| status.streams)
    }

    /// Returns the numbers of streams of all live replicas but one.
    pub(super) fn streams_but(&self, own: &Segment) -> impl Iterator<Item = u64> {
        let others = self
            .statuses
            .iter()
            .filter(move |(replica, _)| *replica != own);
        others.map(|(_, status)| status.streams)
    }

    /// Returns the greatest seq of a lane that a replica serves, and the replica.
    pub(super) fn greatest_seq(&self, lane: &Segment) -> Option<(u64, &Segment)> {
        let served = self.of_lane(lane);
        served.map(|(replica, served)| (served.seq, replica)).max()
    }

    /// Returns whether a replica other than `own` serves the publish of this head.
    pub(super) fn agrees(&self, own: &Segment, lane: &Segment, head: &Head) -> bool {
        let mut others = self.of_lane(lane).filter(|(replica, _)| *replica != own);
        others.any(|(_, served)| served.is_of(head))
    }

    fn of_lane(&self, lane: &Segment) -> impl Iterator<Item = (&Segment, &ServedPublish)> {
        let statuses = self.statuses.iter();
        statuses.filter_map(|(replica, status)| Some((replica, status.lane(lane)?)))
    }
}
