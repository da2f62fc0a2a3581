//! Patterns for names in settings files.

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Deserializer, de};

/// A pattern that matches whole names. `*` matches any characters but `/`, and `**` matches any characters. All other
/// characters match themselves.
///
/// So the `*` of `spiffe://prod/ns/*/sa/shop` matches one segment of a path. The pattern does not match
/// `spiffe://prod/ns/shop/sa/evil/sa/shop`.
///
/// ```
/// use oxds_types::Glob;
///
/// let shops = Glob::new("shop-*");
/// assert!(shops.matches("shop-1") && shops.matches("shop-"));
/// assert!(!shops.matches("shop-1/admin") && !shops.matches("my-shop-1"));
/// assert!(Glob::new("**").matches("shop-1/admin"));
/// ```
#[derive(Debug, Clone)]
pub struct Glob {
    text: String,
    /// `None` if the pattern has no `*`: only the text itself matches.
    regex: Option<Regex>,
}

impl Glob {
    /// Parses a pattern. Every text is a valid pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let regex = text.contains('*').then(|| {
            let segments = text.split("**").map(|part| {
                let literals: Vec<_> = part.split('*').map(regex::escape).collect();
                literals.join("[^/]*")
            });
            let segments: Vec<_> = segments.collect();
            format!(r"(?s)\A(?:{})\z", segments.join(".*"))
        });
        Self {
            text: text.to_owned(),
            // This fails only for patterns of megabytes, which then match only their own text.
            regex: regex.and_then(|regex| Regex::new(&regex).ok()),
        }
    }

    /// Returns the pattern that matches only this name: `*` is not special. Use it for names from outside.
    #[must_use]
    pub fn exact(name: &str) -> Self {
        Self {
            text: name.to_owned(),
            regex: None,
        }
    }

    /// Returns whether the whole name matches, in time linear in its length.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(name),
            None => self.text == name,
        }
    }

    /// Returns the text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches only one name.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.regex.is_none()
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.is_exact() == other.is_exact()
    }
}

impl Eq for Glob {}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Err(de::Error::custom("an empty pattern matches nothing"));
        }
        Ok(Self::new(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_within_one_path_segment() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("a.c", "abc", false),
            ("a*c", "ac", true),
            ("a*c", "abbc", true),
            ("a*c", "ab/c", false),
            ("a**c", "ab/c", true),
            ("*", "", true),
            ("*", "a/b", false),
            ("**", "a/b\nc", true),
            ("spiffe://p/*/web", "spiffe://p/x/web", true),
            ("spiffe://p/*/web", "spiffe://p/x/y/web", false),
            ("*.example.com", "a.b.example.com", true),
            ("a\\*", "a\\b", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(
                Glob::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn exact_pattern_does_not_interpret_stars() {
        let exact = Glob::exact("*");
        assert!(exact.matches("*") && !exact.matches("a"));
        assert_ne!(exact, Glob::new("*"));
    }
}
