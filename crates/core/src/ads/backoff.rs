//! When to try a server again (gRFC A57, and gRPC's connection backoff).

use std::time::Duration;

/// Delays of 1 s, growing by 1.6 up to 120 s, each changed by up to a fifth so that clients do not return together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(120);
const GROWTH: f64 = 1.6;
const JITTER: f64 = 0.2;

impl Default for Backoff {
    fn default() -> Self {
        Self { base: FIRST }
    }
}

impl Backoff {
    /// The delay before the next attempt.
    pub fn next(&mut self, random: u64) -> Duration {
        let delay = jittered(self.base, random);
        self.base = self.base.mul_f64(GROWTH).min(LONGEST);
        delay
    }

    /// The last attempt worked: begin anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// A delay, up to a fifth shorter or longer.
pub(crate) fn jittered(delay: Duration, random: u64) -> Duration {
    let spread = (random as f64 / u64::MAX as f64).mul_add(2.0 * JITTER, 1.0 - JITTER);
    delay.mul_f64(spread)
}
