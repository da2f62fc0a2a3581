//! LDS → RDS → CDS → EDS into one configuration (gRFC A74).
//!
//! ```text
//!  handle_resource ─► ┌──────────────────────────────────────────────┐ ─► poll_command: watch, unwatch
//!                     │ listener ─► routes ─► clusters ─► assignments │
//!                     │      next plan ── complete ──► plan in use    │ ─► poll_config: a whole configuration,
//!                     └──────────────────────────────────────────────┘    or why there is none
//! ```
//!
//! A *plan* is a listener, its routes, and the clusters that they name. The plan in use goes on serving, its clusters
//! and endpoints up to date, until all that the next one names has been answered for: a configuration is never
//! partial and never torn. What neither plan needs is unwatched. A lost server has not answered: as long as a plan is
//! in use, it is waited for.
//!
//! Work is done when the resolver is polled, once for all that has been handled before.
//!
//! It does not know where resources come from (that is [`ads`](crate::ads)) and does not pick (that is
//! [`lb`](crate::lb)).

mod config;
mod plan;
mod slots;

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::ResourceType;

pub use config::{
    ClusterConfig, ClusterEntry, CompiledAction, CompiledRoute, RouteTable, XdsConfig,
};

use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{Assignment, Cluster, Listener, ParsedResource, RouteConfig, RouteSource};
use plan::Plan;
use slots::{Lost, Slot, Slots};

/// What the resolver needs of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchCommand {
    /// Watch this resource and pass on what becomes of it.
    Watch(ResourceType, Arc<str>),
    /// Watch it no longer.
    Unwatch(ResourceType, Arc<str>),
}

/// What a channel is to use from now on.
pub type Resolution = Result<Arc<XdsConfig>, WatchError>;

/// Follows the resources of one target.
#[derive(Debug)]
pub struct Resolver {
    listener_name: Arc<str>,
    authority: String,

    listeners: Slots<Listener>,
    route_configs: Slots<RouteConfig>,
    clusters: Slots<Cluster>,
    assignments: Slots<Assignment>,

    /// Complete, and in use.
    plan: Option<Plan>,
    /// Awaited: names something that has not been answered for.
    next: Option<Plan>,

    current: Option<Resolution>,
    revision: u64,
    announced: bool,
    commands: VecDeque<WatchCommand>,
    news: Option<News>,
}

/// What has been handled since the last poll. The greater includes the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    /// Endpoints alone, which name nothing.
    Endpoints,
    /// Resources that name others.
    Names,
}

impl Resolver {
    /// Resolves `listener_name` for RPCs to `authority`, the data-plane authority that virtual hosts are chosen by.
    #[must_use]
    pub fn new(listener_name: impl Into<Arc<str>>, authority: impl Into<String>) -> Self {
        let mut resolver = Self {
            listener_name: listener_name.into(),
            authority: authority.into(),
            listeners: Slots::default(),
            route_configs: Slots::default(),
            clusters: Slots::default(),
            assignments: Slots::default(),
            plan: None,
            next: None,
            current: None,
            revision: 0,
            announced: true,
            commands: VecDeque::new(),
            news: None,
        };
        let name = Arc::clone(&resolver.listener_name);
        resolver.listeners.want([name], &mut resolver.commands);
        resolver
    }

    /// A watched resource changed. Others are ignored: their unwatch is still on its way.
    pub fn handle_resource(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    ) {
        let news = if *resource_type == ResourceType::LISTENER {
            self.listeners.set(name, resource).then_some(News::Names)
        } else if *resource_type == ResourceType::ROUTE {
            self.route_configs
                .set(name, resource)
                .then_some(News::Names)
        } else if *resource_type == ResourceType::CLUSTER {
            self.clusters.set(name, resource).then_some(News::Names)
        } else if *resource_type == ResourceType::ENDPOINT {
            self.assignments
                .set(name, resource)
                .then_some(News::Endpoints)
        } else {
            None
        };
        self.news = self.news.max(news);
    }

    /// The next thing to ask of the client. Poll until `None` after every other call.
    pub fn poll_command(&mut self) -> Option<WatchCommand> {
        self.settle();
        self.commands.pop_front()
    }

    /// The configuration in use, once after each time that it changed.
    pub fn poll_config(&mut self) -> Option<Resolution> {
        self.settle();
        match std::mem::replace(&mut self.announced, true) {
            true => None,
            false => self.current.clone(),
        }
    }

    fn settle(&mut self) {
        let Some(news) = self.news.take() else { return };
        if news == News::Names {
            match self.target() {
                Target::Unknown => {}
                Target::Failed(error) => {
                    // The listener or its routes are gone: nothing to serve by, until they come back.
                    self.plan = None;
                    self.next = None;
                    self.announce(Err(error));
                }
                Target::Plan(plan) => self.next = Some(plan),
            }
            self.watch();
        }
        let lost = self.lost();
        let complete = |plan: &mut Plan| plan.is_complete(&self.clusters, &self.assignments, lost);
        if let Some(next) = self.next.take_if(complete) {
            self.plan = Some(next);
            // What only the plan before needed is let go.
            self.watch();
        }
        self.publish();
    }

    /// Without a plan in use, whoever waits is to learn that the server is lost. With one, it goes on serving (C-166).
    fn lost(&self) -> Lost {
        match self.plan {
            None => Lost::IsAnAnswer,
            Some(_) => Lost::IsSilence,
        }
    }

    /// Where listener and routes now point.
    fn target(&self) -> Target {
        let lost = self.lost();
        let listener = match self.listeners.get(&self.listener_name).answer(lost) {
            None => return Target::Unknown,
            Some(Err(error)) => return Target::Failed(error.clone()),
            Some(Ok(listener)) => listener,
        };
        let listener_name = &self.listener_name;
        let Some(api) = &listener.api else {
            let why = "is a listener with a socket, not one for clients";
            return unusable(&ResourceType::LISTENER, listener_name, why);
        };
        let (routes, resource_type, name) = match &api.routes {
            RouteSource::Inline(routes) => (routes, ResourceType::LISTENER, listener_name),
            RouteSource::Rds(name) => match self.route_configs.get(name).answer(lost) {
                None => return Target::Unknown,
                Some(Err(error)) => return Target::Failed(error.clone()),
                Some(Ok(routes)) => (routes, ResourceType::ROUTE, name),
            },
        };
        let before = [self.plan.as_ref(), self.next.as_ref()]
            .into_iter()
            .flatten();
        match Plan::new(listener, routes, &self.authority, before) {
            Some(plan) => Target::Plan(plan),
            None => {
                let why = format!("has no virtual host for {:?}", self.authority);
                unusable(&resource_type, name, &why)
            }
        }
    }

    /// Watches what the plans need, and nothing else. Routes in use stay watched until their successors are (C-222).
    fn watch(&mut self) {
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
        let routes: Vec<_> = wanted_routes
            .into_iter()
            .chain(plans().filter_map(Plan::rds_name))
            .collect();
        let clusters: Vec<_> = plans()
            .flat_map(|plan| plan.clusters().iter().cloned())
            .collect();
        self.route_configs.want(routes, &mut self.commands);
        self.clusters.want(clusters, &mut self.commands);
        let assignments = self
            .clusters
            .values()
            .map(|cluster| Arc::clone(&cluster.eds_service_name));
        // A cluster that is renamed to another assignment is served by the one before until the new one is there.
        let in_use = self
            .current
            .iter()
            .flatten()
            .flat_map(|config| config.assignments().cloned());
        let assignments: Vec<_> = assignments.chain(in_use).collect();
        self.assignments.want(assignments, &mut self.commands);
    }

    /// Makes a configuration of the plan in use; parts that did not change are the same `Arc`s as before.
    fn publish(&mut self) {
        let Some(plan) = &self.plan else { return };
        let before = self
            .current
            .as_ref()
            .and_then(|current| current.as_ref().ok());
        let entries = plan.entries(
            &self.clusters,
            &self.assignments,
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
        self.announce(Ok(Arc::new(config)));
        if !same_assignments {
            // Those that the configuration before held may be needed no longer.
            self.watch();
        }
    }

    fn announce(&mut self, resolution: Resolution) {
        if let (Some(Err(before)), Err(error)) = (&self.current, &resolution)
            && before == error
        {
            return;
        }
        self.current = Some(resolution);
        self.announced = false;
    }
}

/// Where listener and routes point.
enum Target {
    /// Not answered for yet.
    Unknown,
    /// Nowhere.
    Failed(WatchError),
    Plan(Plan),
}

fn unusable(resource_type: &ResourceType, name: &str, why: &str) -> Target {
    let text = format!("{} {name:?} {why}", resource_type.message());
    Target::Failed(WatchError::new(WatchErrorReason::Unusable, text))
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
