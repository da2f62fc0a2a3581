//! Resolver of a server: makes one configuration of a listener and its routes (gRFC A36).
//!
//! ```text
//!                    listener and all its routes answered
//!   ┌─────────┐      ┌─────────────────────────────────┐      ┌─────────┐ next listener answered,
//!   │ waiting ├─────►│ serving                         │◄─────┤ not     │ with all its routes
//!   └────┬────┘      │   routes change ─► same chains  │      │ serving │
//!        │           │   next listener ─► next chains, ├─────►│         │
//!        │           │   once its routes are answered  │      └─────────┘
//!        │           └─────────────────────────────────┘           ▲
//!        └──────────────────────────────────────────────────────────┘
//!              listener deleted, invalid from the start, for another address
//! ```
//!
//! A listener in use stays in use until the next one and all its routes have an answer. An error is an answer of
//! routes: then the RPCs of that chain fail, and those of other chains do not. An unreachable control plane changes
//! nothing while a listener is in use.

mod config;
mod routes;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::command::WatchCommand;
use super::latest::Latest;
use super::slots::{Slots, Unreachable};
use super::unusable;
use crate::ads::WatchError;
use crate::resource::{Listener, ParsedResource, RouteConfig, RouteSource, SocketListener};
use config::RouteBuilder;

pub use config::ServerConfig;
pub use routes::{ChainRoutes, NoRoute, ServerRoutes};

/// Configuration of a server, or the reason why it does not serve.
pub type ServerResolution = Result<Arc<ServerConfig>, WatchError>;

/// Resolver of one listening address: follows its listener and the routes, and makes configurations of them.
#[derive(Debug)]
pub struct ServerResolver {
    listener_name: Arc<str>,
    listening: SocketAddr,
    listeners: Slots<Listener>,
    route_configs: Slots<RouteConfig>,

    /// Listener in use, and its number.
    active: Option<(Arc<Listener>, u64)>,
    /// Next listener, while routes of it have no answer.
    next: Option<Arc<Listener>>,
    /// Number of the last listener that was in use.
    generation: u64,

    current: Latest<ServerConfig>,
    commands: VecDeque<WatchCommand>,
    /// Whether a resource has changed since the last poll.
    is_pending: bool,
}

impl ServerResolver {
    /// Makes a resolver of a listener for a server at `listening`.
    #[must_use]
    pub fn new(listener_name: impl Into<Arc<str>>, listening: SocketAddr) -> Self {
        let mut resolver = Self {
            listener_name: listener_name.into(),
            listening,
            listeners: Slots::default(),
            route_configs: Slots::default(),
            active: None,
            next: None,
            generation: 0,
            current: Latest::default(),
            commands: VecDeque::new(),
            is_pending: false,
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
        self.is_pending |= if *resource_type == ResourceType::LISTENER {
            self.listeners.set(name, resource)
        } else if *resource_type == ResourceType::ROUTE {
            self.route_configs.set(name, resource)
        } else {
            false
        };
        debug_assert!(self.is_consistent());
    }

    /// Returns the next command to the client. Poll it until `None` after every other call.
    pub fn poll_command(&mut self) -> Option<WatchCommand> {
        self.settle();
        self.commands.pop_front()
    }

    /// Returns the configuration in use, or the error that prevents one, once after each change.
    pub fn poll_config(&mut self) -> Option<ServerResolution> {
        self.settle();
        self.current.poll()
    }

    fn settle(&mut self) {
        if !std::mem::take(&mut self.is_pending) {
            return;
        }
        match self.wanted_listener() {
            None => {}
            // gRFC A36: without a listener, or with one for another address, a server does not serve.
            Some(Err(error)) => {
                self.active = None;
                self.next = None;
                self.current.set(Err(error));
            }
            Some(Ok(listener)) => {
                let active = self.active.as_ref();
                let is_new = active.is_none_or(|(active, _)| !Arc::ptr_eq(active, &listener));
                self.next = is_new.then_some(listener);
            }
        }
        self.watch();
        let unreachable = self.unreachable();
        let is_answered = |name: &Arc<str>| {
            let routes = self.route_configs.get(name);
            routes.answer(unreachable).is_some()
        };
        // gRFC A36: the listener in use serves until the next one has all its routes.
        if let Some(next) = self.next.take_if(|next| rds_names(next).all(is_answered)) {
            self.generation += 1;
            self.active = Some((next, self.generation));
            self.watch();
        }
        self.publish();
        debug_assert!(self.is_consistent());
    }

    /// Whether the listener in use has a configuration, and all routes of the listeners are watched; for debug
    /// assertions.
    fn is_consistent(&self) -> bool {
        let (active, config) = (self.active.as_ref(), self.current.ok());
        let listeners = active
            .map(|(listener, _)| listener)
            .into_iter()
            .chain(&self.next);
        let mut routes = listeners.flat_map(rds_names);
        self.listeners.has(&self.listener_name)
            && active.map(|(_, generation)| *generation) == config.map(|config| config.generation)
            && active.is_none_or(|(_, generation)| *generation == self.generation)
            && routes.all(|name| self.route_configs.has(name))
    }

    /// Returns what an unreachable control plane means now.
    fn unreachable(&self) -> Unreachable {
        match self.active {
            None => Unreachable::IsError,
            // gRFC A36: communication failures do not change the configuration.
            Some(_) => Unreachable::IsPending,
        }
    }

    /// Returns the listener that the control plane wants; `None` without an answer.
    fn wanted_listener(&self) -> Option<Result<Arc<Listener>, WatchError>> {
        let name = &self.listener_name;
        let listener = match self.listeners.get(name).answer(self.unreachable())? {
            Err(error) => return Some(Err(error.clone())),
            Ok(listener) => listener,
        };
        let problem = match &listener.socket {
            None => "is an API listener: expected filter chains and an address".to_owned(),
            Some(socket) if socket.is_for(self.listening) => {
                return Some(Ok(Arc::clone(listener)));
            }
            Some(SocketListener { address, port, .. }) => {
                let listening = self.listening;
                format!("is for address {address:?} and port {port}: expected {listening}")
            }
        };
        Some(Err(unusable(&ResourceType::LISTENER, name, &problem)))
    }

    /// Watches exactly the routes that the listeners need.
    fn watch(&mut self) {
        let active = self.active.as_ref().map(|(listener, _)| listener);
        let names = active.into_iter().chain(&self.next).flat_map(rds_names);
        let names: Vec<_> = names.cloned().collect();
        self.route_configs.want(names, &mut self.commands);
    }

    /// Makes a configuration of the listener in use. Routes that did not change keep their `Arc`s.
    fn publish(&mut self) {
        let Some((listener, generation)) = &self.active else {
            return;
        };
        let Some(socket) = &listener.socket else {
            return;
        };
        let before = self.current.ok();
        let mut builder = RouteBuilder::new(&self.route_configs, before, *generation);
        let chains = socket.chains.all().iter().enumerate();
        let routes: Vec<_> = chains
            .map(|(index, chain)| builder.routes(index, chain))
            .collect();
        let is_same = before.is_some_and(|before| {
            before.generation == *generation && same_routes(&before.routes, &routes)
        });
        if !is_same {
            let config = ServerConfig {
                generation: *generation,
                listener: Arc::clone(listener),
                routes,
            };
            self.current.set(Ok(Arc::new(config)));
        }
    }
}

/// Returns the names of the RDS resources of a listener's chains; a name that several chains have, as often.
fn rds_names(listener: &Arc<Listener>) -> impl Iterator<Item = &Arc<str>> {
    let chains = listener
        .socket
        .iter()
        .flat_map(|socket| socket.chains.all());
    chains.filter_map(|chain| match &chain.routes {
        RouteSource::Rds(name) => Some(name),
        RouteSource::Inline(_) => None,
    })
}

fn same_routes(before: &[ChainRoutes], after: &[ChainRoutes]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(a, b)| match (a, b) {
            (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
            (Err(a), Err(b)) => a == b,
            _ => false,
        })
}
