//! Needs: independent requirements, each met or not met.

use std::fmt;

/// Requirement on a value. A value is valid if all needs of its rules are met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// The value, or one member of a oneof, must be set.
    Required,
    /// The text matches a regular expression (RE2).
    Pattern(String),
    /// The text starts with these bytes.
    Prefix(Vec<u8>),
    /// The text ends with these bytes.
    Suffix(Vec<u8>),
    /// The text contains these bytes.
    Contains(Vec<u8>),
    /// The text does not contain these bytes.
    NotContains(Vec<u8>),
    /// The text has a well-known format, given by rule name: `email`.
    Format(String),
    /// The text can stand in an HTTP header.
    Header(Header),
    /// The number is a declared value of its enum.
    DefinedOnly,
    /// All items are different.
    Unique,
    /// No value of the map is missing (`no_sparse`).
    NoSparse,
    /// The time is before the time of validation.
    LessThanNow,
    /// The time is after the time of validation.
    GreaterThanNow,
    /// The time is at most this many nanoseconds away from the time of validation.
    Within(i128),
    /// A CEL expression of protovalidate is true.
    Expression {
        /// Id of the expression; may be empty.
        id: String,
        /// The expression without surrounding space.
        text: String,
    },
    /// Unknown rule, by name and value.
    Other(String, String),
}

/// Texts of HTTP headers that a rule accepts. Each variant accepts all texts of the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Header {
    /// Header names, in strict mode.
    Name,
    /// Header values, in strict mode.
    Value,
    /// Without `strict`: names and values without NUL and line ends.
    Loose,
}

/// Part of validation that a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Aspect {
    /// Whether the value must be set.
    Presence,
    /// Limits of numbers, durations and timestamps.
    Bound,
    /// Allowed and forbidden values: `const`, `in`, `not_in`.
    Values,
    /// Whether undeclared enum numbers are accepted.
    DefinedOnly,
    /// Length of strings and bytes.
    Length,
    /// Number of items or pairs.
    Count,
    /// Patterns, prefixes, suffixes, contained text, well-known formats.
    Format,
    /// Whether items must be different, and whether map values must be present.
    Items,
    /// CEL expressions and unknown rules.
    Expression,
    /// Whether empty values are checked.
    Empty,
    /// Whether the element is checked at all: `disabled`, `ignored`, `skip`.
    Scope,
}

impl Need {
    pub(super) fn aspect(&self) -> Aspect {
        match self {
            Need::Required => Aspect::Presence,
            Need::Pattern(_)
            | Need::Prefix(_)
            | Need::Suffix(_)
            | Need::Contains(_)
            | Need::NotContains(_)
            | Need::Format(_)
            | Need::Header(_) => Aspect::Format,
            Need::DefinedOnly => Aspect::DefinedOnly,
            Need::Unique | Need::NoSparse => Aspect::Items,
            Need::LessThanNow | Need::GreaterThanNow | Need::Within(_) => Aspect::Bound,
            Need::Expression { .. } | Need::Other(..) => Aspect::Expression,
        }
    }

    /// Returns whether every value that meets `self` meets `other`.
    pub(super) fn implies(&self, other: &Need) -> bool {
        match (self, other) {
            (Need::Prefix(mine), Need::Prefix(theirs)) => mine.starts_with(theirs),
            (Need::Suffix(mine), Need::Suffix(theirs)) => mine.ends_with(theirs),
            (
                Need::Prefix(mine) | Need::Suffix(mine) | Need::Contains(mine),
                Need::Contains(theirs),
            ) => contains(mine, theirs),
            (Need::NotContains(mine), Need::NotContains(theirs)) => contains(theirs, mine),
            (Need::Format(name), Need::Format(other)) => name == other || narrower(name, other),
            (Need::Header(mine), Need::Header(theirs)) => mine <= theirs,
            (Need::Within(mine), Need::Within(theirs)) => mine <= theirs,
            _ => self == other,
        }
    }

    /// Returns whether a text meets the need, or `None` if that is undecidable here.
    pub(super) fn accepts(&self, text: &[u8]) -> Option<bool> {
        match self {
            Need::Pattern(pattern) => {
                let regex = regex::bytes::Regex::new(pattern).ok()?;
                Some(regex.is_match(text))
            }
            Need::Prefix(prefix) => Some(text.starts_with(prefix)),
            Need::Suffix(suffix) => Some(text.ends_with(suffix)),
            Need::Contains(part) => Some(contains(text, part)),
            Need::NotContains(part) => Some(!contains(text, part)),
            Need::Header(header) => Some(header.accepts(text)),
            // Only `uri_ref` accepts the empty text.
            Need::Format(name) if text.is_empty() => Some(name == "uri_ref"),
            // They are not about the text.
            Need::Required | Need::DefinedOnly => Some(true),
            _ => None,
        }
    }

    /// Returns the minimum number of bytes of a valid text.
    pub(super) fn least_bytes(&self) -> usize {
        match self {
            Need::Prefix(part) | Need::Suffix(part) | Need::Contains(part) => part.len(),
            Need::Format(_) | Need::Header(_) => usize::from(self.accepts(b"") == Some(false)),
            _ => 0,
        }
    }
}

impl Header {
    /// Returns whether the rule accepts a text. The sets of bytes are those of protoc-gen-validate
    /// and protovalidate.
    fn accepts(self, text: &[u8]) -> bool {
        match self {
            Header::Name => {
                let name = text.strip_prefix(b":").unwrap_or(text);
                let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || TOKEN.contains(byte);
                !name.is_empty() && name.iter().all(is_token)
            }
            Header::Value => !text
                .iter()
                .any(|byte| matches!(byte, 0..=8 | 10..=0x1f | 0x7f)),
            Header::Loose => !text.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')),
        }
    }
}

/// Characters of a header name besides letters and digits (RFC 9110, `tchar`).
const TOKEN: &[u8] = b"!#$%&'*+-.^_|~`";

/// Returns whether every text of the first format also has the second format.
fn narrower(first: &str, second: &str) -> bool {
    match second {
        "ip" => matches!(first, "ipv4" | "ipv6"),
        "address" => matches!(first, "ip" | "ipv4" | "ipv6" | "hostname"),
        "uri_ref" => first == "uri",
        _ => false,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aspect::Presence => "required",
            Aspect::Bound => "limits",
            Aspect::Values => "allowed values",
            Aspect::DefinedOnly => "defined_only",
            Aspect::Length => "length",
            Aspect::Count => "number of items",
            Aspect::Format => "format",
            Aspect::Items => "items",
            Aspect::Expression => "expressions",
            Aspect::Empty => "empty values",
            Aspect::Scope => "whether it is checked",
        })
    }
}
