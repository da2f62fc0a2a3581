//! Real time for the state machines of `oxds_core`, which read no clock.

use oxds_core::time::Instant;

/// A clock that counts from its own start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(tokio::time::Instant);

impl Clock {
    /// Starts a clock at zero.
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_epoch(self.0.elapsed())
    }

    /// Converts a timeout of a state machine into a deadline of the runtime's timer.
    pub(crate) fn at(self, instant: Instant) -> tokio::time::Instant {
        self.0 + instant.since_epoch()
    }
}
