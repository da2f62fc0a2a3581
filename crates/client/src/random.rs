//! Random numbers for jitter. They need to be spread, not unpredictable.

use std::hash::{BuildHasher, RandomState};

/// Returns a number that differs from call to call and from process to process.
pub(crate) fn random() -> u64 {
    // Every `RandomState` has new keys.
    RandomState::new().hash_one(0_u8)
}
