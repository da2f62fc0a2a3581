//! Demands that stand by themselves: met or not.

use std::fmt;

/// A demand on a value. A value passes when all needs of its rules are met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// It must be set (fields that know whether they are), or one of a oneof must.
    Required,
    /// It matches a regular expression (RE2).
    Pattern(String),
    /// It starts with this.
    Prefix(Vec<u8>),
    /// It ends with this.
    Suffix(Vec<u8>),
    /// This is somewhere in it.
    Contains(Vec<u8>),
    /// This is nowhere in it.
    Lacks(Vec<u8>),
    /// A well-known format, by the name of its rule: `email`, `http_header_name`.
    Format {
        /// The name.
        name: String,
        /// `strict`, for header names and values.
        strict: bool,
    },
    /// It is a value that its enum declares.
    DefinedOnly,
    /// All items differ.
    Unique,
    /// No value of the map is missing (`no_sparse`).
    Full,
    /// A time before the moment of validation.
    LessThanNow,
    /// A time after it.
    GreaterThanNow,
    /// A time at most so many nanoseconds away from it.
    Within(i128),
    /// A CEL expression of protovalidate holds.
    Expression {
        /// Its id, which may be empty.
        id: String,
        /// The expression without needless space.
        text: String,
    },
    /// A rule that this program does not know, by name and value.
    Other(String, String),
}

/// The part of validation that a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aspect {
    /// Whether it must be set.
    Presence,
    /// Limits of numbers, durations and times.
    Bound,
    /// Lists of what is allowed and what is not: `const`, `in`, `not_in`.
    Values,
    /// Whether an enum takes numbers that it does not declare.
    DefinedOnly,
    /// The length of strings and bytes.
    Length,
    /// How many items or pairs.
    Count,
    /// Patterns, prefixes and suffixes, contents, well-known formats.
    Format,
    /// Whether items must differ, and values must be there.
    Items,
    /// CEL expressions, and rules that this program does not know.
    Expression,
    /// Whether empty values are left unchecked.
    Empty,
    /// Whether it is checked at all: `disabled`, `ignored`, `skip`.
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
            | Need::Lacks(_)
            | Need::Format { .. } => Aspect::Format,
            Need::DefinedOnly => Aspect::DefinedOnly,
            Need::Unique | Need::Full => Aspect::Items,
            Need::LessThanNow | Need::GreaterThanNow | Need::Within(_) => Aspect::Bound,
            Need::Expression { .. } | Need::Other(..) => Aspect::Expression,
        }
    }

    /// Whether all that meets `self` meets `other`.
    pub(super) fn implies(&self, other: &Need) -> bool {
        match (self, other) {
            (Need::Prefix(mine), Need::Prefix(theirs)) => mine.starts_with(theirs),
            (Need::Suffix(mine), Need::Suffix(theirs)) => mine.ends_with(theirs),
            (
                Need::Prefix(mine) | Need::Suffix(mine) | Need::Contains(mine),
                Need::Contains(theirs),
            ) => contains(mine, theirs),
            (Need::Lacks(mine), Need::Lacks(theirs)) => contains(theirs, mine),
            (
                Need::Format { name, strict },
                Need::Format {
                    name: other,
                    strict: other_strict,
                },
            ) => (name == other || narrower(name, other)) && (*strict || !other_strict),
            (Need::Within(mine), Need::Within(theirs)) => mine <= theirs,
            _ => self == other,
        }
    }

    /// Whether a text meets it; none when that cannot be told here.
    pub(super) fn accepts(&self, text: &[u8]) -> Option<bool> {
        match self {
            Need::Pattern(pattern) => {
                let regex = regex::bytes::Regex::new(pattern).ok()?;
                Some(regex.is_match(text))
            }
            Need::Prefix(prefix) => Some(text.starts_with(prefix)),
            Need::Suffix(suffix) => Some(text.ends_with(suffix)),
            Need::Contains(part) => Some(contains(text, part)),
            Need::Lacks(part) => Some(!contains(text, part)),
            // No format but `uri_ref` and header values takes the empty text.
            Need::Format { name, .. } if text.is_empty() => {
                Some(matches!(name.as_str(), "uri_ref" | "http_header_value"))
            }
            Need::Required => Some(true),
            _ => None,
        }
    }

    /// The least number of bytes that meets it.
    pub(super) fn least_bytes(&self) -> usize {
        match self {
            Need::Prefix(part) | Need::Suffix(part) | Need::Contains(part) => part.len(),
            Need::Format { .. } => usize::from(self.accepts(b"") == Some(false)),
            _ => 0,
        }
    }
}

/// Whether every text of the first format is of the second.
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
