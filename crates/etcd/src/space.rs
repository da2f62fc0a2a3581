//! How full the database of etcd is (G-26).
//!
//! ```text
//!            > 50 % of the quota              quota reached, alarm NOSPACE
//!  Enough ──────────────────────▶ Filling ──────────────────────────────▶ Full
//!    ▲                               │  ▲                                   │
//!    └── compacted and defragmented ─┘  └── the same, and the alarm cleared ┘
//! ```
//!
//! A full database refuses every write until somebody repairs it, so the warning comes early. The file counts, free
//! pages included: etcd compares it with the quota, and only a defragmentation makes it smaller.

use std::fmt;

use oxds_types::etcd::StatusResponse;

/// Quota of an etcd that has no other one: 2 GiB (`--quota-backend-bytes 0`). It is assumed for an etcd before 3.6,
/// which does not report its quota: our choice, because a false warning is better than a database that fills up unseen.
pub const DEFAULT_QUOTA: u64 = 2 << 30;
/// Part of the quota, in percent, above which there is a warning (G-26).
const WARNING: u64 = 50;
/// The steps of the percentages in messages: each step is logged once.
const STEP: u64 = 10;

/// Size of the database of a member, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Size of the file, free pages included.
    pub size: u64,
    /// The part of it that is in use.
    pub in_use: u64,
    /// Greatest size; `None` if there is no limit.
    pub quota: Option<u64>,
    /// The member does not report its quota.
    pub is_assumed: bool,
    /// The alarm NOSPACE is raised, on this or another member.
    pub has_alarm: bool,
}

/// How far the database is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceLevel {
    /// At most half of the quota.
    Enough,
    /// More than half of the quota.
    Filling,
    /// etcd refuses writes.
    Full,
}

impl Space {
    /// Reads the sizes from the state of a member.
    #[must_use]
    pub fn of(status: &StatusResponse) -> Self {
        let size = |bytes| u64::try_from(bytes).unwrap_or_default();
        let quota = match status.db_size_quota {
            0 => Some(DEFAULT_QUOTA),
            // etcd, "--quota-backend-bytes": a negative number turns the limit off.
            quota => u64::try_from(quota).ok(),
        };
        // etcd appends each alarm to the errors of the state, as `memberID:1 alarm:NOSPACE `.
        let has_alarm = status.errors.iter().any(|error| error.contains("NOSPACE"));
        Self {
            size: size(status.db_size),
            in_use: size(status.db_size_in_use),
            quota,
            is_assumed: status.db_size_quota == 0,
            has_alarm,
        }
    }

    /// Returns how far the database is filled.
    #[must_use]
    pub fn level(&self) -> SpaceLevel {
        match self.percent() {
            _ if self.has_alarm => SpaceLevel::Full,
            Some((percent, _)) if percent > WARNING => SpaceLevel::Filling,
            _ => SpaceLevel::Enough,
        }
    }

    /// Returns the used part of the quota in percent, rounded up, and the quota.
    fn percent(&self) -> Option<(u64, u64)> {
        let quota = self.quota.filter(|quota| *quota > 0)?;
        let percent = (u128::from(self.size) * 100).div_ceil(u128::from(quota));
        Some((u64::try_from(percent).unwrap_or(u64::MAX), quota))
    }
}

/// The warning for people, with the remedy. Its text is the same until the next step of the percentage.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_alarm {
            return f.write_str(
                "the database of etcd is full (alarm NOSPACE), so publishes fail: compact, defragment each member, and disarm the alarm",
            );
        }
        let Some((percent, quota)) = self.percent() else {
            return f.write_str("the database of etcd has no quota");
        };
        let reached = (percent.saturating_sub(1) / STEP * STEP).max(WARNING);
        let (quota, assumed) = (quota >> 20, if self.is_assumed { "assumed " } else { "" });
        write!(
            f,
            "the database of etcd is larger than {reached} % of its {assumed}quota of {quota} MiB, at which publishes fail: compact, and defragment each member"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(db_size: i64, db_size_quota: i64) -> StatusResponse {
        StatusResponse {
            db_size,
            db_size_quota,
            ..StatusResponse::default()
        }
    }

    #[test]
    fn g26_more_than_half_of_the_quota_is_a_warning() {
        let quota = 16 << 20;
        for (size, level) in [
            (0, SpaceLevel::Enough),
            (quota / 2, SpaceLevel::Enough),
            (quota / 2 + 1, SpaceLevel::Filling),
            (quota * 2, SpaceLevel::Filling),
            (i64::MAX, SpaceLevel::Filling),
            (-1, SpaceLevel::Enough),
        ] {
            let space = Space::of(&status(size, quota));
            assert_eq!((space.level(), space.is_assumed), (level, false), "{size}");
        }
        let text = |size| Space::of(&status(size, quota)).to_string();
        let half = text(quota / 2 + 1);
        assert!(half.contains("50 % of its quota of 16 MiB"), "{half}");
        assert_eq!(half, text(quota / 2 + 2));
        assert!(text(quota * 85 / 100).contains("80 %"));
    }

    #[test]
    fn g26_etcd_without_a_reported_quota_has_the_default() {
        let gib = 1 << 30;
        let space = Space::of(&status(gib + 1, 0));
        assert_eq!(
            (space.level(), space.is_assumed),
            (SpaceLevel::Filling, true)
        );
        let text = space.to_string();
        assert!(text.contains("assumed quota of 2048 MiB"), "{text}");
        assert_eq!(Space::of(&status(gib, 0)).level(), SpaceLevel::Enough);
        assert_eq!(Space::of(&status(gib, -1)).level(), SpaceLevel::Enough);
    }

    #[test]
    fn g26_alarm_is_told_whatever_the_size() {
        let mut full = status(1, 16 << 20);
        full.errors = vec!["memberID:1 alarm:NOSPACE ".to_owned()];
        let space = Space::of(&full);
        assert_eq!(space.level(), SpaceLevel::Full);
        assert!(space.to_string().contains("disarm"), "{space}");
        full.errors = vec!["etcdserver: no leader".to_owned()];
        assert_eq!(Space::of(&full).level(), SpaceLevel::Enough);
    }
}
