//! Resolvers: make one configuration of LDS, RDS, CDS and EDS resources for a channel (gRFC A74), or of LDS and RDS
//! resources for a server (gRFC A36; [`ServerResolver`]).
//!
//! ```text
//!  handle_resource ─► ┌──────────────────────────────────────────────┐ ─► poll_command: watch, unwatch
//!                     │ listener ─► routes ─► clusters ─► assignments │
//!                     │      next plan ── complete ──► plan in use    │ ─► poll_config: a complete configuration,
//!                     └──────────────────────────────────────────────┘    or an error
//! ```
//!
//! A *plan* is a listener, its routes, and the clusters that the routes name. The plan in use stays in use, with
//! updates of its clusters and endpoints, until every resource of the next plan has an answer. So a configuration is
//! always complete, and never mixes two plans. Resources that neither plan needs are unwatched. While a plan is in use,
//! an unreachable server counts as not answered yet, and the resolver waits for it.
//!
//! The resolver works when it is polled: once for all resources that were handled before.
//!
//! It does not fetch resources (that is [`ads`](crate::ads)) and does not pick endpoints (that is [`lb`](crate::lb)).

mod command;
mod config;
mod dns;
mod filters;
mod latest;
mod leaves;
mod plan;
mod server;
mod slots;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_types::ResourceType;

pub use command::WatchCommand;
pub use config::{
    ClusterChoice, ClusterConfig, ClusterEntry, CompiledAction, CompiledRoute, LeafCluster,
    RouteTable, XdsConfig,
};

pub use server::{
    ChainRoutes, NoRoute, ServerConfig, ServerResolution, ServerResolver, ServerRoutes,
};

use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{
    Assignment, Cluster, Discovery, DnsTarget, Listener, ParsedResource, RouteConfig, RouteSource,
};
use crate::sample::SAMPLE;
use dns::DnsHosts;
use latest::Latest;
use leaves::Resources;
use plan::Plan;
use slots::{Slot, Slots, Unreachable};

/// Configuration of a channel, or the error that prevents one.
pub type Resolution = Result<Arc<XdsConfig>, WatchError>;

/// Resolver of one target: follows its resources, and makes configurations of them.
#[derive(Debug)]
pub struct Resolver {
    listener_name: Arc<str>,
    authority: String,

    listeners: Slots<Listener>,
    route_configs: Slots<RouteConfig>,
    clusters: Slots<Cluster>,
    assignments: Slots<Assignment>,
    hosts: DnsHosts,

    /// Plan in use; complete.
    plan: Option<Plan>,
    /// Next plan, while a resource of it has no answer.
    next: Option<Plan>,

    current: Latest<XdsConfig>,
    revision: u64,
    commands: VecDeque<WatchCommand>,
    pending: Option<PendingUpdate>,
}

/// Extent of the updates since the last poll. The greater one includes the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PendingUpdate {
    /// Endpoints only, which refer to no other resources.
    Endpoints,
    /// Resources that refer to others.
    References,
}

impl Resolver {
    /// Makes a resolver of a listener. `authority` is the data-plane authority, by which the virtual host is chosen.
    #[must_use]
    pub fn new(listener_name: impl Into<Arc<str>>, authority: impl Into<String>) -> Self {
        let mut resolver = Self {
            listener_name: listener_name.into(),
            authority: authority.into(),
            listeners: Slots::default(),
            route_configs: Slots::default(),
            clusters: Slots::default(),
            assignments: Slots::default(),
            hosts: DnsHosts::default(),
            plan: None,
            next: None,
            current: Latest::default(),
            revision: 0,
            commands: VecDeque::new(),
            pending: None,
        };
        let name = Arc::clone(&resolver.listener_name);
        resolver.listeners.want([name], &mut resolver.commands);
        resolver
    }

    /// Handles a change of a watched resource. Others are ignored: the client has not processed their unwatch yet.
    pub fn handle_resource(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    ) {
        let update = if *resource_type == ResourceType::LISTENER {
            self.listeners
                .set(name, resource)
                .then_some(PendingUpdate::References)
        } else if *resource_type == ResourceType::ROUTE {
            self.route_configs
                .set(name, resource)
                .then_some(PendingUpdate::References)
        } else if *resource_type == ResourceType::CLUSTER {
            self.clusters
                .set(name, resource)
                .then_some(PendingUpdate::References)
        } else if *resource_type == ResourceType::ENDPOINT {
            self.assignments
                .set(name, resource)
                .then_some(PendingUpdate::Endpoints)
        } else {
            None
        };
        self.pending = self.pending.max(update);
        debug_assert!(self.is_consistent());
    }

    /// Handles the result of a lookup. An error does not remove addresses that are known.
    pub fn handle_addresses(&mut self, host: &DnsTarget, result: Result<&[SocketAddr], &str>) {
        let is_new = self.hosts.set(host, result);
        self.pending = self.pending.max(is_new.then_some(PendingUpdate::Endpoints));
        debug_assert!(self.is_consistent());
    }

    /// Returns the next command to the client. Poll it until `None` after every other call.
    pub fn poll_command(&mut self) -> Option<WatchCommand> {
        self.settle();
        self.commands.pop_front()
    }

    /// Returns the configuration in use, once after each change.
    pub fn poll_config(&mut self) -> Option<Resolution> {
        self.settle();
        self.current.poll()
    }

    fn settle(&mut self) {
        let Some(update) = self.pending.take() else {
            return;
        };
        if update == PendingUpdate::References {
            match self.next_plan() {
                NextPlan::Unknown => {}
                NextPlan::Failed(error) => {
                    // gRFC A74: without a listener or a route configuration, the channel has no configuration.
                    self.plan = None;
                    self.next = None;
                    self.current.set(Err(error));
                }
                NextPlan::Ready(plan) => self.next = Some(plan),
            }
            self.watch();
        }
        let unreachable = self.unreachable();
        let resources = Resources {
            clusters: &self.clusters,
            assignments: &self.assignments,
            hosts: &self.hosts,
        };
        let complete = |plan: &mut Plan| plan.is_complete(resources, unreachable);
        // gRFC A74: the channel gets a new configuration only when every resource of it has an answer (C-218, C-222).
        if let Some(next) = self.next.take_if(complete) {
            self.plan = Some(next);
            // Unwatch the resources that only the plan before needed.
            self.watch();
        }
        self.publish();
        debug_assert!(self.is_consistent());
    }

    /// Whether the plan in use has a configuration, and all that the plans need is watched; for debug assertions.
    fn is_consistent(&self) -> bool {
        let config = self.current.ok();
        let plans = || {
            [self.plan.as_ref(), self.next.as_ref()]
                .into_iter()
                .flatten()
        };
        let mut routes = plans().filter_map(Plan::rds_name);
        let mut clusters = plans().flat_map(Plan::clusters).take(SAMPLE);
        let assignments = config.into_iter().flat_map(|config| config.assignments());
        let mut assignments = assignments.take(SAMPLE);
        self.listeners.has(&self.listener_name)
            && self.plan.is_some() == config.is_some()
            && routes.all(|name| self.route_configs.has(&name))
            && clusters.all(|name| self.clusters.has(name))
            && assignments.all(|name| self.assignments.has(name))
    }

    /// Returns what an unreachable server means now.
    fn unreachable(&self) -> Unreachable {
        match self.plan {
            // Without a configuration, RPCs fail with the connectivity error.
            None => Unreachable::IsError,
            // gRFC A71, A74: the plan in use serves until a complete new one is there (C-166).
            Some(_) => Unreachable::IsPending,
        }
    }

    /// Returns the plan to which listener and routes lead now.
    fn next_plan(&self) -> NextPlan {
        let unreachable = self.unreachable();
        let listener = match self.listeners.get(&self.listener_name).answer(unreachable) {
            None => return NextPlan::Unknown,
            Some(Err(error)) => return NextPlan::Failed(error.clone()),
            Some(Ok(listener)) => listener,
        };
        let listener_name = &self.listener_name;
        let Some(api) = &listener.api else {
            let problem = "is a socket listener: expected an api_listener";
            let error = unusable(&ResourceType::LISTENER, listener_name, problem);
            return NextPlan::Failed(error);
        };
        let (routes, resource_type, name) = match &api.routes {
            RouteSource::Inline(routes) => (routes, ResourceType::LISTENER, listener_name),
            RouteSource::Rds(name) => match self.route_configs.get(name).answer(unreachable) {
                None => return NextPlan::Unknown,
                Some(Err(error)) => return NextPlan::Failed(error.clone()),
                Some(Ok(routes)) => (routes, ResourceType::ROUTE, name),
            },
        };
        let before = [self.plan.as_ref(), self.next.as_ref()]
            .into_iter()
            .flatten();
        match Plan::new(listener, routes, &self.authority, before) {
            Some(plan) => NextPlan::Ready(plan),
            None => {
                let problem = format!("has no virtual host for {:?}", self.authority);
                NextPlan::Failed(unusable(&resource_type, name, &problem))
            }
        }
    }

    /// Watches exactly the resources that the plans need.
    fn watch(&mut self) {
        // gRFC A27: the listener names its RDS resource, unless the routes are inline.
        let wanted_routes = match self.listeners.get(&self.listener_name) {
            Slot::Got(listener) => listener.api.as_ref().and_then(|api| match &api.routes {
                RouteSource::Rds(name) => Some(Arc::clone(name)),
                RouteSource::Inline(_) => None,
            }),
            _ => None,
        };
        let plans = || {
            [self.plan.as_ref(), self.next.as_ref()]
                .into_iter()
                .flatten()
        };
        // A route configuration in use stays watched until the next plan replaces it (C-222).
        let routes: Vec<_> = wanted_routes
            .into_iter()
            .chain(plans().filter_map(Plan::rds_name))
            .collect();
        // gRFC A74: the clusters of an aggregate are watched as soon as it is known.
        let named = plans().flat_map(Plan::clusters);
        let clusters = leaves::reachable(named, &self.clusters);
        self.route_configs.want(routes, &mut self.commands);
        self.clusters.want(clusters, &mut self.commands);
        // gRFC A74: endpoints are watched as soon as their cluster is known, whether or not its plan is in use.
        let assignments = self
            .clusters
            .values()
            .filter(|cluster| cluster.discovery == Discovery::Eds)
            .map(|cluster| Arc::clone(&cluster.eds_service_name));
        let hosts = self.clusters.values();
        let hosts = hosts.filter_map(|cluster| match &cluster.discovery {
            Discovery::LogicalDns(host) => Some(host.clone()),
            Discovery::Eds | Discovery::Aggregate(_) => None,
        });
        self.hosts.want(&hosts.collect(), &mut self.commands);
        // A cluster with a new EDS service name uses the old assignment until the new one arrives.
        let in_use = self.current.ok().into_iter();
        let in_use = in_use.flat_map(|config| config.assignments().cloned());
        let assignments: Vec<_> = assignments.chain(in_use).collect();
        self.assignments.want(assignments, &mut self.commands);
    }

    /// Makes a configuration of the plan in use. Parts that did not change keep their `Arc`s.
    fn publish(&mut self) {
        let Some(plan) = &self.plan else { return };
        let before = self.current.ok();
        let entries = plan.entries(
            Resources {
                clusters: &self.clusters,
                assignments: &self.assignments,
                hosts: &self.hosts,
            },
            before.map(AsRef::as_ref),
            self.next.as_ref(),
        );
        if before
            .is_some_and(|before| plan.is_of(before) && same_entries(&before.clusters, &entries))
        {
            return;
        }
        self.revision += 1;
        let config = plan.config(self.revision, entries);
        let same_assignments =
            before.is_some_and(|before| before.assignments().eq(config.assignments()));
        self.current.set(Ok(Arc::new(config)));
        if !same_assignments {
            // Unwatch assignments that only the configuration before needed.
            self.watch();
        }
    }
}

/// Plan to which listener and routes lead.
enum NextPlan {
    /// Listener or routes have no answer yet.
    Unknown,
    /// Listener or routes do not exist, or cannot be used.
    Failed(WatchError),
    /// The plan that listener and routes make.
    Ready(Plan),
}

fn unusable(resource_type: &ResourceType, name: &str, problem: &str) -> WatchError {
    let text = format!("{} {name:?} {problem}", resource_type.message());
    WatchError::new(WatchErrorReason::Unusable, text)
}

fn same_entries(before: &[ClusterEntry], after: &[ClusterEntry]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(a, b)| {
            a.name == b.name
                && match (&a.config, &b.config) {
                    (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
                    (Err(a), Err(b)) => a == b,
                    _ => false,
                }
        })
}
