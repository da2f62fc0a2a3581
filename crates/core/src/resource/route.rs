//! RDS: from a request's authority, path and headers to the cluster that serves it.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher as HeaderProto, Route as RouteProto, RouteAction as RouteActionProto,
    RouteConfiguration, RouteMatch as MatchProto, VirtualHost as HostProto, WeightedCluster,
    header_matcher::HeaderMatchSpecifier,
    route::Action as ActionProto,
    route_action::{ClusterSpecifier, MaxStreamDuration},
    route_match::PathSpecifier,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use prost::Message;

use super::Invalid;
use super::assignment::per_million;
use super::convert::{duration, full_match};
use super::invalid::Within;
use crate::lb::{Domain, HeaderMatch, HeaderMatcher, PathMatcher, RouteMatcher, Text};

/// Virtual hosts and their routes, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// Its name; may be empty for routes that stand in a listener.
    pub name: Arc<str>,
    /// In the order of the resource.
    pub virtual_hosts: Vec<VirtualHost>,
}

/// Routes for some authorities.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualHost {
    /// Its name.
    pub name: String,
    /// The authorities; at least one.
    pub domains: Vec<Domain>,
    /// In the order in which they are tried.
    pub routes: Vec<Route>,
}

/// Which requests, and what to do with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Which requests.
    pub matcher: RouteMatcher,
    /// What to do.
    pub action: RouteAction,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteAction {
    /// Send it to a cluster.
    Forward(Forward),
    /// Fail it: the action is for servers, or one that gRPC does not have (C-187).
    Unsupported,
}

/// To which cluster, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// To which cluster.
    pub target: RouteTarget,
    /// For how long.
    pub limit: StreamLimit,
}

/// To which cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTarget {
    /// This one.
    Cluster(Arc<str>),
    /// One of these, by weight. At least one; weights are above zero and add up within 32 bits.
    Weighted(Vec<(Arc<str>, u32)>),
}

/// A route's own bound on an RPC's duration (gRFC A31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamLimit {
    /// Of `max_stream_duration.grpc_timeout_header_max`.
    pub grpc_timeout_header_max: Option<Duration>,
    /// Of `max_stream_duration.max_stream_duration`.
    pub max_stream_duration: Option<Duration>,
}

impl RouteConfig {
    pub(super) fn from_bytes(value: &[u8]) -> Result<Self, Invalid> {
        let proto = RouteConfiguration::decode(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        let name = proto.name.clone();
        Self::from_proto(proto).map_err(|invalid| invalid.of(&name))
    }

    /// Every virtual host is checked, not only the one that a target will need (gRFC A28).
    pub(super) fn from_proto(proto: RouteConfiguration) -> Result<Self, Invalid> {
        let hosts = proto.virtual_hosts.iter().enumerate();
        let virtual_hosts = hosts
            .map(|(index, host)| VirtualHost::from_proto(host).within_index("virtual_hosts", index))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: proto.name.into(),
            virtual_hosts,
        })
    }
}

impl VirtualHost {
    fn from_proto(proto: &HostProto) -> Result<Self, Invalid> {
        if proto.domains.is_empty() {
            return Err(Invalid::new("must not be empty").at("domains"));
        }
        let domains = proto.domains.iter().enumerate();
        let domains = domains
            .map(|(index, domain)| {
                let parsed = Domain::parse(domain).ok_or_else(|| {
                    Invalid::new(format!(
                        "{domain:?} may have one *, at its beginning or its end"
                    ))
                });
                parsed.within_index("domains", index)
            })
            .collect::<Result<_, _>>()?;
        let mut routes = Vec::with_capacity(proto.routes.len());
        for (index, route) in proto.routes.iter().enumerate() {
            routes.extend(Route::from_proto(route).within_index("routes", index)?);
        }
        Ok(Self {
            name: proto.name.clone(),
            domains,
            routes,
        })
    }
}

impl Route {
    /// `None` for a route that gRPC leaves out: it asks for what a gRPC request does not have.
    fn from_proto(proto: &RouteProto) -> Result<Option<Self>, Invalid> {
        let matching = proto.r#match.as_ref();
        let matching = matching
            .ok_or_else(|| Invalid::new("must be set"))
            .within("match")?;
        // No gRPC request has query parameters, and none comes in over a connection of its own (gRFC A28).
        if !matching.query_parameters.is_empty() {
            return Ok(None);
        }
        let matcher = matcher(matching).within("match")?;
        let action = match &proto.action {
            Some(ActionProto::Route(action)) => forward(action).within("route")?,
            _ => Some(RouteAction::Unsupported),
        };
        Ok(action.map(|action| Self { matcher, action }))
    }
}

fn matcher(proto: &MatchProto) -> Result<RouteMatcher, Invalid> {
    let ignore_case = proto
        .case_sensitive
        .is_some_and(|sensitive| !sensitive.value);
    let text = |text: &String| Text::new(text, ignore_case);
    let path = match &proto.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => PathMatcher::Prefix(text(prefix)),
        Some(PathSpecifier::Path(path)) => PathMatcher::Exact(text(path)),
        Some(PathSpecifier::SafeRegex(regex)) => {
            PathMatcher::Regex(full_match(regex).within("safe_regex")?)
        }
        Some(_) | None => {
            return Err(
                Invalid::new("must be set to prefix, path or safe_regex").at("path_specifier")
            );
        }
    };
    let headers = proto.headers.iter().enumerate();
    let headers = headers
        .map(|(index, header)| header_matcher(header).within_index("headers", index))
        .collect::<Result<_, _>>()?;
    let fraction = proto
        .runtime_fraction
        .as_ref()
        .and_then(|runtime| runtime.default_value.as_ref());
    let fraction = fraction
        .map(per_million)
        .transpose()
        .within("runtime_fraction.default_value")?;
    Ok(RouteMatcher {
        path,
        headers,
        fraction,
    })
}

fn header_matcher(proto: &HeaderProto) -> Result<HeaderMatcher, Invalid> {
    use HeaderMatchSpecifier as Specifier;
    if proto.name.is_empty() {
        return Err(Invalid::new("must not be empty").at("name"));
    }
    let not_empty = |text: &str, field: &str| match text {
        "" => Err(Invalid::new("must not be empty").at(field)),
        text => Ok(Text::new(text, false)),
    };
    #[expect(
        deprecated,
        reason = "control planes still send them, and gRFC A28 is about them"
    )]
    let matching = match &proto.header_match_specifier {
        Some(Specifier::ExactMatch(text)) => HeaderMatch::Exact(Text::new(text, false)),
        Some(Specifier::SafeRegexMatch(regex)) => {
            HeaderMatch::Regex(full_match(regex).within("safe_regex_match")?)
        }
        Some(Specifier::RangeMatch(range)) => HeaderMatch::Range(range.start..range.end),
        Some(Specifier::PresentMatch(present)) => HeaderMatch::Present(*present),
        Some(Specifier::PrefixMatch(text)) => HeaderMatch::Prefix(not_empty(text, "prefix_match")?),
        Some(Specifier::SuffixMatch(text)) => HeaderMatch::Suffix(not_empty(text, "suffix_match")?),
        Some(Specifier::ContainsMatch(text)) => {
            HeaderMatch::Contains(not_empty(text, "contains_match")?)
        }
        Some(Specifier::StringMatch(matcher)) => string_matcher(matcher).within("string_match")?,
        None => return Err(Invalid::new("must be set").at("header_match_specifier")),
    };
    Ok(HeaderMatcher {
        name: proto.name.to_ascii_lowercase().into(),
        matching,
        invert: proto.invert_match,
    })
}

/// gRFC A63.
fn string_matcher(proto: &StringMatcher) -> Result<HeaderMatch, Invalid> {
    let text = |text: &String, field: &str| match text.as_str() {
        "" => Err(Invalid::new("must not be empty").at(field)),
        text => Ok(Text::new(text, proto.ignore_case)),
    };
    match &proto.match_pattern {
        Some(MatchPattern::Exact(exact)) => {
            Ok(HeaderMatch::Exact(Text::new(exact, proto.ignore_case)))
        }
        Some(MatchPattern::Prefix(prefix)) => text(prefix, "prefix").map(HeaderMatch::Prefix),
        Some(MatchPattern::Suffix(suffix)) => text(suffix, "suffix").map(HeaderMatch::Suffix),
        Some(MatchPattern::Contains(part)) => text(part, "contains").map(HeaderMatch::Contains),
        Some(MatchPattern::SafeRegex(regex)) => full_match(regex)
            .within("safe_regex")
            .map(HeaderMatch::Regex),
        Some(MatchPattern::Custom(_)) => Err(Invalid::new("is not supported").at("custom")),
        None => Err(Invalid::new("must be set").at("match_pattern")),
    }
}

/// `None` for a way to choose a cluster that gRPC does not have: the route is left out (C-188).
fn forward(proto: &RouteActionProto) -> Result<Option<RouteAction>, Invalid> {
    let target = match &proto.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) if name.is_empty() => {
            return Err(Invalid::new("must not be empty").at("cluster"));
        }
        Some(ClusterSpecifier::Cluster(name)) => RouteTarget::Cluster(name.as_str().into()),
        Some(ClusterSpecifier::WeightedClusters(clusters)) => {
            weighted(clusters).within("weighted_clusters.clusters")?
        }
        _ => return Ok(None),
    };
    let limit = proto
        .max_stream_duration
        .as_ref()
        .map(stream_limit)
        .transpose();
    Ok(Some(RouteAction::Forward(Forward {
        target,
        limit: limit.within("max_stream_duration")?.unwrap_or_default(),
    })))
}

fn weighted(proto: &WeightedCluster) -> Result<RouteTarget, Invalid> {
    let mut clusters = Vec::with_capacity(proto.clusters.len());
    let mut total = 0_u32;
    for cluster in &proto.clusters {
        let weight = cluster.weight.map_or(0, |weight| weight.value);
        if weight == 0 {
            continue;
        }
        if cluster.name.is_empty() {
            return Err(Invalid::new("must all have a name"));
        }
        let sum = total.checked_add(weight);
        total = sum.ok_or_else(|| Invalid::new("have weights of more than 32 bits in all"))?;
        clusters.push((cluster.name.as_str().into(), weight));
    }
    match clusters.is_empty() {
        true => Err(Invalid::new("must have a weight above zero in all")),
        false => Ok(RouteTarget::Weighted(clusters)),
    }
}

fn stream_limit(proto: &MaxStreamDuration) -> Result<StreamLimit, Invalid> {
    let read = |field: Option<&_>, name: &str| field.map(duration).transpose().within(name);
    Ok(StreamLimit {
        grpc_timeout_header_max: read(
            proto.grpc_timeout_header_max.as_ref(),
            "grpc_timeout_header_max",
        )?,
        max_stream_duration: read(proto.max_stream_duration.as_ref(), "max_stream_duration")?,
    })
}
