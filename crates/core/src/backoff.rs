//! Delays between attempts to reach a server (gRFC A57, and gRPC's connection backoff).

use std::time::Duration;

/// Exponential backoff: 1 s, growing by a factor of 1.6 up to 120 s.
///
/// Each delay is changed by up to 20 % in either direction, so that clients do not reconnect together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
}

const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(120);
const MULTIPLIER: f64 = 1.6;
const JITTER: f64 = 0.2;

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: INITIAL_DELAY,
        }
    }
}

impl Backoff {
    /// Returns the delay before the next attempt, and lengthens the one after it. `random` is any uniform number.
    pub fn next(&mut self, random: u64) -> Duration {
        let delay = jittered(self.base, random);
        self.base = self.base.mul_f64(MULTIPLIER).min(MAX_DELAY);
        delay
    }

    /// Starts again from the initial delay, after an attempt that worked.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Makes a delay up to 20 % shorter or longer: 20 % shorter if `random` is 0, 20 % longer if it is `u64::MAX`.
#[must_use]
pub fn jittered(delay: Duration, random: u64) -> Duration {
    let spread = (random as f64 / u64::MAX as f64).mul_add(2.0 * JITTER, 1.0 - JITTER);
    delay.mul_f64(spread)
}
