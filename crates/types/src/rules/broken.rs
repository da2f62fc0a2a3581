//! A broken rule, the value type of all checks.

/// A rule that a value breaks. The caller knows the path to the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokenRule {
    pub(crate) rule: String,
    /// Empty if the field is not set.
    pub(crate) value: String,
}

impl BrokenRule {
    pub(crate) fn new(rule: impl Into<String>, value: impl Into<String>) -> BrokenRule {
        BrokenRule {
            rule: rule.into(),
            value: value.into(),
        }
    }
}
