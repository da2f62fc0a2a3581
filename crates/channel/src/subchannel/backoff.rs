//! gRPC's connection backoff: 1 s, × 1.6, ± 20 %, at most 120 s (gRPC connection-backoff.md).

use std::time::Duration;

const BASE: Duration = Duration::from_secs(1);
const MULTIPLIER: f64 = 1.6;
const JITTER: f64 = 0.2;
const MAX: Duration = Duration::from_secs(120);

/// The delays between attempts that fail in a row.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    base: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::starting_at(BASE)
    }
}

impl Backoff {
    /// The same series from another first step (tests use a short one).
    pub(crate) fn starting_at(base: Duration) -> Self {
        Self { next: base, base }
    }

    /// The delay before the next attempt; `random` spreads it.
    pub(crate) fn step(&mut self, random: u64) -> Duration {
        let unit = random as f64 / u64::MAX as f64;
        let delay = self.next.mul_f64(1.0 - JITTER + 2.0 * JITTER * unit);
        self.next = self.next.mul_f64(MULTIPLIER).min(MAX);
        delay
    }

    /// An attempt succeeded: the next failure starts the series anew.
    pub(crate) fn reset(&mut self) {
        self.next = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_1_6_from_one_second_to_120_within_20_percent() {
        let mut backoff = Backoff::default();
        let mut nominal = 1.0_f64;
        for round in 0..20 {
            let random = if round % 2 == 0 { 0 } else { u64::MAX };
            let factor = if round % 2 == 0 { 0.8 } else { 1.2 };
            let delay = backoff.step(random).as_secs_f64();
            assert!((delay - nominal * factor).abs() < 1e-3, "{delay} {nominal}");
            nominal = (nominal * 1.6).min(120.0);
        }
        backoff.reset();
        assert!(backoff.step(u64::MAX) <= Duration::from_millis(1200));
    }
}
