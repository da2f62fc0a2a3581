//! Spreading of clients over replicas: when a replica asks some of its clients to reconnect (G-39).
//!
//! ```text
//!             above 1.2 × the mean              for 3 s             each second: at most 1 % of the streams, one at least
//!  balanced ──────────────────────────▶ above ───────────▶ shedding ──┐
//!     ▲                                   │                  │ ▲      │ only connections that are older than this phase
//!     │     no longer, or the store is    │                  │ └──────┘
//!     ├───────────────────────────────────┘                  │
//!     │     at the mean, or the store is away                │
//!     └──────────────────────────────────────────────────────┘
//! ```
//!
//! Replicas report their streams every two seconds, so what one knows of the others is that old. It judges its own
//! number as old as that, too, and waits until all of them have reported again: otherwise each would ask clients to
//! move while many connect everywhere.
//!
//! A client that comes back is not moved again in the same phase: where clients cannot choose (one address, a load
//! balancer that prefers a zone), each of them moves once, and then all stay. No client is refused.

use std::time::Duration;

use oxds_core::time::Instant;

/// Streams above the mean below which nothing is moved: a few clients are no load, and to move one costs it a
/// reconnect.
const SMALL: u128 = 10;
/// Interval of moves.
const SECOND: Duration = Duration::from_secs(1);
/// How long a replica is above the mean before it moves clients: longer than two reports of a replica are apart
/// (`StatusPace`), so all others have reported in the meantime.
const SETTLING: Duration = Duration::from_secs(3);

/// State machine of one replica.
#[derive(Debug, Default)]
pub struct Shedding {
    phase: Option<Phase>,
}

#[derive(Debug, Clone, Copy)]
struct Phase {
    since: Instant,
    /// When to move streams next.
    next: Instant,
}

/// Number of streams of the replica itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnStreams {
    /// Now.
    pub now: u64,
    /// As the replica reported it to the others; `None` if it has not.
    pub reported: Option<u64>,
}

/// Streams to move now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shed {
    /// Greatest number of streams.
    pub streams: u64,
    /// Only connections that are older.
    pub older_than: Duration,
}

impl Shedding {
    /// Handles the numbers of streams: of this replica, and of each other live one, as it reported them.
    /// `is_following`: the store is there. Returns what to move, if that is due.
    pub fn handle(
        &mut self,
        now: Instant,
        own: OwnStreams,
        others: impl IntoIterator<Item = u64>,
        is_following: bool,
    ) -> Option<Shed> {
        // New streams count once they are reported, as those of the others do; streams that have left count no more.
        let own = own.reported.map_or(0, |reported| reported.min(own.now));
        let (count, sum) = others
            .into_iter()
            .fold((1, u128::from(own)), |(count, sum), other| {
                (count + 1, sum + u128::from(other))
            });
        let all_equal = u128::from(own) * count;
        // Own > 1.2 × the mean, without fractions.
        let is_far_above = all_equal * 5 > sum * 6 && all_equal >= sum + SMALL * count;
        let excess = u128::from(own).saturating_sub(sum.div_ceil(count));
        // Down to the mean: otherwise a replica that joins would stay far below it.
        let goes_on = self.phase.is_some() && excess > 0;
        if !is_following || !is_far_above && !goes_on {
            self.phase = None;
            return None;
        }
        let new = Phase {
            since: now,
            next: now + SETTLING,
        };
        let phase = self.phase.get_or_insert(new);
        if now < phase.next {
            return None;
        }
        phase.next = now + SECOND;
        let most = (own / 100).max(1);
        Some(Shed {
            streams: u64::try_from(excess).map_or(most, |excess| excess.min(most)),
            older_than: now - phase.since,
        })
    }

    /// Returns when to call [`handle`](Self::handle) if nothing changes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.phase.map(|phase| phase.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_millis(milliseconds))
    }

    /// A replica whose report has its present number.
    fn reported(streams: u64) -> OwnStreams {
        OwnStreams {
            now: streams,
            reported: Some(streams),
        }
    }

    /// given three replicas with 333 streams / when a fourth joins, and clients choose any replica in turn / then each
    /// sheds 1 % each second at most, all are within 20 % of the mean in two minutes, and it ends.
    #[test]
    fn g39_fourth_replica_gets_its_share() {
        let mut streams = [334_u64, 333, 333, 0];
        let mut machines: [Shedding; 4] = Default::default();
        let (mut spread, mut balanced_at) = (0, None);
        for second in 0..600 {
            let now = at(second * 1000);
            let seen = streams;
            for (one, machine) in machines.iter_mut().enumerate() {
                let others = (0..4)
                    .filter(|other| *other != one)
                    .map(|other| seen[other]);
                if let Some(shed) = machine.handle(now, reported(seen[one]), others, true) {
                    assert!(shed.streams <= (seen[one] / 100).max(1), "{shed:?}");
                    for _ in 0..shed.streams {
                        // A client chooses any of the four.
                        streams[one] -= 1;
                        streams[spread % 4] += 1;
                        spread += 1;
                    }
                }
            }
            let near = streams.iter().all(|count| (200..=300).contains(count));
            if near && balanced_at.is_none() {
                balanced_at = Some(second);
            }
        }
        assert!(
            balanced_at.is_some_and(|second| second <= 120),
            "{balanced_at:?} {streams:?}"
        );
        assert!(
            machines
                .iter()
                .all(|machine| machine.poll_timeout().is_none())
        );
        assert_eq!(streams.iter().sum::<u64>(), 1000);
    }

    /// given a replica above 1.2 × the mean / then it sheds after three seconds, one stream at least; not without the
    /// store, nor alone, nor at 1.2 × the mean, nor a few streams.
    #[test]
    fn g39_replica_sheds_only_above_the_mean() {
        let shed = |own: u64, others: &[u64], is_following: bool| {
            let mut machine = Shedding::default();
            let others = || others.iter().copied();
            let own = reported(own);
            assert_eq!(machine.handle(at(0), own, others(), is_following), None);
            assert_eq!(machine.handle(at(2999), own, others(), is_following), None);
            let shed = machine.handle(at(3000), own, others(), is_following);
            shed.map(|shed| shed.streams)
        };
        assert_eq!(shed(120, &[80], true), None);
        assert_eq!(shed(121, &[79], true), Some(1));
        assert_eq!(shed(5000, &[0, 0, 0], true), Some(50));
        assert_eq!(shed(20, &[0], true), Some(1));
        assert_eq!(shed(19, &[0], true), None, "9 above the mean");
        assert_eq!(shed(2, &[0, 0], true), None);
        assert_eq!(shed(5000, &[], true), None);
        assert_eq!(shed(5000, &[0], false), None);
        assert_eq!(shed(u64::MAX, &[u64::MAX, 0], true), Some(u64::MAX / 100));
    }

    /// given an imbalance that lasts / then only connections from before it are moved, so a client that comes back
    /// stays.
    #[test]
    fn g39_client_that_comes_back_is_not_moved_again() {
        let mut machine = Shedding::default();
        assert_eq!(machine.handle(at(500), reported(100), [0], true), None);
        assert_eq!(machine.poll_timeout(), Some(at(3500)));
        for second in 3..100 {
            let shed = machine.handle(at(500 + second * 1000), reported(100), [0], true);
            let older_than = shed.map(|shed| shed.older_than);
            assert_eq!(older_than, Some(Duration::from_secs(second)));
        }
        assert_eq!(
            machine.handle(at(200_000), reported(100), [100], true),
            None
        );
        assert_eq!(machine.poll_timeout(), None);
    }

    /// given three replicas that report every two seconds, not at the same time / when 3,000 clients connect to all of
    /// them alike, in ten seconds / then none is asked to move.
    #[test]
    fn g39_clients_that_connect_everywhere_stay() {
        let mut machines: [Shedding; 3] = Default::default();
        let mut reports = [0_u64; 3];
        for tick in 0..200_u64 {
            let streams = 10 * tick.min(100);
            for (one, machine) in (0_u64..).zip(&mut machines) {
                let index = usize::try_from(one).unwrap();
                if tick % 20 == one * 7 {
                    reports[index] = streams;
                }
                let others = (0..3).filter(|other| *other != index);
                let others: Vec<_> = others.map(|other| reports[other]).collect();
                let own = OwnStreams {
                    now: streams,
                    reported: Some(reports[index]),
                };
                assert_eq!(machine.handle(at(tick * 100), own, others, true), None);
            }
        }
        assert_eq!(reports, [1000; 3]);
    }

    /// given a replica that has not reported / then it moves nothing; streams that have left since its report are not
    /// moved a second time.
    #[test]
    fn g39_streams_count_once_reported_and_until_they_leave() {
        let mut machine = Shedding::default();
        let mut own = OwnStreams {
            now: 1000,
            reported: None,
        };
        assert_eq!(machine.handle(at(0), own, [0], true), None);
        assert_eq!(machine.poll_timeout(), None);
        own.reported = Some(1000);
        assert_eq!(machine.handle(at(0), own, [0], true), None);
        assert!(machine.handle(at(3000), own, [0], true).is_some());
        own.now = 0;
        assert_eq!(machine.handle(at(4000), own, [0], true), None);
        assert_eq!(machine.poll_timeout(), None);
    }
}
