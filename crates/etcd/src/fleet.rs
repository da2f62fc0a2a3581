//! All replicas together: the heads of all lanes, and how far each replica is (G-37).

use std::collections::BTreeMap;

use bytes::Bytes;
use oxds_types::etcd::{KeyValue, RangeRequest, RangeResponse};

use super::head::Head;
use super::keys::Key;
use super::names::{Prefix, Segment};
use super::replica_status::ReplicaStatus;
use super::rollback::Decision;

/// Search for the lanes of a prefix: one request per lane, whatever the number of their keys.
#[derive(Debug)]
pub struct LaneScan {
    prefix: Prefix,
    next: Bytes,
    lanes: Vec<Segment>,
}

impl LaneScan {
    /// Begins a search.
    #[must_use]
    pub fn new(prefix: Prefix) -> Self {
        Self {
            next: prefix.lanes().start,
            prefix,
            lanes: Vec::new(),
        }
    }

    /// Returns the next request: for the first key after the last lane.
    #[must_use]
    pub fn request(&self) -> RangeRequest {
        RangeRequest {
            key: self.next.clone(),
            range_end: self.prefix.lanes().end,
            limit: 1,
            keys_only: true,
            ..RangeRequest::default()
        }
    }

    /// Handles an answer. Returns the lanes after the last one.
    pub fn take(&mut self, answer: &RangeResponse) -> Option<Vec<Segment>> {
        let Some(key) = answer.kvs.first().map(|kv| &kv.key) else {
            return Some(std::mem::take(&mut self.lanes));
        };
        let start = self.prefix.lanes().start;
        let rest = key.strip_prefix(&start[..]).unwrap_or_default();
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
        let lane = std::str::from_utf8(name).ok();
        // A key that no writer makes is skipped by itself.
        self.next = match lane.and_then(|lane| Segment::lane(lane).ok()) {
            Some(lane) => {
                let next = self.prefix.lane(&lane).end;
                self.lanes.push(lane);
                next.max([&key[..], b"\0"].concat().into())
            }
            None => [&key[..], b"\0"].concat().into(),
        };
        None
    }
}

/// Rollbacks of a lane that are read.
const MAX_ROLLBACKS: i64 = 20;

/// Heads and statuses. The statuses are read after the heads.
#[derive(Debug, Default)]
pub struct Fleet {
    /// Heads by lane.
    pub heads: BTreeMap<Segment, Head>,
    /// Live replicas: the keys of others have ended with their leases.
    pub replicas: BTreeMap<Segment, ReplicaStatus>,
    /// Rollbacks that all replicas follow, with their lanes.
    pub rollbacks: Vec<(Segment, Decision)>,
    /// Keys below the prefix that cannot be read, and the reasons.
    pub unreadable: Vec<(String, String)>,
}

/// Lane that a replica has not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled<'a> {
    /// The replica.
    pub replica: &'a Segment,
    /// The lane.
    pub lane: &'a Segment,
    /// Seq of the head.
    pub head: u64,
    /// Seq that the replica serves; `None` if it does not serve the lane.
    pub serves: Option<u64>,
    /// Seq that all of its clients have answered.
    pub settled: Option<u64>,
}

impl Fleet {
    /// Returns the request for the head of a lane.
    #[must_use]
    pub fn head_request(prefix: &Prefix, lane: &Segment) -> RangeRequest {
        RangeRequest {
            key: prefix.key(&Key::Head(lane.clone())),
            ..RangeRequest::default()
        }
    }

    /// Adds the answer to [`head_request`](Self::head_request).
    pub fn add_head(&mut self, lane: Segment, answer: &RangeResponse) {
        let Some(kv) = answer.kvs.first() else {
            return;
        };
        match Head::decode(&kv.value) {
            Ok(head) => drop(self.heads.insert(lane, head)),
            Err(error) => {
                let key = Key::Head(lane).to_string();
                self.unreadable.push((key, error.to_string()));
            }
        }
    }

    /// Adds the statuses of all replicas: the answer to the request for [`Prefix::statuses`].
    pub fn add_statuses(&mut self, prefix: &Prefix, kvs: &[KeyValue]) {
        for kv in kvs {
            let Ok(Key::Status(replica)) = prefix.parse(&kv.key) else {
                continue;
            };
            match ReplicaStatus::decode(&kv.value) {
                Some(status) => drop(self.replicas.insert(replica, status)),
                None => {
                    let key = Key::Status(replica).to_string();
                    self.unreadable.push((key, "not a status".to_owned()));
                }
            }
        }
    }

    /// Returns the request for the rollbacks of a lane. A decision may have 1.4 MB, so of many only the first are read.
    #[must_use]
    pub fn rollbacks_request(prefix: &Prefix, lane: &Segment) -> RangeRequest {
        RangeRequest {
            limit: MAX_ROLLBACKS,
            ..prefix.rollbacks(lane).request()
        }
    }

    /// Adds the answer to [`rollbacks_request`](Self::rollbacks_request).
    pub fn add_rollbacks(&mut self, prefix: &Prefix, answer: &RangeResponse) {
        for kv in &answer.kvs {
            let Ok(Key::Rollback(lane, place)) = prefix.parse(&kv.key) else {
                continue;
            };
            match Decision::decode(&kv.value) {
                Ok(decision) => self.rollbacks.push((lane, decision)),
                Err(error) => {
                    let key = Key::Rollback(lane, place).to_string();
                    self.unreadable.push((key, error));
                }
            }
        }
    }

    /// Lowers the heads to those of an earlier read, where that had earlier ones: later publishes are no reason to wait
    /// longer.
    pub fn wait_for(&mut self, earlier: &BTreeMap<Segment, Head>) {
        self.heads.retain(|lane, _| earlier.contains_key(lane));
        for (lane, head) in &mut self.heads {
            if let Some(earlier) = earlier.get(lane)
                && earlier.seq < head.seq
            {
                head.clone_from(earlier);
            }
        }
    }

    /// Returns each lane that a live replica has not settled at the seq of its head. It is empty if all clients of all
    /// replicas have answered what is published.
    #[must_use]
    pub fn unsettled(&self) -> Vec<Unsettled<'_>> {
        let mut unsettled = Vec::new();
        for (replica, status) in &self.replicas {
            for (lane, head) in &self.heads {
                let settled = status.settled.get(&**lane).copied();
                if settled.is_none_or(|settled| settled < head.seq) {
                    unsettled.push(Unsettled {
                        replica,
                        lane,
                        head: head.seq,
                        serves: status.lane(lane).map(|served| served.seq),
                        settled,
                    });
                }
            }
        }
        unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::names::PublishId;
    use crate::replica_status::ServedPublish;

    fn segment(name: &str) -> Segment {
        Segment::lane(name).expect("valid")
    }

    /// A fleet with two lanes, and a replica for each pair of settled seqs.
    fn fleet(settled: &[(&str, Option<u64>, Option<u64>)]) -> Fleet {
        let mut fleet = Fleet::default();
        for (lane, seq) in [("a", 7), ("b", 2)] {
            let head = Head::new(PublishId(1), None, seq, Digest::default());
            fleet.heads.insert(segment(lane), head);
        }
        for (replica, a, b) in settled {
            let mut status = ReplicaStatus::default();
            for (lane, seq) in [("a", a), ("b", b)] {
                if let Some(seq) = seq {
                    let served = ServedPublish {
                        seq: *seq,
                        ..ServedPublish::default()
                    };
                    status.lanes.insert(lane.to_owned(), served);
                    status.settled.insert(lane.to_owned(), *seq);
                }
            }
            fleet.replicas.insert(segment(replica), status);
        }
        fleet
    }

    #[test]
    fn g37_fleet_is_settled_when_each_replica_is_at_each_head() {
        assert_eq!(fleet(&[("r1", Some(7), Some(2))]).unsettled(), []);
        // A replica may be ahead of the heads, which were read before.
        assert_eq!(fleet(&[("r1", Some(8), Some(2))]).unsettled(), []);
        let behind = fleet(&[("r1", Some(7), Some(2)), ("r2", Some(6), None)]);
        let behind = behind.unsettled();
        let seqs: Vec<_> = behind
            .iter()
            .map(|one| {
                (
                    &**one.replica,
                    &**one.lane,
                    one.head,
                    one.serves,
                    one.settled,
                )
            })
            .collect();
        assert_eq!(
            seqs,
            [("r2", "a", 7, Some(6), Some(6)), ("r2", "b", 2, None, None)]
        );
    }

    /// given heads of a first read / then later publishes and lanes do not count, and a head that went back does.
    #[test]
    fn g37_wait_is_for_the_heads_of_its_start() {
        let first = fleet(&[]).heads;
        let mut later = fleet(&[("r1", Some(7), Some(1))]);
        for (lane, seq) in [("a", 9), ("b", 1), ("c", 1)] {
            let head = Head::new(PublishId(2), None, seq, Digest::default());
            later.heads.insert(segment(lane), head);
        }
        later.wait_for(&first);
        assert_eq!(later.unsettled(), []);
        let seqs: Vec<_> = later.heads.values().map(|head| head.seq).collect();
        assert_eq!(seqs, [7, 1]);
    }

    #[test]
    fn g37_lanes_are_found_with_one_request_each() {
        let prefix = Prefix::new("/p").expect("valid");
        let keys = [
            "/p/l/a/head",
            "/p/l/a/r/x/y",
            "/p/l/a-b/head",
            "/p/l/b/r/x/y",
        ];
        let mut scan = LaneScan::new(prefix);
        let mut requests = 0;
        let lanes = loop {
            let request = scan.request();
            requests += 1;
            let mut found: Vec<_> = keys
                .into_iter()
                .filter(|key| key.as_bytes() >= &request.key[..])
                .collect();
            found.sort_unstable();
            let kvs = found.first().map(|key| KeyValue {
                key: Bytes::from_static(key.as_bytes()),
                ..KeyValue::default()
            });
            let answer = RangeResponse {
                kvs: kvs.into_iter().collect(),
                ..RangeResponse::default()
            };
            if let Some(lanes) = scan.take(&answer) {
                break lanes;
            }
        };
        let mut lanes: Vec<_> = lanes.iter().map(|lane| &**lane).collect();
        lanes.sort_unstable();
        assert_eq!((lanes, requests), (vec!["a", "a-b", "b"], 4));
    }
}
