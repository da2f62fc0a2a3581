//! Numbers of one seed.

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

/// SplitMix64: good enough to choose faults, and the same on each machine.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns the numbers of the operating system's choice.
    pub(super) fn of_system() -> Self {
        Self(std::hash::RandomState::new().build_hasher().finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the seed of other numbers.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(self.next() % count).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns a time of this many milliseconds or more, and less than `below`.
    pub(super) fn millis(&mut self, from: usize, below: usize) -> Duration {
        let millis = from + self.below(below.saturating_sub(from).max(1));
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Brings items into another order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
