//! View of RDS resources: virtual hosts and routes, compiled.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy as RetryProto, Route as RouteProto, RouteAction as RouteActionProto,
    RouteConfiguration, RouteMatch as MatchProto, VirtualHost as HostProto, WeightedCluster,
    route::Action as ActionProto,
    route_action::{ClusterSpecifier, HostRewriteSpecifier, MaxStreamDuration},
    route_match::PathSpecifier,
};
use oxds_types::Decode;

use super::Invalid;
use super::assignment::per_million;
use super::convert::{duration, full_match};
use super::extension::Extensions;
use super::filter::{FilterOverrides, OverrideRules};
use super::header_matcher::header_matcher;
use super::invalid::Within;
use super::plugins::Plugins;
use super::policies::{hash_policies, retry_policy};
use crate::lb::{Domain, HashPolicy, PathMatcher, RetryPolicy, RouteMatcher, Text, best_domain};

/// A route configuration with its virtual hosts, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// Name of the resource; may be empty for a route configuration inside a listener.
    pub name: Arc<str>,
    /// Virtual hosts, in the order of the resource.
    pub virtual_hosts: Vec<VirtualHost>,
    /// Whether its routes may rewrite the authority of RPCs.
    pub host_rewrite: HostRewrite,
}

/// Permission of a route configuration to rewrite the authority of RPCs (gRFC A81).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostRewrite {
    /// No route has `auto_host_rewrite`.
    #[default]
    Unused,
    /// Routes have `auto_host_rewrite`, and it is ignored: the server is not a `trusted_xds_server`.
    Ignored,
    /// Routes with `auto_host_rewrite` rewrite the authority.
    Allowed,
}

/// Routes for a set of authorities.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualHost {
    /// Name of the virtual host.
    pub name: String,
    /// Domains; at least one.
    pub domains: Vec<Domain>,
    /// Routes, in the order in which they are tried.
    pub routes: Vec<Route>,
    /// Routes of the resource that are left out, in order.
    pub ignored: Vec<IgnoredRoute>,
    /// Configurations of HTTP filters for all routes.
    pub filter_overrides: FilterOverrides,
}

/// A route of the resource that gRPC ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredRoute {
    /// Position in the resource, from 0.
    pub index: usize,
    /// Reason why it is ignored.
    pub reason: IgnoredReason,
}

/// Reason why gRPC ignores a route (gRFC A28).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The route has query parameters, and an RPC has none.
    QueryParameters,
    /// The cluster specifier is not supported (C-188).
    ClusterSpecifier,
}

/// A route: which requests it matches, and its action.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Requests that it matches.
    pub matcher: RouteMatcher,
    /// Action for these requests.
    pub action: RouteAction,
    /// Configurations of HTTP filters, which replace those of the virtual host.
    pub filter_overrides: FilterOverrides,
}

/// Action of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteAction {
    /// Sends the request to a cluster.
    Forward(Forward),
    /// Lets a server process the request (gRFC A36). A client fails it.
    NonForwarding,
    /// Fails the request: gRPC does not support the action (C-187).
    Unsupported,
}

/// Cluster, limits and policies of a forwarded request.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Cluster, or weighted clusters.
    pub target: RouteTarget,
    /// Limits on the duration.
    pub limit: StreamLimit,
    /// Retry policy, of the route or else of its virtual host; `None` without retries (gRFC A44).
    pub retry: Option<Arc<RetryPolicy>>,
    /// Hash policies, in the order in which they apply (gRFC A42).
    pub hash: Arc<[HashPolicy]>,
    /// Whether the authority of an RPC becomes the hostname of its endpoint, where [`RouteConfig::host_rewrite`] allows
    /// it (gRFC A81).
    pub auto_host_rewrite: bool,
}

impl Forward {
    /// Returns the action that forwards to `target`, without limits and policies.
    #[must_use]
    pub fn to(target: RouteTarget) -> Self {
        Self {
            target,
            limit: StreamLimit::default(),
            retry: None,
            hash: Arc::default(),
            auto_host_rewrite: false,
        }
    }
}

/// Cluster specifier of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteTarget {
    /// One cluster.
    Cluster(Arc<str>),
    /// Clusters with weights: at least one cluster. Weights are above zero, and their sum fits in 32 bits.
    Weighted(Vec<WeightedTarget>),
}

/// One of several clusters of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedTarget {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// Weight among the clusters of the route.
    pub weight: u32,
    /// Configurations of HTTP filters, which replace those of the route.
    pub filter_overrides: FilterOverrides,
}

/// A cluster with its weight, without configurations of filters.
impl From<(Arc<str>, u32)> for WeightedTarget {
    fn from((cluster, weight): (Arc<str>, u32)) -> Self {
        Self {
            cluster,
            weight,
            filter_overrides: FilterOverrides::new(),
        }
    }
}

/// Limits of a route on the duration of an RPC (gRFC A31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamLimit {
    /// `max_stream_duration.grpc_timeout_header_max`.
    pub grpc_timeout_header_max: Option<Duration>,
    /// `max_stream_duration.max_stream_duration`.
    pub max_stream_duration: Option<Duration>,
}

impl StreamLimit {
    /// Returns the limit on the duration of an RPC; `None` for no limit. `listener` is the listener's limit.
    ///
    /// The deadline of an RPC is the earlier one of this limit and the application's own timeout.
    #[must_use]
    pub fn effective(self, listener: Option<Duration>) -> Option<Duration> {
        // gRFC A31: grpc_timeout_header_max, else max_stream_duration, else that of the listener; zero means no limit.
        self.grpc_timeout_header_max
            .or(self.max_stream_duration)
            .or(listener)
            .filter(|limit| !limit.is_zero())
    }
}

impl RouteConfig {
    /// Returns the index of the virtual host whose domains match the authority best (gRFC A27). Of equal matches, the
    /// first one wins. `None` if no domain matches.
    #[must_use]
    pub fn choose_virtual_host(&self, authority: &str) -> Option<usize> {
        self.choose_domain(authority).map(|(index, _)| index)
    }

    /// Returns the index of the virtual host as [`choose_virtual_host`](Self::choose_virtual_host) does, and the domain
    /// of it that matches.
    #[must_use]
    pub fn choose_domain(&self, authority: &str) -> Option<(usize, &Domain)> {
        let hosts = self.virtual_hosts.iter().enumerate();
        let domains = hosts.flat_map(|(index, host)| {
            let domains = host.domains.iter();
            domains.map(move |domain| (index, domain))
        });
        best_domain(domains, &authority.to_ascii_lowercase())
    }

    pub(super) fn from_bytes(value: &[u8], extensions: &Extensions) -> Result<Self, Invalid> {
        let proto = RouteConfiguration::from_bytes(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        let name = proto.name.clone();
        let overrides = OverrideRules::Read(extensions);
        Self::from_proto(proto, overrides).map_err(|invalid| invalid.of(&name))
    }

    /// Validates every virtual host, not only the one that the channel uses (gRFC A28).
    pub(super) fn from_proto(
        proto: RouteConfiguration,
        overrides: OverrideRules<'_>,
    ) -> Result<Self, Invalid> {
        let rules = Rules {
            plugins: Plugins::from_protos(&proto.cluster_specifier_plugins)?,
            overrides,
        };
        let hosts = proto.virtual_hosts.iter().enumerate();
        let virtual_hosts = hosts
            .map(|(index, host)| {
                VirtualHost::from_proto(host, &rules).within_index("virtual_hosts", index)
            })
            .collect::<Result<_, _>>()?;
        let mut config = Self {
            name: proto.name.into(),
            virtual_hosts,
            host_rewrite: HostRewrite::Unused,
        };
        if config.rewrites_host() {
            config.host_rewrite = HostRewrite::Ignored;
        }
        Ok(config)
    }

    fn rewrites_host(&self) -> bool {
        let mut routes = self.virtual_hosts.iter().flat_map(|host| &host.routes);
        routes.any(|route| match &route.action {
            RouteAction::Forward(forward) => forward.auto_host_rewrite,
            RouteAction::NonForwarding | RouteAction::Unsupported => false,
        })
    }

    /// Returns the route configuration as sent by a server that is trusted, or not, if that changes it (C-195).
    pub(super) fn moved_to(&self, is_trusted: bool) -> Option<Self> {
        let host_rewrite = match (self.host_rewrite, is_trusted) {
            (HostRewrite::Ignored, true) => HostRewrite::Allowed,
            (HostRewrite::Allowed, false) => HostRewrite::Ignored,
            _ => return None,
        };
        Some(Self {
            host_rewrite,
            ..self.clone()
        })
    }
}

/// Rules that depend on more than a virtual host.
struct Rules<'a> {
    plugins: Plugins<'a>,
    overrides: OverrideRules<'a>,
}

impl VirtualHost {
    fn from_proto(proto: &HostProto, rules: &Rules<'_>) -> Result<Self, Invalid> {
        if proto.domains.is_empty() {
            return Err(Invalid::new("must not be empty").at("domains"));
        }
        let domains = proto.domains.iter().enumerate();
        let domains = domains
            .map(|(index, domain)| {
                let parsed = Domain::parse(domain).ok_or_else(|| {
                    Invalid::new(format!(
                        "{domain:?} must have * at its beginning or its end only"
                    ))
                });
                parsed.within_index("domains", index)
            })
            .collect::<Result<_, _>>()?;
        let filter_overrides = rules.overrides.read(&proto.typed_per_filter_config)?;
        let retry = retry(proto.retry_policy.as_ref())?.flatten();
        let mut routes = Vec::with_capacity(proto.routes.len());
        let mut ignored = Vec::new();
        for (index, route) in proto.routes.iter().enumerate() {
            let route = Route::from_proto(route, retry.as_ref(), rules);
            match route.within_index("routes", index)? {
                Ok(route) => routes.push(route),
                Err(reason) => ignored.push(IgnoredRoute { index, reason }),
            }
        }
        Ok(Self {
            name: proto.name.clone(),
            domains,
            routes,
            ignored,
            filter_overrides,
        })
    }

    /// Returns the position of each of its routes in the resource, where ignored routes count, too.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        let mut ignored = self.ignored.iter().map(|route| route.index).peekable();
        let used = (0..).filter(move |index| ignored.next_if_eq(index).is_none());
        used.take(self.routes.len())
    }
}

impl Route {
    /// Returns the reason for a route that gRPC ignores. `retry` is the policy of the virtual host.
    fn from_proto(
        proto: &RouteProto,
        retry: Option<&Arc<RetryPolicy>>,
        rules: &Rules<'_>,
    ) -> Result<Result<Self, IgnoredReason>, Invalid> {
        let matching = proto.r#match.as_ref();
        let matching = matching
            .ok_or_else(|| Invalid::new("must be set"))
            .within("match")?;
        // gRFC A28: a route with query parameters matches no gRPC request, and is ignored.
        if !matching.query_parameters.is_empty() {
            return Ok(Err(IgnoredReason::QueryParameters));
        }
        let matcher = matcher(matching).within("match")?;
        let action = match &proto.action {
            Some(ActionProto::Route(action)) => forward(action, retry, rules).within("route")?,
            Some(ActionProto::NonForwardingAction(_)) => Some(RouteAction::NonForwarding),
            _ => Some(RouteAction::Unsupported),
        };
        let Some(action) = action else {
            return Ok(Err(IgnoredReason::ClusterSpecifier));
        };
        Ok(Ok(Self {
            matcher,
            action,
            filter_overrides: rules.overrides.read(&proto.typed_per_filter_config)?,
        }))
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

/// Returns `None` for a cluster specifier that gRPC does not support: the route is ignored (C-188).
fn forward(
    proto: &RouteActionProto,
    host_retry: Option<&Arc<RetryPolicy>>,
    rules: &Rules<'_>,
) -> Result<Option<RouteAction>, Invalid> {
    // gRFC A44: the policy of the route replaces that of the virtual host, even if it retries nothing (C-234).
    let retry = retry(proto.retry_policy.as_ref())?.unwrap_or_else(|| host_retry.cloned());
    let hash = hash_policies(&proto.hash_policy)?.into();
    let target = match &proto.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) if name.is_empty() => {
            return Err(Invalid::new("must not be empty").at("cluster"));
        }
        Some(ClusterSpecifier::Cluster(name)) => RouteTarget::Cluster(name.as_str().into()),
        Some(ClusterSpecifier::WeightedClusters(clusters)) => {
            weighted(clusters, rules).within("weighted_clusters.clusters")?
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(name)) => {
            rules.plugins.check_use(name)?;
            return Ok(None);
        }
        _ => return Ok(None),
    };
    let limit = proto
        .max_stream_duration
        .as_ref()
        .map(read_stream_limit)
        .transpose();
    let auto_host_rewrite = match &proto.host_rewrite_specifier {
        Some(HostRewriteSpecifier::AutoHostRewrite(rewrite)) => rewrite.value,
        _ => false,
    };
    Ok(Some(RouteAction::Forward(Forward {
        target,
        limit: limit.within("max_stream_duration")?.unwrap_or_default(),
        retry,
        hash,
        auto_host_rewrite,
    })))
}

/// Reads a retry policy. Returns `None` without one, and `Some(None)` for one that retries nothing.
fn retry(proto: Option<&RetryProto>) -> Result<Option<Option<Arc<RetryPolicy>>>, Invalid> {
    let policy = proto.map(retry_policy).transpose().within("retry_policy")?;
    Ok(policy.map(|policy| policy.map(Arc::new)))
}

fn weighted(proto: &WeightedCluster, rules: &Rules<'_>) -> Result<RouteTarget, Invalid> {
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
        let of = |invalid: Invalid| invalid.at(&format!("{:?}", cluster.name));
        let filter_overrides = rules.overrides.read(&cluster.typed_per_filter_config);
        let filter_overrides = filter_overrides.map_err(of)?;
        let sum = total.checked_add(weight);
        total = sum.ok_or_else(|| Invalid::new("must have weights whose sum fits in 32 bits"))?;
        clusters.push(WeightedTarget {
            cluster: cluster.name.as_str().into(),
            weight,
            filter_overrides,
        });
    }
    if clusters.is_empty() {
        Err(Invalid::new("must have a total weight above zero"))
    } else {
        Ok(RouteTarget::Weighted(clusters))
    }
}

fn read_stream_limit(proto: &MaxStreamDuration) -> Result<StreamLimit, Invalid> {
    let read = |field: Option<&_>, name: &str| field.map(duration).transpose().within(name);
    Ok(StreamLimit {
        grpc_timeout_header_max: read(
            proto.grpc_timeout_header_max.as_ref(),
            "grpc_timeout_header_max",
        )?,
        max_stream_duration: read(proto.max_stream_duration.as_ref(), "max_stream_duration")?,
    })
}
