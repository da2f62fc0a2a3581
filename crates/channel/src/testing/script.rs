//! Scripted configurations, without a control plane.
//!
//! [`Script`] replaces the xDS client: the resources given to [`set`](Script::set) go through the
//! resolver as if a control plane had sent them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::lb::policy::PolicyConfig;
use oxds_core::lb::{
    Domain, DropCategory, EndpointHealth, HealthSet, OutlierConfig, PathMatcher, PerMillion,
    RouteMatcher, Text,
};
use oxds_core::resolve::{Resolution, Resolver, WatchCommand};
use oxds_core::resource::{
    ApiListener, Assignment, Cluster, Endpoint, FilterOverrides, Forward, HostRewrite, HttpFilter,
    Listener, Locality, LocalityId, ParsedResource, Route, RouteAction, RouteConfig, RouteSource,
    RouteTarget, UpstreamTls, VirtualHost,
};
use oxds_core::resource::{Discovery, DnsTarget, MetricSelection};
use oxds_types::ResourceType;
use tokio::sync::mpsc;

use crate::builder::{BuildError, Builder};
use crate::channel::XdsChannel;
use crate::driver::XdsConfigSource;

const LISTENER: &str = "scripted";

/// Configures one channel. After it is dropped, the last configuration stays in use.
#[derive(Debug)]
pub struct Script {
    resources: mpsc::UnboundedSender<Resources>,
    lookups: Arc<AtomicUsize>,
    requested_lookups: Arc<AtomicUsize>,
}

/// All resources of a channel, by type and name.
#[derive(Clone, Debug)]
pub struct Resources(HashMap<(ResourceType, Arc<str>), ScriptedResource>);

/// A resource, or the error of its watch.
type ScriptedResource = Result<ParsedResource, WatchError>;

/// A cluster with its endpoints, or with the error of its watch.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    name: Arc<str>,
    policy: PolicyConfig,
    discovery: Discovery,
    endpoints: Result<Assignment, WatchError>,
    max_requests: u32,
    outlier: Option<OutlierConfig>,
    override_statuses: HealthSet,
    idle_timeout: Duration,
    tls: Option<Arc<UpstreamTls>>,
}

/// A locality of a priority: name (its region), weight, endpoints.
pub type LocalitySpec<'a> = (&'a str, u32, &'a [SocketAddr]);

impl Script {
    /// Builds a channel without a configuration, and the script that configures it.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn channel(builder: Builder) -> Result<(Self, XdsChannel), BuildError> {
        let (resources, updates) = mpsc::unbounded_channel();
        let lookups = Arc::<AtomicUsize>::default();
        let requested_lookups = Arc::<AtomicUsize>::default();
        let channel = builder.with_source(Scripted {
            updates,
            lookups: Arc::clone(&lookups),
            requested_lookups: Arc::clone(&requested_lookups),
            current: Resources(HashMap::new()),
            watched: HashSet::new(),
            resolver: Resolver::new(LISTENER, "svc"),
        })?;
        let script = Self {
            resources,
            lookups,
            requested_lookups,
        };
        Ok((script, channel))
    }

    /// Returns the number of lookups of hosts so far.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Returns how often the channel has requested another lookup.
    pub fn requested_lookups(&self) -> usize {
        self.requested_lookups.load(Ordering::Relaxed)
    }

    /// Replaces all resources. Has no effect after the channel was dropped.
    pub fn set(&self, resources: Resources) {
        // The send fails only if the channel was dropped.
        let _ = self.resources.send(resources);
    }

    /// Makes the listener nonexistent, with this error text.
    pub fn fail(&self, error: &str) {
        let error = WatchError::new(WatchErrorReason::DoesNotExist, error);
        let listener = ((ResourceType::LISTENER, LISTENER.into()), Err(error));
        self.set(Resources(HashMap::from([listener])));
    }
}

/// The resolver, and the resources that answer its watches.
struct Scripted {
    updates: mpsc::UnboundedReceiver<Resources>,
    lookups: Arc<AtomicUsize>,
    requested_lookups: Arc<AtomicUsize>,
    current: Resources,
    watched: HashSet<(ResourceType, Arc<str>)>,
    resolver: Resolver,
}

impl XdsConfigSource for Scripted {
    async fn next(&mut self) -> Resolution {
        loop {
            if let Some(resolution) = self.resolver.poll_config() {
                return resolution;
            }
            match self.updates.recv().await {
                Some(resources) => self.update(resources),
                // The script was dropped: the last configuration stays in use.
                None => std::future::pending().await,
            }
        }
    }

    fn look_up_again(&mut self, _: &DnsTarget) {
        self.requested_lookups.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scripted {
    fn update(&mut self, resources: Resources) {
        self.current = resources;
        // xDS protocol, "Eventual consistency considerations": clusters and endpoints before the
        // resources that refer to them.
        for resource_type in [
            ResourceType::CLUSTER,
            ResourceType::ENDPOINT,
            ResourceType::LISTENER,
        ] {
            let names = self
                .watched
                .iter()
                .filter(|(watched, _)| *watched == resource_type);
            for (resource_type, name) in names.cloned().collect::<Vec<_>>() {
                self.deliver(&resource_type, &name);
            }
            self.run_commands();
        }
    }

    fn run_commands(&mut self) {
        while let Some(command) = self.resolver.poll_command() {
            match command {
                WatchCommand::Watch(resource_type, name) => {
                    self.deliver(&resource_type, &name);
                    self.watched.insert((resource_type, name));
                }
                WatchCommand::Unwatch(resource_type, name) => {
                    self.watched.remove(&(resource_type, name));
                }
                // A script looks up IP addresses only.
                WatchCommand::Resolve(host) => {
                    self.lookups.fetch_add(1, Ordering::Relaxed);
                    let found = host.host.parse().map(|ip| [SocketAddr::new(ip, host.port)]);
                    let found = found.as_ref().map(<[_; 1]>::as_slice);
                    let found = found.map_err(|_| "not an IP address");
                    self.resolver.handle_addresses(&host, found);
                }
                WatchCommand::Forget(_) => {}
            }
        }
    }

    fn deliver(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        let key = (resource_type.clone(), Arc::clone(name));
        if let Some(resource) = self.current.0.get(&key) {
            self.resolver.handle_resource(resource_type, name, resource);
        }
    }
}

/// Returns the resources of a configuration. Each route is a path prefix, and pairs of a weight and an
/// index into `clusters`.
pub fn config(routes: &[(&str, &[(u32, usize)])], clusters: Vec<ClusterSpec>) -> Resources {
    limited(routes, clusters, None)
}

/// Returns the same as [`config`], with `max_stream_duration` of the listener set to `limit`.
pub fn limited(
    routes: &[(&str, &[(u32, usize)])],
    clusters: Vec<ClusterSpec>,
    limit: Option<Duration>,
) -> Resources {
    let route = |&(prefix, targets): &(&str, &[(u32, usize)])| {
        let targets = targets
            .iter()
            .map(|&(weight, index)| (Arc::clone(&clusters[index].name), weight).into());
        Route {
            matcher: RouteMatcher {
                path: PathMatcher::Prefix(Text::new(prefix, false)),
                headers: Vec::new(),
                fraction: None,
            },
            action: RouteAction::Forward(Forward::to(RouteTarget::Weighted(targets.collect()))),
            filter_overrides: FilterOverrides::new(),
        }
    };
    let host = VirtualHost {
        name: "all".to_owned(),
        domains: vec![Domain::Any],
        routes: routes.iter().map(route).collect(),
        ignored: Vec::new(),
        filter_overrides: FilterOverrides::new(),
    };
    let routes = RouteConfig {
        name: "routes".into(),
        virtual_hosts: vec![host],
        host_rewrite: HostRewrite::Unused,
    };
    let listener = Listener {
        name: LISTENER.into(),
        socket: None,
        api: Some(ApiListener {
            routes: RouteSource::Inline(Arc::new(routes)),
            max_stream_duration: limit,
            filters: Vec::new(),
        }),
    };
    let listener = ParsedResource::of(Arc::new(listener));
    let mut resources = HashMap::from([((ResourceType::LISTENER, LISTENER.into()), Ok(listener))]);
    resources.extend(clusters.into_iter().flat_map(ClusterSpec::into_resources));
    Resources(resources)
}

/// Returns a cluster with these priorities, which drops `dropped` of a million RPCs in the category
/// `overload`.
pub fn cluster(name: &str, priorities: &[&[LocalitySpec<'_>]], dropped: u32) -> ClusterSpec {
    let drop = DropCategory {
        category: "overload".into(),
        share: PerMillion::saturating(dropped),
    };
    let levels = priorities
        .iter()
        .map(|level| level.iter().map(locality).collect());
    let endpoints = Assignment {
        name: name.into(),
        priorities: levels.collect(),
        drops: vec![drop],
    };
    ClusterSpec {
        name: name.into(),
        policy: PolicyConfig::round_robin_by_locality(),
        discovery: Discovery::Eds,
        endpoints: Ok(endpoints),
        max_requests: 1024,
        outlier: None,
        override_statuses: HealthSet::default(),
        idle_timeout: Duration::from_secs(3600),
        tls: None,
    }
}

/// Returns an aggregate of other clusters, in the order of failover (gRFC A37).
pub fn aggregate(name: &str, clusters: &[&str]) -> ClusterSpec {
    let clusters = clusters.iter().map(|&cluster| cluster.into());
    ClusterSpec {
        discovery: Discovery::Aggregate(clusters.collect()),
        ..cluster(name, &[], 0)
    }
}

/// Returns a cluster whose watch fails with this error text.
pub fn broken(name: &str, error: &str) -> ClusterSpec {
    ClusterSpec {
        name: name.into(),
        policy: PolicyConfig::round_robin_by_locality(),
        discovery: Discovery::Eds,
        endpoints: Err(WatchError::new(WatchErrorReason::Invalid, error)),
        max_requests: 1024,
        outlier: None,
        override_statuses: HealthSet::default(),
        idle_timeout: Duration::from_secs(3600),
        tls: None,
    }
}

impl Resources {
    /// Changes every route that forwards to a cluster.
    #[must_use]
    pub fn map_routes(self, change: impl Fn(&mut Forward)) -> Self {
        self.map_actions(|action| {
            if let RouteAction::Forward(forward) = action {
                change(forward);
            }
        })
    }

    /// Changes the action of every route.
    #[must_use]
    pub fn map_actions(self, change: impl Fn(&mut RouteAction)) -> Self {
        self.map_listener(|api| {
            let RouteSource::Inline(routes) = &mut api.routes else {
                return;
            };
            let hosts = Arc::make_mut(routes).virtual_hosts.iter_mut();
            let routes = hosts.flat_map(|host| &mut host.routes);
            routes.for_each(|route| change(&mut route.action));
        })
    }

    /// Lets every route rewrite the authority of calls, as a server does that is trusted for it (gRFC A81).
    #[must_use]
    pub fn rewriting_hosts(self) -> Self {
        let rewriting = self.map_routes(|forward| forward.auto_host_rewrite = true);
        rewriting.map_listener(|api| {
            if let RouteSource::Inline(routes) = &mut api.routes {
                Arc::make_mut(routes).host_rewrite = HostRewrite::Allowed;
            }
        })
    }

    /// Sets the HTTP filters of the listener.
    #[must_use]
    pub fn with_filters(self, filters: Vec<HttpFilter>) -> Self {
        self.map_listener(|api| api.filters = filters)
    }

    fn map_listener(mut self, change: impl FnOnce(&mut ApiListener)) -> Self {
        let key = (ResourceType::LISTENER, Arc::from(LISTENER));
        if let Some(Ok(resource)) = self.0.get_mut(&key)
            && let Some(listener) = resource.get::<Listener>()
        {
            let mut listener = Listener::clone(&listener);
            if let Some(api) = &mut listener.api {
                change(api);
            }
            *resource = ParsedResource::of(Arc::new(listener));
        }
        self
    }
}

impl ClusterSpec {
    /// Makes it a `LOGICAL_DNS` cluster of this host, which must be an IP address to be found (gRFC A37).
    #[must_use]
    pub fn logical_dns(mut self, host: &str, port: u16) -> Self {
        let host = host.into();
        self.discovery = Discovery::LogicalDns(DnsTarget { host, port });
        self
    }

    /// Limits the number of concurrent requests (gRFC A32).
    #[must_use]
    pub fn max_requests(mut self, max: u32) -> Self {
        self.max_requests = max;
        self
    }

    /// Turns outlier detection on (gRFC A50).
    #[must_use]
    pub fn outlier(mut self, config: OutlierConfig) -> Self {
        self.outlier = Some(config);
        self
    }

    /// Sets the health statuses of the endpoints to which sessions return (gRFC A55).
    #[must_use]
    pub fn override_statuses(mut self, statuses: HealthSet) -> Self {
        self.override_statuses = statuses;
        self
    }

    /// Sets the time after which an unused connection of sessions is closed (gRFC A75).
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the security of the connections to its endpoints (gRFC A29).
    #[must_use]
    pub fn tls(mut self, tls: UpstreamTls) -> Self {
        self.tls = Some(Arc::new(tls));
        self
    }

    /// Makes endpoints with these addresses drain (gRFC A55).
    #[must_use]
    pub fn drain(mut self, addresses: &[SocketAddr]) -> Self {
        let Ok(assignment) = &mut self.endpoints else {
            return self;
        };
        for locality in assignment.priorities.iter_mut().flatten() {
            for mut endpoint in std::mem::take(&mut locality.endpoints) {
                if addresses.contains(&endpoint.address) {
                    endpoint.health = EndpointHealth::Draining;
                    locality.draining.push(endpoint);
                } else {
                    locality.endpoints.push(endpoint);
                }
            }
        }
        self
    }

    /// Sets the load-balancing policy. The default is round robin in each locality.
    #[must_use]
    pub fn with_policy(mut self, policy: PolicyConfig) -> Self {
        self.policy = policy;
        self
    }

    /// Changes every endpoint, for example its weight or its additional addresses.
    #[must_use]
    pub fn map_endpoints(mut self, change: impl Fn(&mut Endpoint)) -> Self {
        if let Ok(assignment) = &mut self.endpoints {
            let localities = assignment.priorities.iter_mut().flatten();
            localities
                .flat_map(|locality| &mut locality.endpoints)
                .for_each(change);
        }
        self
    }

    fn into_resources(self) -> Vec<((ResourceType, Arc<str>), ScriptedResource)> {
        let Self {
            name,
            policy,
            discovery,
            endpoints,
            max_requests,
            outlier,
            override_statuses,
            idle_timeout,
            tls,
        } = self;
        let endpoints = match endpoints {
            Ok(endpoints) => endpoints,
            Err(error) => return vec![((ResourceType::CLUSTER, name), Err(error))],
        };
        let cluster = Cluster {
            name: Arc::clone(&name),
            discovery,
            eds_service_name: Arc::clone(&name),
            policy,
            lrs_server: None,
            lrs_metrics: MetricSelection::default(),
            max_requests,
            outlier,
            override_statuses,
            idle_timeout,
            tls,
        };
        vec![
            (
                (ResourceType::CLUSTER, Arc::clone(&name)),
                Ok(ParsedResource::of(Arc::new(cluster))),
            ),
            (
                (ResourceType::ENDPOINT, name),
                Ok(ParsedResource::of(Arc::new(endpoints))),
            ),
        ]
    }
}

fn locality(&(name, weight, endpoints): &LocalitySpec<'_>) -> Locality {
    let id = LocalityId {
        region: name.to_owned(),
        ..LocalityId::default()
    };
    let endpoints = endpoints.iter().map(|&address| Endpoint {
        address,
        additional_addresses: Vec::new(),
        weight: 1,
        hash_key: None,
        hostname: None,
        health: EndpointHealth::Healthy,
    });
    Locality {
        id: Arc::new(id),
        weight,
        endpoints: endpoints.collect(),
        draining: Vec::new(),
    }
}
