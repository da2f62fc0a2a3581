//! Random numbers for jitter: spread is all that is asked of them.

use std::hash::{BuildHasher, RandomState};

/// A number that differs from call to call and from process to process.
pub(crate) fn random() -> u64 {
    // A fresh `RandomState` has fresh keys.
    RandomState::new().hash_one(0_u8)
}
