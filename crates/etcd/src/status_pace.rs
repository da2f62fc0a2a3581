//! Pace of a replica's status key: when the status is read, which changes are written, and when (G-37, GB-7).
//!
//! ```text
//!            change ── 50 to 100 ms, and 500 ms after the last look ──▶ look
//!
//!            what is served, settled or held changes: 500 ms after the last write
//!  written ──────────────────────────────────────────────────────────────────────▶ due ──▶ written
//!     │      only the numbers of streams change: 2 s after the last write           ▲
//!     └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The status is not read at once: clients that answer a publish within the delay cost no write of their own, and a
//! replica does not write to etcd at the moment at which it, and the other replicas, bring the publish to their clients
//! (GB-1). The delay differs by replica.
//!
//! If clients take longer, a publish costs two writes: one when it is served, and one when all clients have answered
//! it. The answers between them are not written one by one: until a publish is settled, the numbers of clients in sync
//! and of NACKs do not count as a change.

use std::time::Duration;

use super::replica_status::ReplicaStatus;
use oxds_core::time::Instant;

/// Least time from a change to the look at the status; the greatest is twice as long.
const DELAY: Duration = Duration::from_millis(50);
/// Least time between two looks, which cost as much as there are clients.
const LOOK: Duration = Duration::from_millis(500);
/// Least time between two writes.
const PAUSE: Duration = Duration::from_millis(500);
/// Number of different delays.
const SPREAD: u32 = 16;
/// Least time between the last write and one that has only other numbers of streams.
const COUNTS: Duration = Duration::from_secs(2);

/// Status that was written last, and the times of the last write and the last look.
#[derive(Debug)]
pub struct StatusPace {
    /// Time from a change to the look.
    delay: Duration,
    looked: Option<Instant>,
    written: Option<(ReplicaStatus, Instant)>,
}

impl StatusPace {
    /// Makes a pace whose delay depends on a random number: replicas that serve a publish at the same time write one
    /// after the other.
    #[must_use]
    pub fn new(random: u64) -> Self {
        let spread = u32::try_from(random % u64::from(SPREAD)).unwrap_or_default();
        Self {
            delay: DELAY + DELAY * spread / SPREAD,
            looked: None,
            written: None,
        }
    }

    /// Forgets what was written: the key may be gone.
    pub fn forget(&mut self) {
        self.written = None;
    }

    /// Notes that the status is read.
    pub fn note_look(&mut self, now: Instant) {
        self.looked = Some(now);
    }

    /// Returns when to read the status because of a change that was noticed now.
    #[must_use]
    pub fn look_at(&self, now: Instant) -> Instant {
        let rested = self.looked.map(|looked| looked + LOOK);
        (now + self.delay).max(rested.unwrap_or(now))
    }

    /// Notes that a status was written.
    pub fn note_written(&mut self, now: Instant, status: ReplicaStatus) {
        self.written = Some((status, now));
    }

    /// Returns when to write this status: an instant that may be past, or `None` if the written one is good enough.
    #[must_use]
    pub fn due(&self, status: &ReplicaStatus) -> Option<Instant> {
        let Some((written, at)) = &self.written else {
            return Some(Instant::EPOCH);
        };
        let mut without_counts = status.clone();
        (without_counts.in_sync, without_counts.nacked) = (written.in_sync, written.nacked);
        let has_other_streams = without_counts.streams != written.streams;
        without_counts.streams = written.streams;
        if without_counts != *written {
            return Some(*at + PAUSE);
        }
        let is_counted = has_other_streams || status.is_settled() && status != written;
        is_counted.then(|| *at + COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica_status::ServedPublish;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_millis(milliseconds))
    }

    /// A status that serves and has settled these seqs, with numbers of streams: all, in sync, with NACKs.
    fn status(
        serves: u64,
        settled: u64,
        (streams, in_sync, nacked): (u64, u64, u64),
    ) -> ReplicaStatus {
        let served = ServedPublish {
            seq: serves,
            ..ServedPublish::default()
        };
        ReplicaStatus {
            lanes: [("main".to_owned(), served)].into(),
            settled: [("main".to_owned(), settled)].into(),
            streams,
            in_sync,
            nacked,
            ..ReplicaStatus::default()
        }
    }

    /// given 300 clients that answer each publish within 40 ms, and a publish per second / when a replica looks as it
    /// must / then each publish costs one write and one look, whatever the delay of the replica; a look at once would
    /// cost two writes.
    #[test]
    fn g37_publish_that_is_answered_soon_costs_one_write() {
        for random in 0..32 {
            let mut pace = StatusPace::new(random);
            pace.note_look(at(0));
            pace.note_written(at(0), status(0, 0, (300, 300, 0)));
            let (mut writes, mut looks) = (0, 0);
            for publish in 1..=20 {
                let served = publish * 1000;
                let settled_at = |now| {
                    if now >= at(served + 40) {
                        publish
                    } else {
                        publish - 1
                    }
                };
                let (mut now, mut changes) = (at(served), vec![at(served + 40), at(served)]);
                while let Some(change) = changes.pop() {
                    now = pace.look_at(now.max(change));
                    // What changed before the look is seen by it.
                    changes.retain(|later| *later > now);
                    pace.note_look(now);
                    looks += 1;
                    let seen = status(publish, settled_at(now), (300, 300, 0));
                    if let Some(due) = pace.due(&seen) {
                        pace.note_written(now.max(due), seen);
                        writes += 1;
                    }
                }
            }
            assert_eq!((writes, looks), (20, 20), "{random}");
        }
    }

    /// given a change soon after a look / then the next look is 500 ms after that one, so that GB-14 holds.
    #[test]
    fn g37_looks_have_a_pause() {
        let mut pace = StatusPace::new(7);
        let delay = pace.look_at(at(1000)) - at(1000);
        assert!((DELAY..=2 * DELAY).contains(&delay), "{delay:?}");
        pace.note_look(at(2000));
        assert_eq!(pace.look_at(at(2010)), at(2500));
        assert_eq!(pace.look_at(at(3000)), at(3000) + delay);
        assert_ne!(StatusPace::new(8).look_at(at(1000)), at(1000) + delay);
    }

    /// given 300 clients that answer a publish one after the other / then the key is written twice, whatever the time
    /// between answers.
    #[test]
    fn g37_publish_costs_two_writes() {
        let mut pace = StatusPace::new(0);
        assert_eq!(pace.due(&status(1, 1, (300, 300, 0))), Some(Instant::EPOCH));
        pace.note_written(at(0), status(1, 1, (300, 300, 0)));
        let (mut writes, mut now) = (Vec::new(), 10_000);
        for answers in 0..=300 {
            let settled = if answers == 300 { 2 } else { 1 };
            let next = status(2, settled, (300, answers, answers % 7));
            if let Some(due) = pace.due(&next) {
                now = now.max(u64::try_from(due.since_epoch().as_millis()).expect("short"));
                pace.note_written(at(now), next);
                writes.push(answers);
            }
            now += 100;
        }
        assert_eq!(writes, [0, 300]);
        assert_eq!(pace.due(&status(2, 2, (300, 300, 300 % 7))), None);
    }

    /// given a status that was written / then other numbers of streams are written after 2 s, and what is served or
    /// held after 500 ms.
    #[test]
    fn g37_changes_of_streams_wait_for_two_seconds() {
        let mut pace = StatusPace::new(0);
        pace.note_written(at(1000), status(1, 1, (5, 5, 0)));
        assert_eq!(pace.due(&status(1, 1, (5, 5, 0))), None);
        assert_eq!(pace.due(&status(1, 1, (6, 5, 0))), Some(at(3000)));
        assert_eq!(pace.due(&status(1, 1, (5, 4, 1))), Some(at(3000)));
        assert_eq!(pace.due(&status(2, 1, (5, 4, 1))), Some(at(1500)));
        let held = ReplicaStatus {
            held: true,
            ..status(1, 1, (5, 5, 0))
        };
        assert_eq!(pace.due(&held), Some(at(1500)));
        pace.forget();
        assert_eq!(pace.due(&held), Some(Instant::EPOCH));
    }
}
