//! The date by which exceptions expire and the deprecation clock runs.

use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};

/// Returns today's date in UTC.
pub(crate) fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}
