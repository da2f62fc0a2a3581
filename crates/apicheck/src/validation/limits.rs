//! The limits of what has an order: `gt`, `gte`, `lt`, `lte`.

use super::set::Set;

/// The limits of what has an order.
#[derive(Debug, Default)]
pub(super) struct Limits {
    lower: Option<i128>,
    upper: Option<i128>,
    /// An inclusive limit wins when both are given, as in protoc-gen-validate.
    inclusive: (bool, bool),
}

impl Limits {
    /// Between the limits, or outside when they cross: `gt: 10, lt: 5` allows 3 and 12.
    pub(super) fn allowed(&self, whole: &Set) -> Set {
        let (first, last) = whole.ends().unwrap_or((0, 0));
        let above = Set::between(self.lower.unwrap_or(first), last);
        let below = Set::between(first, self.upper.unwrap_or(last));
        match (self.lower_limit(), self.upper_limit()) {
            (Some(lower), Some(upper)) if upper < lower => above.union(&below),
            _ => above.intersection(&below),
        }
        .intersection(whole)
    }

    // The limits as written: `lower` and `upper` are the first and the last value inside.
    fn lower_limit(&self) -> Option<i128> {
        self.lower
            .map(|lower| lower - i128::from(!self.inclusive.0))
    }

    fn upper_limit(&self) -> Option<i128> {
        self.upper
            .map(|upper| upper + i128::from(!self.inclusive.1))
    }

    /// Takes a limit by the name of its rule; false when it is none.
    pub(super) fn set(&mut self, name: &str, limit: i128) -> bool {
        match name {
            "gte" => (self.lower, self.inclusive.0) = (Some(limit), true),
            "lte" => (self.upper, self.inclusive.1) = (Some(limit), true),
            "gt" if !self.inclusive.0 => self.lower = Some(limit + 1),
            "lt" if !self.inclusive.1 => self.upper = Some(limit - 1),
            "gt" | "lt" => {}
            _ => return false,
        }
        true
    }
}
