//! The client's machine: commands, timers, and what the driver polls.

use std::sync::Arc;

use oxds_types::ResourceType;

use super::authority_id::AuthorityId;
use super::cache::{Cache, CacheStatus, Timer, UpdateFailure};
use super::config::{ClientConfig, ErrorEffect, Server};
use super::error::{WatchError, WatchErrorReason, error};
use super::event::ClientEvent;
use super::fallback::{ServerState, Servers};
use super::stream::{AdsStream, AdsTransmit, StreamEnd};
use crate::resource::ResourceParser;
use crate::server_id::ServerId;
use crate::time::Instant;

/// State machine of the xDS client. See the [module documentation](super) for how to drive it.
#[derive(Debug)]
pub struct Client {
    pub(super) config: ClientConfig,
    pub(super) servers: Servers,
    pub(super) cache: Cache,
    pub(super) counters: ClientCounters,
}

/// Counts of work since the client was made. The cost follows what changes, not what is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Resources that were decoded and validated: once for each parser of their type.
    pub decoded: u64,
    /// Resources whose bytes equal the cached ones, so that they were not decoded (C-86).
    pub unchanged: u64,
    /// Events for watchers.
    pub events: u64,
}

impl std::ops::Sub for ClientCounters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            decoded: self.decoded - before.decoded,
            unchanged: self.unchanged - before.unchanged,
            events: self.events - before.events,
        }
    }
}

impl Client {
    /// Returns a client without watchers. It connects to no server and sends no request until the first watch (C-63).
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let state = |server: &Server| ServerState {
            config: server.clone(),
            stream: AdsStream::new(&config, server),
            unreachable: None,
        };
        let servers = config.servers.iter().map(state).collect();
        Self {
            servers: Servers::new(servers, &config),
            cache: Cache::new(&config.servers),
            counters: ClientCounters::default(),
            config,
        }
    }

    /// Adds a parser for a resource type; cached resources are parsed with it as well.
    ///
    /// If a type has several parsers, a resource is valid only if all of them accept it.
    pub fn register(&mut self, added: ResourceParser) {
        let resource_type = added.resource_type().clone();
        if self.config.parsers.register(added) {
            self.cache.reparse(&resource_type, &self.config.parsers);
        }
    }

    /// Adds a watcher of a resource that belongs to this authority of the configuration.
    ///
    /// Returns the events for the new watcher: the cached state. Later events are for all watchers of the name.
    ///
    /// The name `*` watches all resources of the type, and `xdstp://authority/type/path/*` all that are directly below
    /// the path, if the server supports such names (xDS protocol, "Wildcard"; xRFC TP1). Their events have the names of
    /// single resources; an event about the whole watch has the watched name.
    pub fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> Vec<ClientEvent> {
        if self.cache.watch(authority, resource_type, name) {
            self.servers
                .subscribe(&self.cache, authority, resource_type, name);
        }
        // A new watcher gets the cached state at once, without a request (C-107).
        let current = self.cache.current(resource_type, name);
        if !current.is_empty() {
            return current;
        }
        // If all servers are unreachable, a new watcher gets the error at once (C-108).
        let unreachable = self.servers.unreachable(authority);
        let error = unreachable.map(|(server, cause)| {
            let from = &self.servers.get(server).config;
            let error = unreachable_error(from, &self.config.node.id, cause, resource_type, name);
            ClientEvent::changed(resource_type, name, Err(error))
        });
        error.into_iter().collect()
    }

    /// Removes a watcher that [`watch`](Self::watch) added. The last one of a name ends the subscription.
    ///
    /// The subscription ends at the next [`poll_transmit`](Self::poll_transmit). A name that is watched again before
    /// keeps its subscription and its cached resource: no request would show the server that the client dropped it, so
    /// the server would not send it again.
    pub fn unwatch(&mut self, resource_type: &ResourceType, name: &str) {
        self.cache.unwatch(resource_type, name);
    }

    /// Unsubscribes the names whose last watcher has left.
    pub(super) fn end_unwatched(&mut self) {
        // One at a time: an authority releases its servers with its last name.
        while let Some((authority, resource_type, name)) = self.cache.end_unwatched() {
            self.servers
                .unsubscribe(&self.cache, authority, &resource_type, &name);
        }
    }

    /// Handles a stream that was opened: requests can be written to this server from now on.
    pub fn handle_opened(&mut self, server: ServerId) {
        self.servers.get_mut(server).stream.handle_opened();
        debug_assert!(self.is_consistent());
    }

    /// Handles a stream that could not be opened, or that ended. `cause` goes into errors; `random` is the jitter of
    /// the next attempt.
    pub fn handle_closed(&mut self, now: Instant, server: ServerId, cause: &str, random: u64) {
        // A name without watchers does not cause a fallback.
        self.end_unwatched();
        let state = self.servers.get_mut(server);
        let end = state.stream.handle_closed(now, random);
        self.cache.handle_closed(server);
        // gRFC A57, A71: the end of a stream after a response is neither an error nor a cause of fallback (C-90,
        // C-152).
        if end == StreamEnd::Unanswered {
            self.handle_unreachable(server, cause);
        }
        debug_assert!(self.is_consistent());
    }

    /// Falls back to other servers; watchers of authorities without another server get the error (gRFC A71).
    pub(super) fn handle_unreachable(&mut self, server: ServerId, cause: &str) {
        let cause: Arc<str> = cause.into();
        for authority in self.servers.handle_unreachable(&self.cache, server, &cause) {
            let (from, node_id) = (&self.servers.get(server).config, &self.config.node.id);
            self.cache
                .handle_unreachable(authority, |resource_type, name| {
                    unreachable_error(from, node_id, &cause, resource_type, name)
                });
        }
    }

    /// Handles the timers that are due. Call it at the time that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (_, state) in self.servers.iter_mut() {
            state.stream.handle_timeout(now);
        }
        while let Some((timer, server, resource_type, name)) = self.cache.pop_timer(now) {
            let from = &self.servers.get(server).config;
            let seconds = self.config.timeout_of(from).as_secs_f32();
            let (failure, reason, text) = match timer {
                // xDS protocol, "Resource TTL": a resource whose TTL ends is removed (C-279).
                Timer::Ttl => {
                    let text = "does not exist: its TTL has ended".to_owned();
                    let reason = WatchErrorReason::DoesNotExist;
                    (UpdateFailure::DoesNotExist, reason, text)
                }
                // gRFC A88, `resource_timer_is_transient_error`: the server is slow (C-97).
                Timer::ResourceTimeout if from.resource_timer_is_transient => {
                    let text = format!("is unavailable: no answer within {seconds} s");
                    let reason = WatchErrorReason::Unreachable;
                    (UpdateFailure::Timeout, reason, text)
                }
                // gRFC A27: no answer within 15 s means that the resource does not exist (C-96).
                Timer::ResourceTimeout => {
                    let text = format!("does not exist: no answer within {seconds} s");
                    let reason = WatchErrorReason::DoesNotExist;
                    (UpdateFailure::DoesNotExist, reason, text)
                }
            };
            let node_id = &self.config.node.id;
            let error = error(from, node_id, reason, &text, &resource_type, &name);
            self.cache
                .fail(&resource_type, &name, failure, error, ErrorEffect::Drop);
        }
        debug_assert!(self.is_consistent());
    }

    /// Returns the next action of the driver, and the server that it is for. Poll it until `None` after every other
    /// call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(ServerId, AdsTransmit)> {
        self.end_unwatched();
        let cache = &self.cache;
        let (server, transmit) = self.servers.iter_mut().find_map(|(server, state)| {
            let cached = |resource_type: &ResourceType, name: &str| {
                cache.initial_versions(server, resource_type, name)
            };
            let transmit = state.stream.poll_transmit(now, cached)?;
            Some((server, transmit))
        })?;
        let requested = match &transmit {
            AdsTransmit::SotwRequest(request) => Some((&request.type_url, &request.resource_names)),
            AdsTransmit::DeltaRequest(request) => {
                Some((&request.type_url, &request.resource_names_subscribe))
            }
            AdsTransmit::Open | AdsTransmit::Close => None,
        };
        if let Some((type_url, names)) = requested
            && let Some((resource_type, _)) = ResourceType::from_type_url(type_url)
        {
            // gRFC A27, A57: the resource timeout starts when the request with the name is sent on a live stream
            // (C-94).
            let until = now + self.config.timeout_of(&self.servers.get(server).config);
            self.cache.requested(server, &resource_type, names, until);
        }
        debug_assert!(self.is_consistent());
        Some((server, transmit))
    }

    /// Whether the invariants of servers and cache hold; for debug assertions.
    pub(super) fn is_consistent(&self) -> bool {
        self.cache.is_consistent() && self.servers.is_consistent(&self.cache, &self.config)
    }

    /// Returns the next event. Poll it until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.cache.poll_event()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let streams = self.servers.iter().map(|state| &state.stream);
        streams
            .filter_map(AdsStream::poll_timeout)
            .chain(self.cache.poll_timeout())
            .min()
    }

    /// Returns whether a server is reachable, for the metric `grpc.xds_client.connected` (gRFC A78).
    ///
    /// A server counts as reachable until it cannot be reached or ends a stream without a response, and again from its
    /// next response on (gRFC A57). `None` while no name is subscribed on it.
    #[must_use]
    pub fn is_connected(&self, server: ServerId) -> Option<bool> {
        let state = self.servers.get(server);
        state
            .stream
            .is_wanted()
            .then(|| state.unreachable.is_none())
    }

    /// Returns the cached state of a watched resource.
    #[must_use]
    pub fn cached(&self, resource_type: &ResourceType, name: &str) -> Option<CacheStatus<'_>> {
        self.cache.status(resource_type, name)
    }

    /// Returns the cached state of every watched resource, by type and name.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>, CacheStatus<'_>)> {
        self.cache.statuses()
    }

    /// Returns the counts of work since the client was made.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        ClientCounters {
            events: self.cache.events_pushed(),
            ..self.counters
        }
    }

    /// Returns the version of a type that was last accepted from a server; empty before the first.
    #[must_use]
    pub fn version(&self, server: ServerId, resource_type: &ResourceType) -> &str {
        self.servers.get(server).stream.version(resource_type)
    }
}

fn unreachable_error(
    server: &Server,
    node_id: &str,
    cause: &str,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let text = format!("is unavailable: {cause}");
    let reason = WatchErrorReason::Unreachable;
    error(server, node_id, reason, &text, resource_type, name)
}
