//! Delays between attempts to reach a member.

use std::time::Duration;

use oxds_core::backoff::jittered;

/// First delay.
const FIRST: Duration = Duration::from_millis(500);
/// Delay without jitter that is not exceeded: with 20 % more it is 30 s (G-24).
const LONGEST: Duration = Duration::from_secs(25);

/// Delays: none until each member was tried, then from 0.5 s to 25 s, doubled each time, 20 % more or less.
#[derive(Debug)]
pub(super) struct Retry {
    members: usize,
    /// State of the generator of jitter.
    seed: u64,
    failures: usize,
    delay: Duration,
}

impl Retry {
    pub(super) fn new(members: usize, seed: u64) -> Self {
        Self {
            members,
            seed,
            failures: 0,
            delay: FIRST,
        }
    }

    /// Returns the delay before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        self.failures += 1;
        if self.failures < self.members {
            return Duration::ZERO;
        }
        let delay = jittered(self.delay, self.random());
        self.delay = (self.delay * 2).min(LONGEST);
        delay
    }

    /// Begins again without a delay, after a watch that worked.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.delay = FIRST;
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g24_retries_have_jitter_and_are_at_most_30_s_apart() {
        let delays = |seed| {
            let mut retry = Retry::new(3, seed);
            (0..40).map(|_| retry.next()).collect::<Vec<_>>()
        };
        let (one, other) = (delays(1), delays(2));
        assert_eq!(one[..2], [Duration::ZERO; 2], "each member once");
        assert!(
            one.iter()
                .chain(&other)
                .all(|delay| *delay <= Duration::from_secs(30))
        );
        assert!(
            one.iter()
                .zip(&other)
                .skip(2)
                .all(|(one, other)| one != other)
        );
        assert!(one[39] >= Duration::from_secs(20), "they grow");
    }
}
