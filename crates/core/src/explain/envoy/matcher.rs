//! Conditions of a route as Envoy checks them.

use std::borrow::Cow;
use std::fmt;

use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher as HeaderProto, RouteMatch, route_match::PathSpecifier,
};
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

use crate::explain::check::{header_unmet, path_unmet};
use crate::explain::request::Request;
use crate::lb::{HeaderMatch, HeaderMatcher, Headers as _, PathMatcher, Text};
use crate::resource::{Invalid, full_match, header_matcher};

use super::cookie::CookieMatcher;
use super::query::QueryMatcher;

/// Conditions of a route.
#[derive(Debug)]
pub(super) struct EnvoyMatcher {
    path: EnvoyPath,
    headers: Vec<EnvoyHeader>,
    query: Vec<QueryMatcher>,
    cookies: Vec<CookieMatcher>,
    is_grpc: bool,
    pub(super) fraction: Option<Fraction>,
    /// Conditions that are not examined.
    pub(super) unknown: Vec<&'static str>,
}

/// Condition on a path.
#[derive(Debug)]
enum EnvoyPath {
    Common(PathMatcher),
    /// The prefix ends at a `/` of the path, or with it.
    Separated(Text),
    /// `CONNECT` requests only.
    Connect,
    /// An extension.
    Policy,
}

#[derive(Debug)]
struct EnvoyHeader {
    matcher: HeaderMatcher,
    treat_missing_as_empty: bool,
}

/// Share of the requests: random numbers whose remainder by `denominator` is below `numerator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    pub(super) numerator: u32,
    pub(super) denominator: u32,
}

/// The parts of a request that a route sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchedRequest<'a> {
    pub(super) request: &'a Request,
    /// Path without what is not compared.
    pub(super) path: &'a str,
    pub(super) authority: &'a str,
    pub(super) scheme: &'static str,
}

impl EnvoyMatcher {
    pub(super) fn new(proto: Option<&RouteMatch>) -> Result<Self, Invalid> {
        let proto = proto.ok_or_else(|| Invalid::new("must be set"))?;
        let ignore_case = proto
            .case_sensitive
            .is_some_and(|sensitive| !sensitive.value);
        let text = |text: &str| Text::new(text, ignore_case);
        let path = match &proto.path_specifier {
            Some(PathSpecifier::Prefix(prefix)) => {
                EnvoyPath::Common(PathMatcher::Prefix(text(prefix)))
            }
            Some(PathSpecifier::Path(path)) => EnvoyPath::Common(PathMatcher::Exact(text(path))),
            Some(PathSpecifier::SafeRegex(regex)) => {
                EnvoyPath::Common(PathMatcher::Regex(full_match(regex)?))
            }
            Some(PathSpecifier::PathSeparatedPrefix(prefix)) => EnvoyPath::Separated(text(prefix)),
            Some(PathSpecifier::ConnectMatcher(_)) => EnvoyPath::Connect,
            Some(PathSpecifier::PathMatchPolicy(_)) => EnvoyPath::Policy,
            None => return Err(Invalid::new("must be set").at("path_specifier")),
        };
        let unexamined = [
            ("path_match_policy", matches!(path, EnvoyPath::Policy)),
            ("tls_context", proto.tls_context.is_some()),
            ("dynamic_metadata", !proto.dynamic_metadata.is_empty()),
            ("filter_state", !proto.filter_state.is_empty()),
        ];
        let headers = proto.headers.iter().map(EnvoyHeader::new);
        let query = proto.query_parameters.iter().map(QueryMatcher::new);
        let cookies = proto.cookies.iter().map(CookieMatcher::new);
        let fraction = proto.runtime_fraction.as_ref();
        let fraction = fraction.and_then(|runtime| runtime.default_value.as_ref());
        Ok(Self {
            path,
            headers: headers.collect::<Result<_, _>>()?,
            query: query.collect::<Result<_, _>>()?,
            cookies: cookies.collect::<Result<_, _>>()?,
            is_grpc: proto.grpc.is_some(),
            fraction: fraction.map(|percent| Fraction {
                numerator: percent.numerator,
                denominator: match percent.denominator() {
                    DenominatorType::Hundred => 100,
                    DenominatorType::TenThousand => 10_000,
                    DenominatorType::Million => 1_000_000,
                },
            }),
            unknown: unexamined
                .iter()
                .filter(|one| one.1)
                .map(|one| one.0)
                .collect(),
        })
    }

    /// Whether the condition on the path is met.
    pub(super) fn matches_path(&self, seen: MatchedRequest<'_>) -> bool {
        self.path.matches(seen)
    }

    /// Returns why a request does not match, apart from fraction and what is not examined.
    pub(super) fn unmet(&self, seen: MatchedRequest<'_>) -> Option<String> {
        if !self.matches_path(seen) {
            return Some(path_unmet());
        }
        let mut headers = self.headers.iter();
        if let Some(reason) = headers.find_map(|header| header.unmet(seen)) {
            return Some(reason);
        }
        let mut query = self.query.iter();
        if let Some(reason) = query.find_map(|matcher| matcher.unmet(seen.request.query())) {
            return Some(reason);
        }
        if !self.cookies.is_empty() {
            let header = seen.header("cookie");
            let mut cookies = self.cookies.iter();
            if let Some(reason) = cookies.find_map(|one| one.unmet(header.as_deref())) {
                return Some(reason);
            }
        }
        (self.is_grpc && !is_grpc(seen.request)).then(|| "the request is not gRPC".to_owned())
    }
}

/// Envoy, `Grpc::Common::hasGrpcContentType`: `application/grpc`, alone or before a `+`.
fn is_grpc(request: &Request) -> bool {
    let content_type = request.get("content-type");
    let rest = content_type
        .as_deref()
        .and_then(|text| text.strip_prefix("application/grpc"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

impl EnvoyPath {
    fn matches(&self, seen: MatchedRequest<'_>) -> bool {
        match self {
            Self::Common(path) => path.matches(seen.path),
            Self::Separated(prefix) => prefix.is_separated_prefix_of(seen.path),
            Self::Connect => seen.request.method == "CONNECT",
            Self::Policy => true,
        }
    }
}

impl EnvoyHeader {
    fn new(proto: &HeaderProto) -> Result<Self, Invalid> {
        let matcher = match &proto.header_match_specifier {
            // Envoy, unlike gRPC, takes a matcher without a condition as `present_match`.
            None => HeaderMatcher {
                name: proto.name.to_ascii_lowercase().into(),
                matching: HeaderMatch::Present(true),
                invert: proto.invert_match,
            },
            Some(_) => header_matcher(proto)?,
        };
        Ok(Self {
            matcher,
            treat_missing_as_empty: proto.treat_missing_header_as_empty,
        })
    }

    fn unmet(&self, seen: MatchedRequest<'_>) -> Option<String> {
        let value = seen.header(&self.matcher.name);
        let compared = match (&value, self.treat_missing_as_empty) {
            (None, true) => Some(""),
            (value, _) => value.as_deref(),
        };
        let is_met = self.matcher.matches_value(compared);
        (!is_met).then(|| header_unmet(&self.matcher, value.as_deref()))
    }
}

impl<'a> MatchedRequest<'a> {
    /// Returns a header or pseudo-header; several values are joined by commas.
    pub(super) fn header(self, name: &str) -> Option<Cow<'a, str>> {
        match name {
            ":method" => Some(self.request.method.as_str().into()),
            ":path" => Some(self.request.path.as_str().into()),
            ":authority" | "host" => Some(self.authority.into()),
            ":scheme" => Some(self.scheme.into()),
            name => self.request.get(name),
        }
    }
}

impl fmt::Display for EnvoyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common(path) => path.fmt(f),
            Self::Separated(prefix) => write!(f, "path-separated prefix {:?}", prefix.as_str()),
            Self::Connect => f.write_str("CONNECT"),
            Self::Policy => f.write_str("path_match_policy"),
        }
    }
}

/// The conditions, in the same words as those of gRPC.
impl fmt::Display for EnvoyMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        for header in &self.headers {
            write!(f, ", {}", header.matcher)?;
        }
        for query in &self.query {
            write!(f, ", {query}")?;
        }
        for cookie in &self.cookies {
            write!(f, ", {cookie}")?;
        }
        if self.is_grpc {
            f.write_str(", gRPC only")?;
        }
        match self.fraction {
            Some(share) => {
                let percent = 100.0 * f64::from(share.numerator) / f64::from(share.denominator);
                write!(f, ", {percent}% of the requests")
            }
            None => Ok(()),
        }
    }
}
