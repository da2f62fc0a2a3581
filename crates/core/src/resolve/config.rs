//! Configuration of a channel: immutable, complete, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ads::WatchError;
use crate::lb::{Headers, RouteMatcher, Weighted};
use crate::resource::{Assignment, Cluster, Listener, RouteAction, RouteConfig, RouteTarget};

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
    /// The cluster and its endpoints: the same `Arc` as in the configuration before if nothing changed. An error fails the RPCs
    /// to this cluster, and no others (C-220).
    pub config: Result<Arc<ClusterConfig>, WatchError>,
}

/// Cluster that a route names, with the clusters that serve it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// Cluster resource.
    pub cluster: Arc<Cluster>,
    /// Clusters with endpoints, in the order of failover; at least one. A cluster that is not an aggregate is its own leaf
    /// (gRFC A37). A leaf is the same `Arc` as in the configuration before if it did not change.
    pub leaves: Vec<Arc<LeafCluster>>,
}

/// Cluster with its endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafCluster {
    /// Cluster resource.
    pub cluster: Arc<Cluster>,
    /// Endpoints; `None` if `note` has an error.
    pub assignment: Option<Arc<Assignment>>,
    /// Reason why there are no endpoints, for the status of the RPCs that fail (C-220).
    pub note: Option<WatchError>,
}

/// Routes of one virtual host.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTable {
    /// Name of the virtual host.
    pub virtual_host: String,
    /// Routes, in the order in which they are tried.
    pub routes: Vec<CompiledRoute>,
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
        /// Indexes into [`XdsConfig::clusters`], by weight.
        clusters: Weighted<usize>,
        /// Limit on the duration of the RPC (gRFC A31).
        limit: Option<Duration>,
    },
    /// Fails the RPC: gRPC does not support the action (C-187).
    Unsupported,
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
        leaves.filter_map(|leaf| Some(&leaf.assignment.as_ref()?.name))
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
        let listener_limit = listener
            .api
            .as_ref()
            .and_then(|api| api.max_stream_duration);
        let mut clusters = ClusterIndexes::default();
        let routes = host.routes.iter().map(|route| CompiledRoute {
            matcher: route.matcher.clone(),
            action: match &route.action {
                RouteAction::Unsupported => CompiledAction::Unsupported,
                RouteAction::Forward(forward) => match choice(&forward.target, &mut clusters) {
                    Some(clusters) => CompiledAction::Forward {
                        clusters,
                        limit: forward.limit.effective(listener_limit),
                    },
                    None => CompiledAction::Unsupported,
                },
            },
        });
        Some(Self {
            virtual_host: host.name.clone(),
            routes: routes.collect(),
            clusters: clusters.names,
        })
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

fn choice(target: &RouteTarget, clusters: &mut ClusterIndexes) -> Option<Weighted<usize>> {
    match target {
        RouteTarget::Cluster(name) => Weighted::new([(1, clusters.of(name))]),
        RouteTarget::Weighted(names) => Weighted::new(
            names
                .iter()
                .map(|(name, weight)| (*weight, clusters.of(name))),
        ),
    }
}
