//! Configuration of a channel: immutable, complete, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::filters::FilterLists;
use crate::ads::WatchError;
use crate::lb::{HashPolicy, Headers, RetryPolicy, RouteMatcher, Weighted};
use crate::resource::{
    Assignment, Cluster, Discovery, FilterConfig, FilterOverrides, Forward, HostRewrite, Listener,
    RouteAction, RouteConfig, RouteTarget,
};

/// Complete configuration of a channel at one moment (gRFC A74).
#[derive(Debug, Clone)]
pub struct XdsConfig {
    /// Number of the configuration in its channel, from 1.
    pub revision: u64,
    /// Listener of the channel.
    pub listener: Arc<Listener>,
    /// Route configuration, from RDS or from the listener.
    pub route_config: Arc<RouteConfig>,
    /// Compiled routes of the virtual host that matches the authority.
    pub routes: Arc<RouteTable>,
    /// Clusters that the routes name, each once. [`RouteTable`] refers to them by index.
    pub clusters: Vec<ClusterEntry>,
}

/// Cluster that a route names.
#[derive(Debug, Clone)]
pub struct ClusterEntry {
    /// Name of the cluster.
    pub name: Arc<str>,
    /// The cluster and its endpoints: the same `Arc` as in the configuration before if nothing changed. An error fails
    /// the RPCs to this cluster, and no others (C-220).
    pub config: Result<Arc<ClusterConfig>, WatchError>,
}

/// Cluster that a route names, with the clusters that serve it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// Cluster resource.
    pub cluster: Arc<Cluster>,
    /// Clusters with endpoints, in the order of failover; at least one. A cluster that is not an aggregate is its own
    /// leaf (gRFC A37). A leaf is the same `Arc` as in the configuration before if it did not change.
    pub leaves: Vec<Arc<LeafCluster>>,
}

/// Cluster with its endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafCluster {
    /// Cluster resource.
    pub cluster: Arc<Cluster>,
    /// Endpoints; `None` if `note` has an error.
    pub assignment: Option<Arc<Assignment>>,
    /// Reason for the lack of endpoints, for the status of the RPCs that fail (C-220).
    pub note: Option<WatchError>,
}

/// Routes of one virtual host.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTable {
    /// Name of the virtual host.
    pub virtual_host: String,
    /// Routes, in the order in which they are tried.
    pub routes: Vec<CompiledRoute>,
    /// Whether a route keeps sessions at endpoints (gRFC A55).
    pub has_sessions: bool,
    /// Clusters that the routes name, in the order of [`XdsConfig::clusters`].
    pub(super) clusters: Vec<Arc<str>>,
}

/// One compiled route.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledRoute {
    /// Requests that it matches.
    pub matcher: RouteMatcher,
    /// Action for these requests.
    pub action: CompiledAction,
}

/// Compiled action of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum CompiledAction {
    /// Sends the RPC to a cluster, chosen once per RPC (C-230).
    Forward {
        /// Clusters, by weight.
        clusters: Weighted<ClusterChoice>,
        /// Limit on the duration of the RPC (gRFC A31).
        limit: Option<Duration>,
        /// Retry policy; `None` without retries (gRFC A44).
        retry: Option<Arc<RetryPolicy>>,
        /// Hash policies, in the order in which they apply (gRFC A42).
        hash: Arc<[HashPolicy]>,
        /// Whether the authority of the RPC becomes the hostname of its endpoint, if that has one (gRFC A81).
        rewrites_host: bool,
    },
    /// Fails the RPC: gRPC does not support the action (C-187).
    Unsupported,
}

/// Cluster to which a route may send an RPC.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterChoice {
    /// Index into [`XdsConfig::clusters`].
    pub cluster: usize,
    /// HTTP filters of the RPC in the order in which they run, each with the configuration that counts for this choice
    /// (gRFC A39). Choices without overrides share one list.
    pub filters: Arc<[FilterConfig]>,
}

impl XdsConfig {
    /// Returns the first route that matches a request (C-224). `random` is called for routes with a fraction.
    pub fn route(
        &self,
        path: &str,
        headers: &(impl Headers + ?Sized),
        mut random: impl FnMut() -> u64,
    ) -> Option<&CompiledRoute> {
        // gRFC A28: routes are tried in order, and the first match decides.
        let mut routes = self.routes.routes.iter();
        routes.find(|route| route.matcher.matches(path, headers, &mut random))
    }

    /// Returns the names of the assignments in use.
    pub(super) fn assignments(&self) -> impl Iterator<Item = &Arc<str>> {
        let clusters = self
            .clusters
            .iter()
            .filter_map(|entry| entry.config.as_ref().ok());
        let leaves = clusters.flat_map(|config| &config.leaves);
        let eds = leaves.filter(|leaf| leaf.cluster.discovery == Discovery::Eds);
        eds.filter_map(|leaf| Some(&leaf.assignment.as_ref()?.name))
    }
}

impl RouteTable {
    /// Compiles the routes of `route_config`'s virtual host at `index`.
    pub(super) fn compile(
        listener: &Listener,
        route_config: &RouteConfig,
        index: usize,
    ) -> Option<Self> {
        let host = route_config.virtual_hosts.get(index)?;
        let api = listener.api.as_ref();
        let listener_limit = api.and_then(|api| api.max_stream_duration);
        let filters = FilterLists::new(api.map_or(&[], |api| &api.filters), |_, config| {
            config.clone()
        });
        let mut clusters = ClusterIndexes::default();
        let routes = host.routes.iter().map(|route| CompiledRoute {
            matcher: route.matcher.clone(),
            action: match &route.action {
                RouteAction::NonForwarding | RouteAction::Unsupported => {
                    CompiledAction::Unsupported
                }
                RouteAction::Forward(forward) => {
                    let overrides = [&host.filter_overrides, &route.filter_overrides];
                    match choice(forward, overrides, &filters, &mut clusters) {
                        Some(clusters) => CompiledAction::Forward {
                            clusters,
                            limit: forward.limit.effective(listener_limit),
                            retry: forward.retry.clone(),
                            hash: Arc::clone(&forward.hash),
                            rewrites_host: forward.auto_host_rewrite
                                && route_config.host_rewrite == HostRewrite::Allowed,
                        },
                        None => CompiledAction::Unsupported,
                    }
                }
            },
        });
        let routes: Vec<_> = routes.collect();
        Some(Self {
            virtual_host: host.name.clone(),
            has_sessions: routes.iter().any(CompiledRoute::has_sessions),
            routes,
            clusters: clusters.names,
        })
    }
}

impl CompiledRoute {
    fn has_sessions(&self) -> bool {
        match &self.action {
            CompiledAction::Forward { clusters, .. } => {
                clusters.items().any(ClusterChoice::has_sessions)
            }
            CompiledAction::Unsupported => false,
        }
    }
}

impl ClusterChoice {
    /// Returns whether RPCs of this choice may have a session (gRFC A55).
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        let is_session = |filter: &FilterConfig| matches!(filter, FilterConfig::Session(Some(_)));
        self.filters.iter().any(is_session)
    }
}

/// Indexes of clusters, in the order in which routes name them.
#[derive(Debug, Default)]
struct ClusterIndexes {
    names: Vec<Arc<str>>,
    by_name: BTreeMap<Arc<str>, usize>,
}

impl ClusterIndexes {
    fn of(&mut self, name: &Arc<str>) -> usize {
        *self.by_name.entry(Arc::clone(name)).or_insert_with(|| {
            self.names.push(Arc::clone(name));
            self.names.len() - 1
        })
    }
}

fn choice(
    forward: &Forward,
    [host, route]: [&FilterOverrides; 2],
    filters: &FilterLists<'_, FilterConfig>,
    clusters: &mut ClusterIndexes,
) -> Option<Weighted<ClusterChoice>> {
    match &forward.target {
        RouteTarget::Cluster(name) => Weighted::new([(
            1,
            ClusterChoice {
                cluster: clusters.of(name),
                filters: filters.with([route, host]),
            },
        )]),
        RouteTarget::Weighted(targets) => Weighted::new(targets.iter().map(|target| {
            let choice = ClusterChoice {
                cluster: clusters.of(&target.cluster),
                filters: filters.with([&target.filter_overrides, route, host]),
            };
            (target.weight, choice)
        })),
    }
}
