//! Publishes of each lane that all clients of a replica have answered: a minimum over the clients (G-37).
//!
//! ```text
//!                served                    no client owes an answer to it
//!  publish ─────────────────▶ open ──────────────────────────────────────▶ settled
//!                              │  of the newest MAX_OPEN, a later publish      ▲
//!                              └──────── takes its place ─────────────────────┘ with the later one
//! ```
//!
//! A client that is behind delays the publishes that it has not answered, and no earlier ones. So the settled seq
//! advances while each client answers in its turn, although at no moment all have answered everything. What is settled
//! stays settled, until the lane goes back to another history.

use std::collections::{BTreeMap, VecDeque};

use super::head::Head;
use super::names::{PublishId, Segment};
use oxds_core::rollout::Unanswered;

/// Publishes of a lane that are followed one by one: at two looks per second, those of half a minute.
const MAX_OPEN: usize = 64;

/// The lanes of a replica, with what its clients have answered.
#[derive(Debug, Default)]
pub struct SettledLanes {
    lanes: BTreeMap<Segment, Lane>,
}

#[derive(Debug)]
struct Lane {
    /// Publish that is served.
    publish: PublishId,
    seq: u64,
    settled: Option<u64>,
    /// Publishes that are not settled, oldest first.
    open: VecDeque<Open>,
}

/// A publish that is not settled.
#[derive(Debug)]
struct Open {
    /// Number of a change of the server that is not before the one that brought the publish.
    change: u64,
    seq: u64,
}

impl SettledLanes {
    /// Handles a look at the server, and returns the settled seq of each lane that has one.
    ///
    /// `heads` are those of the state that is served, and `change` is the number of the latest change, read after the
    /// heads. `unanswered` is what clients had not answered, read after both.
    pub fn handle(
        &mut self,
        heads: &[(Segment, Head)],
        change: u64,
        unanswered: Unanswered,
    ) -> BTreeMap<String, u64> {
        self.lanes
            .retain(|lane, _| heads.iter().any(|(served, _)| served == lane));
        for (lane, head) in heads {
            let lane = self
                .lanes
                .entry(lane.clone())
                .or_insert_with(|| Lane::new(head, change));
            lane.serve(head, change);
            lane.settle(unanswered);
        }
        let settled = self.lanes.iter();
        settled
            .filter_map(|(name, lane)| Some((name.to_string(), lane.settled?)))
            .collect()
    }
}

impl Lane {
    fn new(head: &Head, change: u64) -> Self {
        Self {
            publish: head.publish,
            seq: head.seq,
            settled: None,
            open: VecDeque::from([Open {
                change,
                seq: head.seq,
            }]),
        }
    }

    fn serve(&mut self, head: &Head, change: u64) {
        if self.publish == head.publish {
            return;
        }
        if head.seq <= self.seq {
            // Another history: its numbers do not continue those of before.
            *self = Self::new(head, change);
            return;
        }
        (self.publish, self.seq) = (head.publish, head.seq);
        if self.open.len() == MAX_OPEN {
            self.open.pop_back();
        }
        self.open.push_back(Open {
            change,
            seq: head.seq,
        });
    }

    fn settle(&mut self, unanswered: Unanswered) {
        let Unanswered { change, connected } = unanswered;
        // A client that has just connected gets the latest publish, and never had to answer those before.
        let latest = |at| self.open.partition_point(|open| open.change <= at);
        let of_new = connected.map_or(usize::MAX, |at| latest(at).saturating_sub(1));
        let of_others = change.map_or(usize::MAX, |owed| {
            self.open.partition_point(|open| open.change < owed)
        });
        let count = of_new.min(of_others).min(self.open.len());
        if let Some(last) = self.open.drain(..count).next_back() {
            self.settled = Some(last.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn head(publish: u128, seq: u64) -> Vec<(Segment, Head)> {
        let head = Head::new(PublishId(publish), None, seq, Digest::default());
        vec![(Segment::lane("main").unwrap(), head)]
    }

    fn owed(change: u64) -> Unanswered {
        Unanswered {
            change: Some(change),
            connected: None,
        }
    }

    fn connected(change: u64) -> Unanswered {
        Unanswered {
            change: None,
            connected: Some(change),
        }
    }

    const NOTHING: Unanswered = Unanswered {
        change: None,
        connected: None,
    };

    #[derive(Default)]
    struct Rig(SettledLanes);

    impl Rig {
        /// Serves publish `seq` by a change of the same number, and returns the settled seq.
        fn look(&mut self, seq: u64, unanswered: Unanswered) -> Option<u64> {
            let settled = self.0.handle(&head(seq.into(), seq), seq, unanswered);
            settled.get("main").copied()
        }
    }

    /// given a replica / when at each look a client owes the answer to the latest publish / then the publish before is
    /// settled each time.
    #[test]
    fn g37_settled_advances_although_a_client_is_behind() {
        let mut rig = Rig::default();
        assert_eq!(rig.look(1, owed(1)), None);
        for seq in 2..100 {
            assert_eq!(rig.look(seq, owed(seq)), Some(seq - 1));
        }
        assert_eq!(rig.look(99, NOTHING), Some(99));
    }

    /// given a client that stays behind / then nothing that it owes is settled, what is kept has a limit, and all is
    /// settled in the end.
    #[test]
    fn g37_client_that_is_behind_delays_what_it_owes() {
        let mut rig = Rig::default();
        assert_eq!(rig.look(1, NOTHING), Some(1));
        for seq in 2..500 {
            assert_eq!(rig.look(seq, owed(2)), Some(1));
        }
        let lane = rig.0.lanes.values().next().unwrap();
        assert_eq!(lane.open.len(), MAX_OPEN);
        assert_eq!(rig.look(499, owed(40)), Some(39));
        assert_eq!(rig.look(499, owed(499)), Some(64));
        assert_eq!(rig.look(499, NOTHING), Some(499));
    }

    /// given a client that connects / then the latest publish waits for its answer, and those before do not.
    #[test]
    fn g37_new_client_delays_the_latest_publish() {
        let mut rig = Rig::default();
        assert_eq!(rig.look(1, connected(0)), None, "older than all publishes");
        assert_eq!(rig.look(2, owed(1)), None);
        assert_eq!(rig.look(3, connected(2)), Some(1));
        assert_eq!(rig.look(3, connected(3)), Some(2));
        assert_eq!(rig.look(3, NOTHING), Some(3));
        assert_eq!(rig.look(3, connected(3)), Some(3), "it stays settled");
    }

    /// given a store that goes back, or has another publish of the same number / then the answers to the former history
    /// do not count.
    #[test]
    fn g37_another_history_is_not_settled() {
        let mut rig = Rig::default();
        assert_eq!(rig.look(7, NOTHING), Some(7));
        for (publish, seq) in [(100, 7), (101, 3)] {
            let lanes = head(publish, seq);
            assert_eq!(rig.0.handle(&lanes, 8, owed(8)), BTreeMap::new());
            let settled = rig.0.handle(&lanes, 8, NOTHING);
            assert_eq!(settled.get("main"), Some(&seq));
        }
        assert_eq!(rig.0.handle(&[], 9, NOTHING), BTreeMap::new());
    }
}
