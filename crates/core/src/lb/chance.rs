//! Probabilities, and the RPCs that are dropped by them.

use std::fmt;
use std::sync::Arc;

/// Probability in millionths: a fractional percent of xDS, scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerMillion(u32);

impl PerMillion {
    /// 0 %.
    pub const NONE: Self = Self(0);
    /// 100 %.
    pub const ALL: Self = Self(1_000_000);

    /// Returns this many millionths; values above 100 % become 100 %.
    #[must_use]
    pub const fn saturating(share: u32) -> Self {
        if share > Self::ALL.0 {
            Self::ALL
        } else {
            Self(share)
        }
    }

    /// Returns the millionths as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns whether a uniform `random` number falls into this share: never for 0 %, always for 100 % (C-228).
    #[must_use]
    pub fn hit(self, random: u64) -> bool {
        scale(random, u64::from(Self::ALL.0)) < u64::from(self.0)
    }
}

/// Maps a random number to `0..below`, evenly except for one part in 2³².
pub(super) fn scale(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

/// Category of RPCs to drop (gRFC A27).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropCategory {
    /// Name of the category, for load reports.
    pub category: Arc<str>,
    /// Share of the RPCs that are dropped.
    pub share: PerMillion,
}

/// Returns the category by which an RPC is dropped, or `None` if it is not dropped.
///
/// Categories are tried in order, each with its own random number, before anything else is decided (gRFC A27, C-245).
#[must_use]
pub fn dropped(
    categories: &[DropCategory],
    mut random: impl FnMut() -> u64,
) -> Option<&DropCategory> {
    categories.iter().find(|drop| drop.share.hit(random()))
}

/// The share in percent, such as `2.5%`.
impl fmt::Display for PerMillion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}
