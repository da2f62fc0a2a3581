//! Durations and timestamps as numbers, and the rules that compare with the present.

use std::fmt;
use std::time::SystemTime;

use envoy_types::pb::validate as pgv;
use prost_reflect::DynamicMessage;

use super::Broken;

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

/// `lt_now`, `gt_now` and `within`: the one place in this crate that reads a clock, and none of
/// the API's rules comes here.
#[derive(Debug, Clone, Copy)]
pub(super) struct NowRules {
    before: bool,
    after: bool,
    within: Option<Nanos>,
}

impl NowRules {
    pub(super) fn compile(rules: &pgv::TimestampRules) -> NowRules {
        NowRules {
            before: rules.lt_now(),
            after: rules.gt_now(),
            within: rules
                .within
                .as_ref()
                .map(|d| Nanos::new(d.seconds, d.nanos)),
        }
    }

    pub(super) fn check(self, value: Nanos, broken: &mut dyn FnMut(Broken)) {
        if !(self.before || self.after || self.within.is_some()) {
            return;
        }
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = Nanos(since_epoch.as_nanos() as i128);
        if self.before && value >= now {
            broken(Broken::new("timestamp.lt_now", value.to_string()));
        }
        if self.after && value <= now {
            broken(Broken::new("timestamp.gt_now", value.to_string()));
        }
        if let Some(within) = self
            .within
            .filter(|within| (value.0 - now.0).abs() > within.0)
        {
            broken(Broken::new(
                format!("timestamp.within = {within}"),
                value.to_string(),
            ));
        }
    }
}
