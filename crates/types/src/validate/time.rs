//! Durations and timestamps as numbers.

use std::fmt;

use prost_reflect::DynamicMessage;

/// Seconds and nanoseconds as one number: any that protobuf can say fits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Nanos(i128);

impl Nanos {
    pub(super) fn new(seconds: i64, nanos: i32) -> Nanos {
        Nanos(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
    }

    /// Of a `Duration` or a `Timestamp`: both have seconds and nanos, as fields 1 and 2.
    pub(super) fn of(message: &DynamicMessage) -> Nanos {
        let seconds = message
            .get_field_by_number(1)
            .and_then(|v| v.as_i64())
            .unwrap_or_default();
        let nanos = message
            .get_field_by_number(2)
            .and_then(|v| v.as_i32())
            .unwrap_or_default();
        Nanos::new(seconds, nanos)
    }
}

/// In seconds, as the JSON mapping writes durations.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, nanos) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let text = format!(
            "{sign}{}.{:09}",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000
        );
        write!(f, "{}s", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
