//! Matching of requests to routes (gRFC A28, A63).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use regex::Regex;

use super::chance::PerMillion;
use super::string_matcher::StringMatcher;
use super::text::Text;

/// Headers of a request, as routes see them.
pub trait Headers {
    /// Returns the value of a header whose name is in lower case. Several values are joined by commas. `None` if the
    /// header is absent, or its value is not text.
    fn get(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// Matcher of requests: path, headers and fraction must all match.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteMatcher {
    /// Condition on the path.
    pub path: PathMatcher,
    /// Conditions on headers.
    pub headers: Vec<HeaderMatcher>,
    /// Share of the matching requests that the route takes; all without one.
    pub fraction: Option<PerMillion>,
}

/// Condition on a path such as `/pkg.Service/Method`.
#[derive(Debug, Clone)]
pub enum PathMatcher {
    /// The path begins with the text.
    Prefix(Text),
    /// The path equals the text.
    Exact(Text),
    /// The whole path matches the expression.
    Regex(Regex),
}

/// Condition on a header.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderMatcher {
    /// Name of the header, in lower case.
    pub name: Box<str>,
    /// Condition on the value.
    pub matching: HeaderMatch,
    /// Whether the condition is inverted. An absent header does not match either way (C-225).
    pub invert: bool,
}

/// Condition on the value of a header.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderMatch {
    /// The value matches as a text.
    Text(StringMatcher),
    /// The value is an integer from `start` to below `end`.
    Range(Range<i64>),
    /// The header is present (`true`) or absent (`false`).
    Present(bool),
}

/// First condition of a [`RouteMatcher`] that a request does not meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mismatch<'a> {
    /// The condition on the path.
    Path(&'a PathMatcher),
    /// A condition on a header.
    Header(&'a HeaderMatcher),
}

impl RouteMatcher {
    /// Returns whether a request matches. `random` is called only if path and headers match.
    pub fn matches(
        &self,
        path: &str,
        headers: &(impl Headers + ?Sized),
        random: impl FnOnce() -> u64,
    ) -> bool {
        self.mismatch(path, headers).is_none()
            && self.fraction.is_none_or(|share| share.hit(random()))
    }

    /// Returns the first condition that a request does not meet, apart from the fraction; `None` if it meets all.
    pub fn mismatch(&self, path: &str, headers: &(impl Headers + ?Sized)) -> Option<Mismatch<'_>> {
        if !self.path.matches(path) {
            return Some(Mismatch::Path(&self.path));
        }
        let mut conditions = self.headers.iter();
        let unmet = conditions.find(|header| !header.matches(headers));
        unmet.map(Mismatch::Header)
    }
}

impl PathMatcher {
    pub(crate) fn matches(&self, path: &str) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.is_prefix_of(path),
            Self::Exact(exact) => exact.equals(path),
            Self::Regex(regex) => regex.is_match(path),
        }
    }
}

impl HeaderMatcher {
    fn matches(&self, headers: &(impl Headers + ?Sized)) -> bool {
        self.matches_value(visible(&self.name, headers).as_deref())
    }

    /// Returns whether the value of the header matches; `None` is an absent header.
    #[must_use]
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match (&self.matching, value) {
            (HeaderMatch::Present(present), value) => (value.is_some() == *present) != self.invert,
            // gRFC A28: only `present_match` can match an absent header (C-225).
            (_, None) => false,
            (HeaderMatch::Text(text), Some(value)) => text.matches(value) != self.invert,
            (HeaderMatch::Range(range), Some(value)) => {
                let number = value.parse::<i64>();
                number.is_ok_and(|number| range.contains(&number)) != self.invert
            }
        }
    }
}

/// Returns the value of a header as routes and hash policies see it. `name` is in lower case.
pub(crate) fn visible<'a>(
    name: &str,
    headers: &'a (impl Headers + ?Sized),
) -> Option<Cow<'a, str>> {
    const TRANSPORT: [&str; 6] = [
        "te",
        "grpc-timeout",
        "grpc-encoding",
        "grpc-accept-encoding",
        "connection",
        "host",
    ];
    match name {
        // gRFC A28: the content type is always gRPC's, even if the stack adds it later.
        "content-type" => Some(Cow::Borrowed("application/grpc")),
        // gRFC A28: binary headers and pseudo-headers count as absent.
        name if name.ends_with("-bin") || name.starts_with(':') => None,
        // gRFC A28: headers of the transport are not visible to routes.
        name if TRANSPORT.contains(&name) => None,
        name => headers.get(name),
    }
}

/// Regular expressions are equal if their texts are.
impl PartialEq for PathMatcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(a), Self::Prefix(b)) | (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

/// The condition and its text, such as `prefix "/shop."`.
impl fmt::Display for PathMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::Prefix(text) => ("prefix", text),
            Self::Exact(text) => ("path", text),
            Self::Regex(regex) => return write!(f, "regex {:?}", regex.as_str()),
        };
        write!(f, "{name} {:?}", text.as_str())?;
        if text.ignores_case() {
            f.write_str(" (any case)")
        } else {
            Ok(())
        }
    }
}

/// The header and the condition, such as `header x-env exact "canary"`.
impl fmt::Display for HeaderMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {:?} ", self.name)?;
        if self.invert {
            f.write_str("not ")?;
        }
        match &self.matching {
            HeaderMatch::Text(text) => text.fmt(f),
            HeaderMatch::Range(range) => write!(f, "from {} to below {}", range.start, range.end),
            HeaderMatch::Present(true) => f.write_str("present"),
            HeaderMatch::Present(false) => f.write_str("absent"),
        }
    }
}

/// Path, headers and fraction, such as `prefix "/", header "x-env" present, 25% of the requests`.
impl fmt::Display for RouteMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        for header in &self.headers {
            write!(f, ", {header}")?;
        }
        match self.fraction {
            Some(share) => write!(f, ", {share} of the requests"),
            None => Ok(()),
        }
    }
}
