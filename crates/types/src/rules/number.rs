//! Rules for ordered values: numbers, durations, timestamps.

use std::fmt::{self, Debug, Display};

use envoy_types::pb::google::protobuf::{Duration, Timestamp};
use envoy_types::pb::validate as pgv;
use prost_reflect::DynamicMessage;

use super::broken::BrokenRule;

/// Limits, and sets of allowed and forbidden values.
#[derive(Debug)]
pub(super) struct Range<T> {
    equal: Option<T>,
    lower: Option<Bound<T>>,
    upper: Option<Bound<T>>,
    one_of: Vec<T>,
    none_of: Vec<T>,
    /// The default value, if it is exempt from the rules (`ignore_empty`).
    ignore_default: Option<T>,
}

#[derive(Debug, Clone, Copy)]
struct Bound<T> {
    limit: T,
    inclusive: bool,
}

impl<T: PartialOrd + Copy + Display> Range<T> {
    pub(super) fn check(&self, rules: &str, value: T, broken: &mut dyn FnMut(BrokenRule)) {
        if self.ignore_default == Some(value) {
            return;
        }
        let mut fail = |rule: String| {
            broken(BrokenRule::new(
                format!("{rules}.{rule}"),
                value.to_string(),
            ));
        };
        if let Some(equal) = self.equal.filter(|equal| value != *equal) {
            fail(format!("const = {equal}"));
        }
        let above = self.lower.map(|bound| bound.is_below(value));
        let below = self.upper.map(|bound| bound.is_above(value));
        match (self.lower, self.upper) {
            // protoc-gen-validate: crossed limits exclude a range. `gt: 10, lt: 5` allows 3 and 12.
            (Some(lower), Some(upper)) if upper.limit < lower.limit => {
                if above != Some(true) && below != Some(true) {
                    fail(format!("{}, or {}", lower.lower_rule(), upper.upper_rule()));
                }
            }
            (lower, upper) => {
                if let Some(lower) = lower.filter(|_| above == Some(false)) {
                    fail(lower.lower_rule());
                }
                if let Some(upper) = upper.filter(|_| below == Some(false)) {
                    fail(upper.upper_rule());
                }
            }
        }
        if !self.one_of.is_empty() && !self.one_of.contains(&value) {
            fail(format!("in = {}", list(&self.one_of)));
        }
        if self.none_of.contains(&value) {
            fail(format!("not_in = {}", list(&self.none_of)));
        }
    }
}

// NaN is neither above nor below any bound, so it breaks every limit.
impl<T: PartialOrd + Copy + Display> Bound<T> {
    fn is_below(self, value: T) -> bool {
        value > self.limit || (self.inclusive && value == self.limit)
    }

    fn is_above(self, value: T) -> bool {
        value < self.limit || (self.inclusive && value == self.limit)
    }

    fn lower_rule(self) -> String {
        format!(
            "{} = {}",
            if self.inclusive { "gte" } else { "gt" },
            self.limit
        )
    }

    fn upper_rule(self) -> String {
        format!(
            "{} = {}",
            if self.inclusive { "lte" } else { "lt" },
            self.limit
        )
    }
}

fn list<T: Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("[{}]", values.join(", "))
}

/// Returns the inclusive limit if both are given, as protoc-gen-validate does.
fn bound<T>(inclusive: Option<T>, exclusive: Option<T>) -> Option<Bound<T>> {
    inclusive
        .map(|limit| Bound {
            limit,
            inclusive: true,
        })
        .or(exclusive.map(|limit| Bound {
            limit,
            inclusive: false,
        }))
}

macro_rules! range_of {
    ($($rules:ident => $number:ty),* $(,)?) => {$(
        impl From<&pgv::$rules> for Range<$number> {
            fn from(rules: &pgv::$rules) -> Self {
                Range {
                    equal: rules.r#const,
                    lower: bound(rules.gte, rules.gt),
                    upper: bound(rules.lte, rules.lt),
                    one_of: rules.r#in.clone(),
                    none_of: rules.not_in.clone(),
                    ignore_default: rules.ignore_empty().then(Default::default),
                }
            }
        }
    )*};
}

range_of! {
    FloatRules => f32, DoubleRules => f64,
    Int32Rules => i32, SInt32Rules => i32, SFixed32Rules => i32,
    Int64Rules => i64, SInt64Rules => i64, SFixed64Rules => i64,
    UInt32Rules => u32, Fixed32Rules => u32,
    UInt64Rules => u64, Fixed64Rules => u64,
}

impl From<&pgv::DurationRules> for Range<Nanos> {
    fn from(rules: &pgv::DurationRules) -> Self {
        let nanos = |d: &Duration| Nanos::new(d.seconds, d.nanos);
        Range {
            equal: rules.r#const.as_ref().map(nanos),
            lower: bound(rules.gte.as_ref().map(nanos), rules.gt.as_ref().map(nanos)),
            upper: bound(rules.lte.as_ref().map(nanos), rules.lt.as_ref().map(nanos)),
            one_of: rules.r#in.iter().map(nanos).collect(),
            none_of: rules.not_in.iter().map(nanos).collect(),
            ignore_default: None,
        }
    }
}

impl From<&pgv::TimestampRules> for Range<Nanos> {
    fn from(rules: &pgv::TimestampRules) -> Self {
        let nanos = |t: &Timestamp| Nanos::new(t.seconds, t.nanos);
        Range {
            equal: rules.r#const.as_ref().map(nanos),
            lower: bound(rules.gte.as_ref().map(nanos), rules.gt.as_ref().map(nanos)),
            upper: bound(rules.lte.as_ref().map(nanos), rules.lt.as_ref().map(nanos)),
            one_of: Vec::new(),
            none_of: Vec::new(),
            ignore_default: None,
        }
    }
}

/// A duration or timestamp in nanoseconds. Every value of the protobuf types fits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Nanos(i128);

impl Nanos {
    pub(super) fn new(seconds: i64, nanos: i32) -> Nanos {
        Nanos(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
    }

    /// Reads a `Duration` or a `Timestamp`: both have seconds and nanos as fields 1 and 2.
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

/// Writes seconds, as the JSON mapping of durations does: `1.5s`.
impl Display for Nanos {
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
