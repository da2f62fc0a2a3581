//! Real time for the follower, which reads no clock.

use std::time::{Duration, Instant as StdInstant};

use oxds_core::time::Instant;

/// Wait in place of one that is too long for the clock: about 30 years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A clock that counts from its own start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(tokio::time::Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn now(self) -> Instant {
        Instant::from_epoch(self.0.elapsed())
    }

    /// Returns the instant as the deadline of a timer; a time far away for `None`.
    pub(super) fn deadline(self, at: Option<Instant>) -> tokio::time::Instant {
        let wait = at.map_or(FAR, Instant::since_epoch);
        self.0.checked_add(wait).unwrap_or(self.0 + FAR)
    }

    /// Returns the instant this long before `now`.
    pub(super) fn ago(self, now: Instant, ago: Duration) -> StdInstant {
        self.0.into_std() + now.since_epoch().saturating_sub(ago)
    }
}
