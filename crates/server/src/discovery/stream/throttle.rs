//! Rate limit on the requests of one stream.

use std::time::Duration;

use oxds_core::time::Instant;

/// Rate limiter with a burst: the generic cell rate algorithm, which keeps one point in time instead of a token bucket.
#[derive(Debug)]
pub(super) struct Throttle {
    /// Time between two requests at the permitted rate.
    interval: Duration,
    /// Time by which a stream may be ahead of the permitted rate.
    slack: Duration,
    /// Time at which all passed requests fit the permitted rate.
    even: Instant,
}

impl Throttle {
    /// Returns a limiter for `rate` requests per second after the first `burst`. Rate 0 means no limit; a burst is at
    /// least 1.
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

    /// Returns when the next request may pass, or `None` if now.
    pub(super) fn wait(&self, now: Instant) -> Option<Instant> {
        let ahead = self.even.saturating_since(now);
        let wait = ahead.checked_sub(self.slack)?;
        (!wait.is_zero()).then(|| now + wait)
    }

    /// Records that a request passes.
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

    /// Returns how many requests of a flood pass until `until`.
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
    fn s77_burst_passes_then_the_rate_applies() {
        let mut throttle = Throttle::new(10, 5);
        assert_eq!(passed(&mut throttle, at(0)), 5);
        assert_eq!(throttle.wait(at(0)), Some(at(100)));
        // Five at once, then one per 100 ms.
        assert_eq!(passed(&mut Throttle::new(10, 5), at(1000)), 15);
        // An idle stream regains its burst, and no more.
        let mut throttle = Throttle::new(10, 5);
        throttle.pass(at(0));
        for _ in 0..5 {
            assert_eq!(throttle.wait(at(60_000)), None);
            throttle.pass(at(60_000));
        }
        assert_eq!(throttle.wait(at(60_000)), Some(at(60_100)));
    }

    #[test]
    fn rate_zero_means_no_limit() {
        let mut throttle = Throttle::new(0, 0);
        for _ in 0..1000 {
            assert_eq!(throttle.wait(at(7)), None);
            throttle.pass(at(7));
        }
    }
}
