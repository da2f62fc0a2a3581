//! Texts about conditions that a request does not meet, and about shares.

use crate::lb::HeaderMatcher;

/// Returns why a header does not meet a condition. `value` is the header as the rule set sees it.
pub(super) fn header_unmet(matcher: &HeaderMatcher, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("header {:?} is {value:?}", matcher.name),
        None => format!("header {:?} is absent", matcher.name),
    }
}

/// Returns why a path does not meet the condition on it.
pub(super) fn path_unmet() -> String {
    "the path differs".to_owned()
}
