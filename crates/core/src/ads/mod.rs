//! The client's machine: subscriptions to xDS servers over ADS, of full states or of differences, and what came of them.
//!
//! Three parts: `stream` is what one server has been asked and told; `fallback` is which servers are asked; `cache` is
//! what is held of each resource, whoever sent it. [`Client`] runs the ones on the others.
//!
//! ```text
//!  watch, unwatch ─► ┌──────────┐ ─► poll_transmit: open, request, close, each of one server
//!                    │  Client  │
//!  handle_opened ──► │ streams  │ ─► poll_event: resource changed, ambient error
//!  handle_response ► │ fallback │
//!  handle_closed ──► │ cache    │ ─► poll_timeout ─► handle_timeout
//!                    └──────────┘
//! ```
//!
//! Rules: xDS protocol, "ACK/NACK and versioning", "How the client specifies what resources to return", "Knowing when
//! a requested resource does not exist"; gRFC A27, A46, A47, A53, A57, A71, A88.

mod backoff;
mod cache;
mod config;
mod counters;
mod error;
mod fallback;
mod intake;
mod response;
mod sources;
mod stream;
mod updates;

use std::sync::Arc;

use oxds_types::ResourceType;

pub use backoff::Backoff;
pub(crate) use backoff::jittered;
pub use cache::{CacheState, CacheStatus, CachedResource, FailedUpdate, VersionText};
pub use config::{AuthorityId, ClientConfig, DataErrors, Duplicates, NameSyntax, Server, ServerId};
pub use counters::ClientCounters;
pub use error::{WatchError, WatchErrorReason};
pub use stream::AdsTransmit;
pub use updates::ResponseSummary;

use crate::resource::{ParsedResource, ResourceParser};
pub use crate::snapshot::Protocol;
use crate::time::Instant;
use cache::{Cache, Due, Fault, Loss};
use error::error;
use fallback::{Channel, Channels};
use stream::{Ended, Stream};

/// What the watchers of a resource are to be told (gRFC A88).
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// This replaces what was there.
    Changed {
        /// The resource's kind.
        resource_type: ResourceType,
        /// Its name.
        name: Arc<str>,
        /// The resource, or why there is none.
        resource: Result<ParsedResource, WatchError>,
    },
    /// What was there stays in use; it may be old (an error), or is known to be current again (`None`).
    Ambient {
        /// The resource's kind.
        resource_type: ResourceType,
        /// Its name.
        name: Arc<str>,
        /// What is wrong.
        error: Option<WatchError>,
    },
    /// Not for watchers: a server deleted a resource that stays in use (gRFC A53). To be logged.
    DeletionIgnored {
        /// The resource's kind.
        resource_type: ResourceType,
        /// Its name.
        name: Arc<str>,
    },
}

/// The client's machine. See the module's documentation for how to run it.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    channels: Channels,
    cache: Cache,
    counters: ClientCounters,
}

impl Client {
    /// A client that watches nothing, so that it neither connects nor asks (C-63).
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let channel = |server: &Server| Channel {
            server: server.clone(),
            stream: Stream::new(config.node.clone(), server),
            lost: None,
        };
        let channels = config.servers.iter().map(channel).collect();
        Self {
            channels: Channels::new(channels, &config),
            cache: Cache::default(),
            counters: ClientCounters::default(),
            config,
        }
    }

    /// Reads the resources of a kind as this type from now on, those that are held included. Where a kind is read as
    /// several types, all must take a resource.
    pub fn register(&mut self, added: ResourceParser) {
        let resource_type = added.resource_type().clone();
        if self.config.types.register(added) {
            self.cache.reread(&resource_type, &self.config.types);
        }
    }

    /// Adds a watcher of a resource, which belongs to this authority of the configuration. Returns what it is to be
    /// told at once; the rest comes as events to all watchers of the name.
    ///
    /// The name `*` stands for all resources of the kind, and `xdstp://authority/type/path/*` for those directly below the
    /// path, as far as the server knows such names (xDS protocol, "Wildcard", xRFC TP1). Their events have the names of
    /// single resources; what concerns the whole has the name that was watched.
    pub fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> Vec<ClientEvent> {
        if self.cache.watch(authority, resource_type, name) {
            self.channels
                .subscribe(&self.cache, authority, resource_type, name);
        }
        let current = self.cache.current(resource_type, name);
        if !current.is_empty() {
            return current;
        }
        // C-108: whoever comes while the servers are lost is not left in silence.
        let lost = self.channels.lost(authority).map(|(server, cause)| {
            let resource = Err(self.unreachable(server, cause, resource_type, name));
            let (resource_type, name) = (resource_type.clone(), Arc::clone(name));
            ClientEvent::Changed {
                resource_type,
                name,
                resource,
            }
        });
        lost.into_iter().collect()
    }

    /// Removes a watcher that [`watch`](Self::watch) added.
    pub fn unwatch(&mut self, resource_type: &ResourceType, name: &str) {
        if let Some(authority) = self.cache.unwatch(resource_type, name) {
            self.channels
                .unsubscribe(&self.cache, authority, resource_type, name);
        }
    }

    /// Requests can be written to this server from now on.
    pub fn handle_opened(&mut self, server: ServerId) {
        self.channels.get_mut(server).stream.handle_opened();
    }

    /// The stream could not be opened, or ended, for this reason. `random` spreads the next attempt.
    pub fn handle_closed(&mut self, now: Instant, server: ServerId, cause: &str, random: u64) {
        let channel = self.channels.get_mut(server);
        let ended = channel.stream.handle_closed(now, random);
        self.cache.handle_closed(server);
        // C-152: servers close streams that they have answered as they see fit.
        if ended == Ended::Unanswered {
            self.lose(server, cause);
        }
    }

    /// The server could not be asked: others are, or the watchers hear of it.
    fn lose(&mut self, server: ServerId, cause: &str) {
        let cause: Arc<str> = cause.into();
        for authority in self.channels.lose(&self.cache, server, &cause) {
            let (lost, node_id) = (&self.channels.get(server).server, &self.config.node.id);
            self.cache
                .handle_unreachable(authority, |resource_type, name| {
                    unreachable(lost, node_id, &cause, resource_type, name)
                });
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (_, channel) in self.channels.iter_mut() {
            channel.stream.handle_timeout(now);
        }
        while let Some((due, server, resource_type, name)) = self.cache.pop_due(now) {
            let from = &self.channels.get(server).server;
            let seconds = self.config.patience(from).as_secs_f32();
            let (fault, reason, text) = match due {
                Due::Expiry => {
                    let text = "does not exist: its time to live has ended".to_owned();
                    (Fault::Absent, WatchErrorReason::DoesNotExist, text)
                }
                Due::Silence if from.silence_is_transient => {
                    let text = format!("cannot be had: no answer within {seconds} s");
                    (Fault::Late, WatchErrorReason::Unreachable, text)
                }
                Due::Silence => {
                    let text = format!("does not exist: no answer within {seconds} s");
                    (Fault::Absent, WatchErrorReason::DoesNotExist, text)
                }
            };
            let error = error(
                from,
                &self.config.node.id,
                reason,
                &text,
                &resource_type,
                &name,
            );
            self.cache
                .fail(&resource_type, &name, fault, error, Loss::Drop);
        }
    }

    /// What to do next, and with which server. Poll until `None` after every other call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(ServerId, AdsTransmit)> {
        let cache = &self.cache;
        let (server, transmit) = self.channels.iter_mut().find_map(|(server, channel)| {
            let held = |resource_type: &ResourceType, name: &str| {
                cache.versions_from(server, resource_type, name)
            };
            let transmit = channel.stream.poll_transmit(now, held)?;
            Some((server, transmit))
        })?;
        let asked = match &transmit {
            AdsTransmit::SotwRequest(request) => Some((&request.type_url, &request.resource_names)),
            AdsTransmit::DeltaRequest(request) => {
                Some((&request.type_url, &request.resource_names_subscribe))
            }
            AdsTransmit::Open | AdsTransmit::Close => None,
        };
        if let Some((type_url, names)) = asked
            && let Some((resource_type, _)) = ResourceType::from_type_url(type_url)
        {
            // C-94: the clock of a resource starts when its name has gone out on a live stream.
            let until = now + self.config.patience(&self.channels.get(server).server);
            self.cache.requested(server, &resource_type, names, until);
        }
        Some((server, transmit))
    }

    /// The next event. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.cache.poll_event()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let streams = self.channels.iter().map(|channel| &channel.stream);
        streams
            .filter_map(Stream::poll_timeout)
            .chain(self.cache.poll_timeout())
            .min()
    }

    /// Whether a server answers, as far as is known (gRFC A78): it does until it cannot be reached, or ends a stream
    /// without an answer, and again from its next answer on (gRFC A57). `None` while nothing is asked of it.
    #[must_use]
    pub fn is_connected(&self, server: ServerId) -> Option<bool> {
        let channel = self.channels.get(server);
        channel.stream.is_wanted().then(|| channel.lost.is_none())
    }

    /// What is held of a watched resource.
    #[must_use]
    pub fn cached(&self, resource_type: &ResourceType, name: &str) -> Option<CacheStatus<'_>> {
        self.cache.cached(resource_type, name)
    }

    /// All that is watched.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>, CacheStatus<'_>)> {
        self.cache.all()
    }

    /// What there was to do since the client was made.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        ClientCounters {
            events: self.cache.told(),
            ..self.counters
        }
    }

    /// The version of a kind that was accepted last from a server.
    #[must_use]
    pub fn version(&self, server: ServerId, resource_type: &ResourceType) -> &str {
        self.channels.get(server).stream.version(resource_type)
    }

    fn unreachable(
        &self,
        server: ServerId,
        cause: &str,
        resource_type: &ResourceType,
        name: &str,
    ) -> WatchError {
        let server = &self.channels.get(server).server;
        unreachable(server, &self.config.node.id, cause, resource_type, name)
    }
}

fn unreachable(
    server: &Server,
    node_id: &str,
    cause: &str,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let text = format!("cannot be had: {cause}");
    error(
        server,
        node_id,
        WatchErrorReason::Unreachable,
        &text,
        resource_type,
        name,
    )
}
