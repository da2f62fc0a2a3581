//! Statuses of the replicas: which publish of each lane they serve.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::etcd::head::Head;
use crate::etcd::names::Segment;

/// Statuses under `x/`. The keys are leased, so a dead replica is absent after 10 s.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    statuses: BTreeMap<Segment, ReplicaStatus>,
}

/// Part of a status that a follower reads. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct ReplicaStatus {
    #[serde(default)]
    lanes: BTreeMap<String, ServedPublish>,
}

/// Publish that a replica serves of a lane.
#[derive(Debug, Deserialize)]
struct ServedPublish {
    seq: u64,
    #[serde(default)]
    publish: String,
    #[serde(default)]
    digest: String,
}

impl Replicas {
    pub(super) fn clear(&mut self) {
        self.statuses.clear();
    }

    /// Sets the status of a replica. One that cannot be read is ignored: no decision may depend on it.
    pub(super) fn put(&mut self, replica: Segment, value: &[u8]) {
        match serde_json::from_slice(value) {
            Ok(status) => self.statuses.insert(replica, status),
            Err(_) => self.statuses.remove(&replica),
        };
    }

    pub(super) fn delete(&mut self, replica: &Segment) {
        self.statuses.remove(replica);
    }

    /// Returns the greatest seq of a lane that a replica serves, and the replica.
    pub(super) fn greatest_seq(&self, lane: &Segment) -> Option<(u64, &Segment)> {
        self.of_lane(lane)
            .map(|(replica, served)| (served.seq, replica))
            .max()
    }

    /// Returns whether a replica other than `own` serves the publish of this head.
    pub(super) fn agrees(&self, own: &Segment, lane: &Segment, head: &Head) -> bool {
        let (publish, digest) = (head.publish.to_string(), head.digest.to_string());
        let mut others = self.of_lane(lane).filter(|(replica, _)| *replica != own);
        others.any(|(_, served)| served.publish == publish && served.digest == digest)
    }

    fn of_lane(&self, lane: &Segment) -> impl Iterator<Item = (&Segment, &ServedPublish)> {
        let statuses = self.statuses.iter();
        statuses.filter_map(|(replica, status)| Some((replica, status.lanes.get(&**lane)?)))
    }
}
