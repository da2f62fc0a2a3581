//! Patterns for names, as operators write them.

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Deserializer, de};

/// A pattern that matches whole names. `*` stands for any characters but `/`, `**` for any at all; everything else
/// stands for itself.
///
/// So `spiffe://prod/ns/*/sa/shop` is about one segment of a path, and does not match
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
    /// `None`: no wildcard, only the text itself matches.
    regex: Option<Regex>,
}

impl Glob {
    /// Reads a pattern. Every text is one.
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
            // It fails only for patterns of megabytes; those then match their own text alone.
            regex: regex.and_then(|regex| Regex::new(&regex).ok()),
        }
    }

    /// The pattern that only this name fits, whatever characters are in it: for names that somebody else chose.
    #[must_use]
    pub fn exact(name: &str) -> Self {
        Self {
            text: name.to_owned(),
            regex: None,
        }
    }

    /// Whether the whole name fits, in time linear in its length.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(name),
            None => self.text == name,
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether only one name fits.
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
    fn whole_names_match_and_slashes_bound_a_star() {
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
        for (pattern, name, fits) in cases {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn an_exact_name_may_look_like_a_pattern() {
        let exact = Glob::exact("*");
        assert!(exact.matches("*") && !exact.matches("a"));
        assert_ne!(exact, Glob::new("*"));
    }
}
