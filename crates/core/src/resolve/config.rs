//! The configuration of a channel: immutable, whole, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ads::WatchError;
use crate::lb::{Headers, RouteMatcher, Weighted, stream_limit};
use crate::resource::{Assignment, Cluster, Listener, RouteAction, RouteConfig, RouteTarget};

/// All that a channel needs to serve RPCs, at one moment: never torn (gRFC A74).
#[derive(Debug, Clone)]
pub struct XdsConfig {
    /// Counts the configurations of one channel, from 1.
    pub revision: u64,
    /// The listener.
    pub listener: Arc<Listener>,
    /// The route configuration, from RDS or from the listener.
    pub route_config: Arc<RouteConfig>,
    /// The routes of the virtual host that serves the target, compiled.
    pub routes: Arc<RouteTable>,
    /// The clusters that the routes name, each once. [`RouteTable`] refers to them by index.
    pub clusters: Vec<ClusterEntry>,
}

/// A cluster that a route names.
#[derive(Debug, Clone)]
pub struct ClusterEntry {
    /// Its name.
    pub name: Arc<str>,
    /// What is known of it: the same `Arc` as in the configuration before when nothing of it changed. An error fails
    /// the RPCs that are routed to this cluster, and no others (C-220).
    pub config: Result<Arc<ClusterConfig>, WatchError>,
}

/// A cluster and its endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// Its endpoints; `None` if there is an error in `note`.
    pub assignment: Option<Arc<Assignment>>,
    /// Why there are no endpoints: for the status of RPCs that fail for want of them (C-220).
    pub note: Option<WatchError>,
}

/// The routes of one virtual host, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTable {
    /// The virtual host's name.
    pub virtual_host: String,
    /// The routes.
    pub routes: Vec<CompiledRoute>,
    /// The clusters that they name, in the order of [`XdsConfig::clusters`].
    pub(super) clusters: Vec<Arc<str>>,
}

/// A route.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledRoute {
    /// Which requests.
    pub matcher: RouteMatcher,
    /// What to do with them.
    pub action: CompiledAction,
}

/// What a route does.
#[derive(Debug, Clone, PartialEq)]
pub enum CompiledAction {
    /// Sends the RPC to one of these clusters, drawn once per RPC (C-230): indexes into [`XdsConfig::clusters`].
    Forward {
        /// The clusters.
        clusters: Weighted<usize>,
        /// The bound on the RPC's duration (gRFC A31).
        limit: Option<Duration>,
    },
    /// Fails the RPC: the action is one that gRPC does not have (C-187).
    Unsupported,
}

impl XdsConfig {
    /// The first route that matches (C-224).
    pub fn route(
        &self,
        path: &str,
        headers: &(impl Headers + ?Sized),
        mut random: impl FnMut() -> u64,
    ) -> Option<&CompiledRoute> {
        let mut routes = self.routes.routes.iter();
        routes.find(|route| route.matcher.matches(path, headers, &mut random))
    }

    /// The names of the assignments that are in use.
    pub(super) fn assignments(&self) -> impl Iterator<Item = &Arc<str>> {
        let clusters = self
            .clusters
            .iter()
            .filter_map(|entry| entry.config.as_ref().ok());
        clusters.filter_map(|config| Some(&config.assignment.as_ref()?.name))
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
        let mut clusters = Indexes::default();
        let routes = host.routes.iter().map(|route| CompiledRoute {
            matcher: route.matcher.clone(),
            action: match &route.action {
                RouteAction::Unsupported => CompiledAction::Unsupported,
                RouteAction::Forward(forward) => match choice(&forward.target, &mut clusters) {
                    Some(clusters) => CompiledAction::Forward {
                        clusters,
                        limit: stream_limit(forward.limit, listener_limit),
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

/// Gives every cluster an index, in the order in which routes name them.
#[derive(Debug, Default)]
struct Indexes {
    names: Vec<Arc<str>>,
    by_name: BTreeMap<Arc<str>, usize>,
}

impl Indexes {
    fn of(&mut self, name: &Arc<str>) -> usize {
        *self.by_name.entry(Arc::clone(name)).or_insert_with(|| {
            self.names.push(Arc::clone(name));
            self.names.len() - 1
        })
    }
}

fn choice(target: &RouteTarget, clusters: &mut Indexes) -> Option<Weighted<usize>> {
    match target {
        RouteTarget::Cluster(name) => Weighted::new([(1, clusters.of(name))]),
        RouteTarget::Weighted(names) => Weighted::new(
            names
                .iter()
                .map(|(name, weight)| (*weight, clusters.of(name))),
        ),
    }
}
