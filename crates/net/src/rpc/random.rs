//! Random numbers for picks and jitter: per thread, without a lock, a few nanoseconds each. Not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    // RandomState is seeded by the operating system, differently on each thread.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
}

/// Returns the next number of this thread (SplitMix64: one addition, two multiplications, full period).
#[must_use]
pub fn random() -> u64 {
    let state = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(state);
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_sets_every_bit_half_of_the_time() {
        let mut ones = [0_u32; 64];
        for _ in 0..4096 {
            let n = random();
            for (bit, count) in ones.iter_mut().enumerate() {
                *count += (n >> bit & 1) as u32;
            }
        }
        // Five standard deviations (σ = 32) around half.
        assert!(ones.iter().all(|&n| n.abs_diff(2048) < 320), "{ones:?}");
    }
}
