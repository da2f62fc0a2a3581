//! Routes of a filter chain: which RPCs a server processes, and by which HTTP filters.

use std::fmt;
use std::sync::Arc;

use crate::ads::WatchError;
use crate::lb::{DomainIndex, Headers};
use crate::resolve::filters::FilterLists;
use crate::resource::{HttpFilter, RouteAction, RouteConfig};

/// Routes of a filter chain, or the error because of which its RPCs fail.
pub type ChainRoutes = Result<Arc<ServerRoutes>, WatchError>;

/// Virtual hosts of a route configuration, by domain.
#[derive(Debug)]
pub(super) struct Hosts {
    config: Arc<RouteConfig>,
    domains: DomainIndex<usize>,
    /// Whether a virtual host or a route has a configuration of HTTP filters.
    has_overrides: bool,
}

/// Routes of a filter chain.
#[derive(Debug)]
pub struct ServerRoutes {
    hosts: Arc<Hosts>,
    filters: RouteFilters,
}

/// HTTP filters of the routes.
#[derive(Debug)]
enum RouteFilters {
    /// The same for all routes.
    Same(Arc<[HttpFilter]>),
    /// By index of the virtual host, then of the route.
    ByRoute(Vec<Vec<Arc<[HttpFilter]>>>),
}

/// Reason why a server does not process an RPC (gRFC A36).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No virtual host has the authority of the RPC.
    VirtualHost,
    /// No route of the virtual host matches.
    Route,
    /// The action of the route is not `non_forwarding_action`.
    Action,
}

impl Hosts {
    pub(super) fn new(config: &Arc<RouteConfig>) -> Self {
        let hosts = config.virtual_hosts.iter().enumerate();
        let domains = hosts.flat_map(|(index, host)| {
            let domains = host.domains.iter();
            domains.map(move |domain| (domain, index))
        });
        Self {
            config: Arc::clone(config),
            domains: DomainIndex::new(domains),
            has_overrides: config.virtual_hosts.iter().any(|host| {
                let routes = &mut host.routes.iter();
                !host.filter_overrides.is_empty()
                    || routes.any(|route| !route.filter_overrides.is_empty())
            }),
        }
    }

    pub(super) fn config(&self) -> &Arc<RouteConfig> {
        &self.config
    }
}

impl ServerRoutes {
    pub(super) fn new(hosts: Arc<Hosts>, filters: &[HttpFilter]) -> Self {
        let make = |name: &Arc<str>, config: &_| HttpFilter {
            name: Arc::clone(name),
            config: Clone::clone(config),
        };
        let lists = FilterLists::new(filters, make);
        let filters = if hosts.has_overrides && !filters.is_empty() {
            let of_host = hosts.config.virtual_hosts.iter().map(|host| {
                let routes = host.routes.iter();
                let of_route = routes
                    .map(|route| lists.with([&route.filter_overrides, &host.filter_overrides]));
                of_route.collect()
            });
            RouteFilters::ByRoute(of_host.collect())
        } else {
            RouteFilters::Same(lists.with([]))
        };
        Self { hosts, filters }
    }

    pub(super) fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// Returns the route configuration that they were made of.
    #[must_use]
    pub fn route_config(&self) -> &Arc<RouteConfig> {
        &self.hosts.config
    }

    /// Returns the HTTP filters of an RPC, in the order in which they run. `random` is called for routes with a
    /// fraction.
    ///
    /// # Errors
    /// The reason why the RPC fails with `UNAVAILABLE` (gRFC A36).
    pub fn route(
        &self,
        authority: &str,
        path: &str,
        headers: &(impl Headers + ?Sized),
        mut random: impl FnMut() -> u64,
    ) -> Result<&[HttpFilter], NoRoute> {
        let host = self.hosts.domains.find(authority);
        let host = host.ok_or(NoRoute::VirtualHost)?;
        let virtual_host = self.hosts.config.virtual_hosts.get(host);
        let routes = &virtual_host.ok_or(NoRoute::VirtualHost)?.routes;
        // gRFC A28: routes are tried in order, and the first match decides.
        let mut matching = routes.iter().enumerate();
        let found = matching.find(|(_, route)| route.matcher.matches(path, headers, &mut random));
        let (index, route) = found.ok_or(NoRoute::Route)?;
        match &route.action {
            RouteAction::NonForwarding => {}
            RouteAction::Forward(_) | RouteAction::Unsupported => return Err(NoRoute::Action),
        }
        match &self.filters {
            RouteFilters::Same(filters) => Ok(filters),
            RouteFilters::ByRoute(lists) => {
                let list = lists.get(host).and_then(|routes| routes.get(index));
                list.map(AsRef::as_ref).ok_or(NoRoute::Route)
            }
        }
    }
}

/// The text of the status.
impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VirtualHost => "no virtual host has the authority of the RPC",
            Self::Route => "no route matches the RPC",
            Self::Action => "the action of the route is not non_forwarding_action",
        })
    }
}
