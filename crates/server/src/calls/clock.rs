//! Real time for the state machines of `oxds_core`, which read no clock.

use std::time::Duration;

use oxds_core::time::Instant;

/// Instants before the start, for events of an earlier process: longer than any that is kept.
const BEFORE: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Wait in place of one that is too long for the clock: about 30 years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A clock that counts from its own start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(tokio::time::Instant);

impl Clock {
    /// Starts a clock.
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_epoch(BEFORE + self.uptime())
    }

    /// Returns the time since the start.
    pub(crate) fn uptime(self) -> Duration {
        self.0.elapsed()
    }

    /// Converts a timeout of a state machine into a deadline of the runtime's timer.
    pub(crate) fn at(self, instant: Instant) -> tokio::time::Instant {
        let wait = instant.since_epoch().saturating_sub(BEFORE);
        self.0.checked_add(wait).unwrap_or_else(|| self.0 + FAR)
    }
}
