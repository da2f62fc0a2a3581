//! Real time for machines that have none.

use oxds_core::time::Instant;

/// Tells the time since its own start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(tokio::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_epoch(self.0.elapsed())
    }

    /// When the runtime's timer must fire for a machine's timeout.
    pub(crate) fn at(self, instant: Instant) -> tokio::time::Instant {
        self.0 + instant.since_epoch()
    }
}
