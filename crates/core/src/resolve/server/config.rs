//! Configuration of a server: a listener, and the routes of its filter chains.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::routes::{ChainRoutes, Hosts, ServerRoutes};
use crate::ads::{WatchError, WatchErrorReason};
use crate::resolve::slots::{Slots, Unreachable};
use crate::resource::{FilterChain, HttpFilter, Listener, RouteConfig, RouteSource};

/// Lists of HTTP filters of which the routes are kept while a configuration is made. Most listeners repeat one list in
/// all their chains; the search must not cost more than the routes.
const LISTS: usize = 4;

/// Complete configuration of a server at one moment (gRFC A36).
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Number of the listener, from 1. Connections of an older one must drain.
    pub generation: u64,
    /// Listener; it has a socket.
    pub listener: Arc<Listener>,
    /// Routes by filter chain, in the order of [`FilterChains::all`](crate::resource::FilterChains::all). Those that
    /// did not change are the same `Arc` as before.
    pub routes: Vec<ChainRoutes>,
}

/// Makes the routes of the chains of one listener. Chains with the same routes share what does not depend on the chain,
/// and chains with the same HTTP filters, too, share all of it: thousands of chains must not multiply with thousands of
/// routes.
pub(super) struct RouteBuilder<'a> {
    route_configs: &'a Slots<RouteConfig>,
    before: Option<&'a ServerConfig>,
    /// Whether `before` has the same listener.
    is_same_listener: bool,
    /// Virtual hosts by the address of their routes, which live as long as their `Hosts`.
    hosts: HashMap<*const RouteConfig, Compiled<'a>>,
}

/// Virtual hosts of a route configuration, and the routes that were last made of them.
struct Compiled<'a> {
    hosts: Arc<Hosts>,
    last: VecDeque<(&'a [HttpFilter], Arc<ServerRoutes>)>,
}

impl<'a> RouteBuilder<'a> {
    pub(super) fn new(
        route_configs: &'a Slots<RouteConfig>,
        before: Option<&'a Arc<ServerConfig>>,
        generation: u64,
    ) -> Self {
        let before = before.map(AsRef::as_ref);
        let routes = before.into_iter().flat_map(|before| &before.routes);
        let hosts = routes.flatten().map(|routes| {
            let hosts = routes.hosts();
            let compiled = Compiled::new(Arc::clone(hosts));
            (Arc::as_ptr(hosts.config()), compiled)
        });
        Self {
            route_configs,
            before,
            is_same_listener: before.is_some_and(|before| before.generation == generation),
            hosts: hosts.collect(),
        }
    }

    /// Returns the routes of the chain at `index`.
    pub(super) fn routes(&mut self, index: usize, chain: &'a FilterChain) -> ChainRoutes {
        let before = self.before.filter(|_| self.is_same_listener);
        let before = before.and_then(|before| before.routes.get(index));
        let name = match &chain.routes {
            RouteSource::Inline(routes) => return Ok(self.compiled(chain, routes, before)),
            RouteSource::Rds(name) => name,
        };
        let slot = self.route_configs.get(name);
        match (slot.answer(Unreachable::IsPending), before) {
            (Some(Ok(routes)), _) => Ok(self.compiled(chain, routes, before)),
            // gRFC A36: the RPCs of this chain fail, the server goes on.
            (Some(Err(error)), _) => Err(error.clone()),
            (None, Some(before)) => before.clone(),
            (None, None) => Err(match slot.answer(Unreachable::IsError) {
                Some(Err(error)) => error.clone(),
                _ => {
                    let text = format!("RouteConfiguration {name:?} has not arrived");
                    WatchError::new(WatchErrorReason::Unreachable, text)
                }
            }),
        }
    }

    fn compiled(
        &mut self,
        chain: &'a FilterChain,
        routes: &Arc<RouteConfig>,
        before: Option<&ChainRoutes>,
    ) -> Arc<ServerRoutes> {
        let before = before.and_then(|before| before.as_ref().ok());
        if let Some(before) = before.filter(|b| Arc::ptr_eq(b.hosts().config(), routes)) {
            return Arc::clone(before);
        }
        let compiled = self.hosts.entry(Arc::as_ptr(routes));
        let compiled = compiled.or_insert_with(|| Compiled::new(Arc::new(Hosts::new(routes))));
        compiled.with(&chain.filters)
    }
}

impl<'a> Compiled<'a> {
    fn new(hosts: Arc<Hosts>) -> Self {
        Self {
            hosts,
            last: VecDeque::new(),
        }
    }

    /// Returns the routes with these HTTP filters.
    fn with(&mut self, filters: &'a [HttpFilter]) -> Arc<ServerRoutes> {
        let known = self.last.iter().find(|(known, _)| *known == filters);
        if let Some((_, routes)) = known {
            return Arc::clone(routes);
        }
        let routes = Arc::new(ServerRoutes::new(Arc::clone(&self.hosts), filters));
        self.last.truncate(LISTS - 1);
        self.last.push_front((filters, Arc::clone(&routes)));
        routes
    }
}
