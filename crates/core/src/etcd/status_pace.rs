//! Pace of a replica's status key: which changes are written, and when (G-37, GB-7).
//!
//! ```text
//!            what is served, settled or held changes: 500 ms after the last write
//!  written ──────────────────────────────────────────────────────────────────────▶ due ──▶ written
//!     │      only the numbers of streams change: 2 s after the last write           ▲
//!     └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A publish costs two writes: one when it is served, and one when all clients have answered it. The answers between them are not
//! written one by one: until a publish is settled, the numbers of clients in sync and of NACKs do not count as a change.

use std::time::Duration;

use super::replica_status::ReplicaStatus;
use crate::time::Instant;

/// Least time between two writes.
const PAUSE: Duration = Duration::from_millis(500);
/// Least time between the last write and one that has only other numbers of streams.
const COUNTS: Duration = Duration::from_secs(2);

/// Status that was written last, and its time.
#[derive(Debug, Default)]
pub struct StatusPace {
    written: Option<(ReplicaStatus, Instant)>,
}

impl StatusPace {
    /// Forgets what was written: the key may be gone.
    pub fn forget(&mut self) {
        self.written = None;
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
    use crate::etcd::replica_status::ServedPublish;

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

    /// given 300 clients that answer a publish one after the other / then the key is written twice, whatever the time between answers.
    #[test]
    fn g37_publish_costs_two_writes() {
        let mut pace = StatusPace::default();
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

    /// given a status that was written / then other numbers of streams are written after 2 s, and what is served or held after 500 ms.
    #[test]
    fn g37_changes_of_streams_wait_for_two_seconds() {
        let mut pace = StatusPace::default();
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
