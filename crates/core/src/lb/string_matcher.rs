//! Matching of texts: values of headers, names in certificates (gRFC A63).

use std::fmt;
use std::hash::{Hash, Hasher};

use regex::Regex;

use super::text::Text;

/// Condition on a text, from a `StringMatcher` or a field that means the same.
#[derive(Debug, Clone)]
pub enum StringMatcher {
    /// The text equals this one.
    Exact(Text),
    /// The text begins with this one.
    Prefix(Text),
    /// The text ends with this one.
    Suffix(Text),
    /// The text contains this one.
    Contains(Text),
    /// The whole text matches the expression.
    Regex(Regex),
}

impl StringMatcher {
    /// Returns whether a text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact.equals(text),
            Self::Prefix(prefix) => prefix.is_prefix_of(text),
            Self::Suffix(suffix) => suffix.is_suffix_of(text),
            Self::Contains(part) => part.is_part_of(text),
            Self::Regex(regex) => regex.is_match(text),
        }
    }

    /// Returns the name of the condition, its text, and whether case counts.
    fn parts(&self) -> (&'static str, &str, bool) {
        let (name, text) = match self {
            Self::Exact(text) => ("exact", text),
            Self::Prefix(text) => ("prefix", text),
            Self::Suffix(text) => ("suffix", text),
            Self::Contains(text) => ("contains", text),
            Self::Regex(regex) => return ("regex", regex.as_str(), true),
        };
        (name, text.as_str(), !text.ignores_case())
    }
}

/// Regular expressions are equal if their texts are.
impl PartialEq for StringMatcher {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for StringMatcher {}

impl Hash for StringMatcher {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// The condition and its text, such as `prefix "shop."`, for errors.
impl fmt::Display for StringMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text, is_case_sensitive) = self.parts();
        write!(f, "{name} {text:?}")?;
        if is_case_sensitive {
            Ok(())
        } else {
            f.write_str(" (any case)")
        }
    }
}
