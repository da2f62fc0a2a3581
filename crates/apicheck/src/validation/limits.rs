//! Limits of ordered values: `gt`, `gte`, `lt`, `lte`.

use super::set::Set;

/// Limits of ordered values.
#[derive(Debug, Default)]
pub(super) struct Limits {
    lower: Option<i128>,
    upper: Option<i128>,
    /// Whether the lower and the upper limit are inclusive. An inclusive limit has priority, as in
    /// protoc-gen-validate.
    inclusive: (bool, bool),
}

impl Limits {
    /// Returns the allowed values: between the limits, or outside if they cross. `gt: 10, lt: 5`
    /// allows 3 and 12.
    pub(super) fn allowed(&self, whole: &Set) -> Set {
        let (first, last) = whole.ends().unwrap_or((0, 0));
        let above = Set::between(self.lower.unwrap_or(first), last);
        let below = Set::between(first, self.upper.unwrap_or(last));
        match (self.lower_limit(), self.upper_limit()) {
            // PGV: crossed limits allow the values outside (V-32).
            (Some(lower), Some(upper)) if upper < lower => above.union(&below),
            _ => above.intersection(&below),
        }
        .intersection(whole)
    }

    // `lower` and `upper` are the first and the last allowed value; these are the limits as
    // written.
    fn lower_limit(&self) -> Option<i128> {
        self.lower
            .map(|lower| lower - i128::from(!self.inclusive.0))
    }

    fn upper_limit(&self) -> Option<i128> {
        self.upper
            .map(|upper| upper + i128::from(!self.inclusive.1))
    }

    /// Sets a limit by rule name. Returns false for other rules.
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
