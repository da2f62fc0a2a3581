//! How fast a stream is read.

use std::time::Duration;

use oxds_core::time::Instant;

/// Lets so many through at once, and so many per second from then on (the generic cell rate algorithm: one point in
/// time instead of a bucket of tokens).
#[derive(Debug)]
pub(super) struct Throttle {
    /// Between two, in the long run.
    interval: Duration,
    /// How far ahead of the long run a stream may be.
    slack: Duration,
    /// When the stream will be where it would be in the long run.
    even: Instant,
}

impl Throttle {
    /// No rate: no limit. A burst is one at the least.
    pub(super) fn new(rate: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1)
            .checked_div(rate)
            .unwrap_or(Duration::ZERO);
        Self {
            interval,
            slack: interval * burst.saturating_sub(1),
            even: Instant::from_epoch(Duration::ZERO),
        }
    }

    /// When the next may pass, unless now.
    pub(super) fn wait(&self, now: Instant) -> Option<Instant> {
        let ahead = self.even.saturating_since(now);
        let wait = ahead.checked_sub(self.slack)?;
        (!wait.is_zero()).then(|| now + wait)
    }

    /// One passes.
    pub(super) fn pass(&mut self, now: Instant) {
        self.even = self.even.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_epoch(Duration::from_millis(millis))
    }

    /// How many of a flood pass until then.
    fn passed(throttle: &mut Throttle, until: Instant) -> usize {
        let (mut now, mut count) = (at(0), 0);
        loop {
            now = throttle.wait(now).unwrap_or(now);
            if now > until {
                return count;
            }
            throttle.pass(now);
            count += 1;
        }
    }

    #[test]
    fn s77_a_burst_passes_and_then_the_rate() {
        let mut throttle = Throttle::new(10, 5);
        assert_eq!(passed(&mut throttle, at(0)), 5);
        assert_eq!(throttle.wait(at(0)), Some(at(100)));
        // Each tenth of a second, and the first five at once.
        assert_eq!(passed(&mut Throttle::new(10, 5), at(1000)), 15);
        // Who was silent has the burst again, and no more.
        let mut throttle = Throttle::new(10, 5);
        throttle.pass(at(0));
        for _ in 0..5 {
            assert_eq!(throttle.wait(at(60_000)), None);
            throttle.pass(at(60_000));
        }
        assert_eq!(throttle.wait(at(60_000)), Some(at(60_100)));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let mut throttle = Throttle::new(0, 0);
        for _ in 0..1000 {
            assert_eq!(throttle.wait(at(7)), None);
            throttle.pass(at(7));
        }
    }
}
