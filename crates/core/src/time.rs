//! Instants without a clock.
//!
//! No machine reads a clock: its driver passes the time with every call. A driver measures from any fixed point
//! (usually its own start); tests simply count.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

use oxds_types::discovery::Duration as ProtoDuration;

/// Longest `google.protobuf.Duration`: ten thousand years (`duration.proto`).
pub const LONGEST_DURATION: Duration = Duration::from_secs(315_576_000_000);

/// Reads a duration; `None` if it is negative or not in the range of protobuf.
#[must_use]
pub fn duration(proto: &ProtoDuration) -> Option<Duration> {
    let nanos = u32::try_from(proto.nanos).ok();
    let nanos = nanos.filter(|nanos| *nanos < 1_000_000_000)?;
    let duration = Duration::new(u64::try_from(proto.seconds).ok()?, nanos);
    (duration <= LONGEST_DURATION).then_some(duration)
}

/// Reads a duration that a peer sent; `None` if it is negative. One that is too long for protobuf becomes the longest.
pub(crate) fn clamped_duration(proto: &ProtoDuration) -> Option<Duration> {
    let seconds = Duration::from_secs(u64::try_from(proto.seconds).ok()?);
    let nanos = Duration::from_nanos(u64::try_from(proto.nanos).ok()?);
    Some(seconds.saturating_add(nanos).min(LONGEST_DURATION))
}

/// Point in time, as the distance from an epoch that only the driver knows.
///
/// Instants of one machine must come from one driver, and must not go backwards. If time stands still or jumps ahead,
/// the machine stays correct; it only acts later or earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// Epoch of the driver.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// Returns the instant `since_epoch` after the driver's epoch.
    #[must_use]
    pub const fn from_epoch(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }

    /// Returns the distance from the driver's epoch.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later than `self`.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.0)
    }
}

/// Saturates at the largest instant.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

/// Saturates at zero, as [`Instant::saturating_since`].
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let second = Duration::from_secs(1);
        let later = Instant::EPOCH + second;
        assert_eq!(later - Instant::EPOCH, second);
        assert_eq!(Instant::EPOCH - later, Duration::ZERO);
        let end = Instant::from_epoch(Duration::MAX);
        assert_eq!(end + second, end);
    }

    #[test]
    fn debug_of_an_instant_shows_its_distance() {
        assert_eq!(
            format!("{:?}", Instant::EPOCH + Duration::from_millis(1500)),
            "+1.5s"
        );
    }
}
