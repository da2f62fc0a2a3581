//! Which requests a route is for (gRFC A28, A63).

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;

use super::{PerMillion, Text};

/// The headers of a request, as a route sees them.
pub trait Headers {
    /// The value of a header, given in lower case; several values are joined by commas. `None` if there is none, or
    /// it is no text.
    fn get(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// Which requests: all parts must match.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteMatcher {
    /// By path.
    pub path: PathMatcher,
    /// By headers.
    pub headers: Vec<HeaderMatcher>,
    /// And of those, how many.
    pub fraction: Option<PerMillion>,
}

/// Which paths, such as `/pkg.Service/Method`.
#[derive(Debug, Clone)]
pub enum PathMatcher {
    /// Those that begin so.
    Prefix(Text),
    /// This one.
    Exact(Text),
    /// Those that match as a whole.
    Regex(Regex),
}

/// Which values of a header.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderMatcher {
    /// The header's name, in lower case.
    pub name: Box<str>,
    /// Which values.
    pub matching: HeaderMatch,
    /// The others instead. A header that is not there still does not match (C-225).
    pub invert: bool,
}

/// Which values.
#[derive(Debug, Clone)]
pub enum HeaderMatch {
    /// This one.
    Exact(Text),
    /// Those that match as a whole.
    Regex(Regex),
    /// Whole numbers from `start` to below `end`.
    Range(Range<i64>),
    /// Any, or (`false`) none at all.
    Present(bool),
    /// Those that begin so.
    Prefix(Text),
    /// Those that end so.
    Suffix(Text),
    /// Those that hold this.
    Contains(Text),
}

impl RouteMatcher {
    /// Whether the request is one of them. `random` is drawn from only when all else matches.
    pub fn matches(
        &self,
        path: &str,
        headers: &(impl Headers + ?Sized),
        random: impl FnOnce() -> u64,
    ) -> bool {
        self.path.matches(path)
            && self.headers.iter().all(|header| header.matches(headers))
            && self.fraction.is_none_or(|share| share.hit(random()))
    }
}

impl PathMatcher {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.begins(path),
            Self::Exact(exact) => exact.is(path),
            Self::Regex(regex) => regex.is_match(path),
        }
    }
}

impl HeaderMatcher {
    fn matches(&self, headers: &(impl Headers + ?Sized)) -> bool {
        match (&self.matching, self.value(headers)) {
            (HeaderMatch::Present(present), value) => (value.is_some() == *present) != self.invert,
            (_, None) => false,
            (matching, Some(value)) => matching.matches(&value) != self.invert,
        }
    }

    /// Binary headers count as absent; the content type is always gRPC's, though a stack may add it only later; the
    /// transport's own headers are not there (gRFC A28).
    fn value<'a>(&self, headers: &'a (impl Headers + ?Sized)) -> Option<Cow<'a, str>> {
        const TRANSPORT: [&str; 6] = [
            "te",
            "grpc-timeout",
            "grpc-encoding",
            "grpc-accept-encoding",
            "connection",
            "host",
        ];
        match &*self.name {
            "content-type" => Some(Cow::Borrowed("application/grpc")),
            name if name.ends_with("-bin") || name.starts_with(':') => None,
            name if TRANSPORT.contains(&name) => None,
            name => headers.get(name),
        }
    }
}

impl HeaderMatch {
    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => text.is(value),
            Self::Regex(regex) => regex.is_match(value),
            Self::Range(range) => value
                .parse()
                .is_ok_and(|number: i64| range.contains(&number)),
            Self::Present(present) => *present,
            Self::Prefix(text) => text.begins(value),
            Self::Suffix(text) => text.ends(value),
            Self::Contains(text) => text.is_in(value),
        }
    }
}

/// Expressions are equal when they are spelled alike.
impl PartialEq for PathMatcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(a), Self::Prefix(b)) | (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

/// Expressions are equal when they are spelled alike.
impl PartialEq for HeaderMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b))
            | (Self::Prefix(a), Self::Prefix(b))
            | (Self::Suffix(a), Self::Suffix(b))
            | (Self::Contains(a), Self::Contains(b)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.as_str() == b.as_str(),
            (Self::Range(a), Self::Range(b)) => a == b,
            (Self::Present(a), Self::Present(b)) => a == b,
            _ => false,
        }
    }
}
