//! Configuration of a follower.

use std::time::Duration;

use crate::names::{Prefix, Segment};

/// Configuration of a [`Follower`](super::Follower).
#[derive(Debug, Clone)]
pub struct FollowerConfig {
    /// Prefix of the followed configuration.
    pub prefix: Prefix,
    /// Id of this replica. Its own status key does not count as that of another replica.
    pub replica: Segment,
    /// Number of members that the driver can connect to. So many attempts follow each other without a delay.
    pub members: usize,
    /// Follow a store that went back to an earlier publish, instead of holding the served state (G-27).
    pub accept_restored: bool,
    /// Any number. The jitter of retries is derived from it, so replicas need different ones.
    pub seed: u64,
    /// Intervals and deadlines.
    pub timing: FollowerTiming,
}

impl FollowerConfig {
    /// Returns the configuration for one member, with the default intervals.
    #[must_use]
    pub fn new(prefix: Prefix, replica: Segment) -> Self {
        Self {
            prefix,
            replica,
            members: 1,
            accept_restored: false,
            seed: 0,
            timing: FollowerTiming::default(),
        }
    }
}

/// Intervals and deadlines of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerTiming {
    /// Time that a connection may take: 5 s.
    pub connect: Duration,
    /// Time that a member may take to answer a read of heads or a progress request, or to begin a watch: 5 s. A stopped
    /// member is found after `probe` and this, so within 10 s (G-20).
    pub answer: Duration,
    /// Time that a page of a large read may take: 30 s.
    pub page: Duration,
    /// Interval of progress requests, and of the linearizable reads of the heads that reveal a watch that lost events:
    /// 5 s. etcd itself reports progress only every 10 minutes.
    pub probe: Duration,
    /// Time for which one watch is used: 10 minutes, because etcd does not end it when a permission is revoked (G-31).
    pub renew: Duration,
    /// Time after which a state that does not have the digest of its head is reported: 10 s (G-36).
    pub report: Duration,
    /// Least time between two complete reads because of the same lane: 30 s. A lane whose keys were changed by hand
    /// would otherwise be read again with each of its publishes.
    pub reread: Duration,
}

impl Default for FollowerTiming {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(5),
            answer: seconds(5),
            page: seconds(30),
            probe: seconds(5),
            renew: seconds(600),
            report: seconds(10),
            reread: seconds(30),
        }
    }
}
