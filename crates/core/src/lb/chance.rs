//! Shares of a million, and what is dropped by them.

use std::sync::Arc;

/// A share of a million: what xDS means by a fractional percent, scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerMillion(u32);

impl PerMillion {
    /// Never.
    pub const NONE: Self = Self(0);
    /// Always.
    pub const ALL: Self = Self(1_000_000);

    /// This many of a million; more than all is all.
    #[must_use]
    pub const fn saturating(share: u32) -> Self {
        if share > Self::ALL.0 {
            Self::ALL
        } else {
            Self(share)
        }
    }

    /// As a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Draws: true for this share of all `random` numbers, so never for none and always for all (C-228).
    #[must_use]
    pub fn hit(self, random: u64) -> bool {
        scale(random, u64::from(Self::ALL.0)) < u64::from(self.0)
    }
}

/// Maps a random number to `0..below`, evenly but for a part in 2³².
pub(super) fn scale(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

/// A category of RPCs to drop (gRFC A27).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropCategory {
    /// Its name, for load reports.
    pub category: Arc<str>,
    /// How many.
    pub share: PerMillion,
}

/// The category by which an RPC is dropped, if it is: categories in order, each a draw of its own, before anything
/// else is looked at (C-245).
#[must_use]
pub fn dropped(drops: &[DropCategory], mut random: impl FnMut() -> u64) -> Option<&DropCategory> {
    drops.iter().find(|drop| drop.share.hit(random()))
}
