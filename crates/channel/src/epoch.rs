//! Zero of the clock that the machines of `core` see.

use oxds_core::time::Instant;

/// Zero of the clock of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(tokio::time::Instant);

impl Epoch {
    /// Returns a clock that begins now.
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_epoch(self.0.elapsed())
    }

    /// Returns the time of the runtime that stands for this instant.
    pub(crate) fn to_tokio(self, instant: Instant) -> tokio::time::Instant {
        self.0 + instant.since_epoch()
    }
}
