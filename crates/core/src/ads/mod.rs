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
mod error;
mod fallback;
mod name;
mod response;
mod sources;
mod stream;
mod updates;

use std::sync::Arc;

use oxds_types::Kind;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};

pub use backoff::Backoff;
pub(crate) use backoff::jittered;
pub use cache::{Attempt, CacheState, Cached, Held};
pub use config::{AuthorityId, Config, Duplicates, Names, Server, ServerId};
pub use error::{Reason, WatchError};
pub use name::canonical;
pub use stream::Transmit;
pub use updates::Updates;

use crate::resource::Resource;
pub use crate::snapshot::Protocol;
use crate::time::Instant;
use cache::Cache;
use error::{error, reported};
use fallback::{Channel, Channels};
use response::{Accepted, Judged, Rejected, Rules};
use stream::{Ended, Stream};

/// What the watchers of a resource are to be told (gRFC A88).
#[derive(Debug, Clone)]
pub enum Event {
    /// This replaces what was there.
    Changed {
        /// The resource's kind.
        kind: Kind,
        /// Its name.
        name: Arc<str>,
        /// The resource, or why there is none.
        resource: Result<Resource, WatchError>,
    },
    /// What was there stays in use; it may be old (an error), or is known to be current again (`None`).
    Ambient {
        /// The resource's kind.
        kind: Kind,
        /// Its name.
        name: Arc<str>,
        /// What is wrong.
        error: Option<WatchError>,
    },
    /// Not for watchers: a server deleted a resource that stays in use (gRFC A53). To be logged.
    DeletionIgnored {
        /// The resource's kind.
        kind: Kind,
        /// Its name.
        name: Arc<str>,
    },
}

/// The client's machine. See the module's documentation for how to run it.
#[derive(Debug)]
pub struct Client {
    config: Config,
    channels: Channels,
    cache: Cache,
}

impl Client {
    /// A client that watches nothing, so that it neither connects nor asks (C-63).
    #[must_use]
    pub fn new(config: Config) -> Self {
        let channel = |server: &Server| Channel {
            server: server.clone(),
            stream: Stream::new(config.node.clone(), server),
            lost: None,
        };
        let channels = config.servers.iter().map(channel).collect();
        Self {
            channels: Channels::new(channels, &config),
            cache: Cache::default(),
            config,
        }
    }

    /// Adds a watcher of a resource, which belongs to this authority of the configuration. Returns what it is to be
    /// told at once; the rest comes as events to all watchers of the name.
    pub fn watch(&mut self, authority: AuthorityId, kind: &Kind, name: &Arc<str>) -> Vec<Event> {
        if self.cache.watch(authority, kind, name) {
            self.channels.subscribe(&self.cache, authority, kind, name);
        }
        let current = self.cache.current(kind, name);
        if !current.is_empty() {
            return current;
        }
        // C-108: whoever comes while the servers are lost is not left in silence.
        let lost = self.channels.lost(authority).map(|(server, cause)| {
            let resource = Err(self.unreachable(server, cause, kind, name));
            let (kind, name) = (kind.clone(), Arc::clone(name));
            Event::Changed {
                kind,
                name,
                resource,
            }
        });
        lost.into_iter().collect()
    }

    /// Removes a watcher that [`watch`](Self::watch) added.
    pub fn unwatch(&mut self, kind: &Kind, name: &str) {
        if let Some(authority) = self.cache.unwatch(kind, name) {
            self.channels
                .unsubscribe(&self.cache, authority, kind, name);
        }
    }

    /// Requests can be written to this server from now on.
    pub fn handle_opened(&mut self, server: ServerId) {
        self.channels.get_mut(server).stream.handle_opened();
    }

    /// A response came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    ///
    /// Returns what was in it, unless it is not ours to judge.
    pub fn handle_response(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DiscoveryResponse,
    ) -> Option<Updates> {
        let kind = self.known_kind(server, &response.type_url)?;
        let (version, rules) = (response.version_info, self.rules());
        let mut judged = response::judge(&kind, &version, &response.resources, rules, |name| {
            self.cache.value(&kind, name)
        });
        judged.report(response.resource_errors);
        let updates = Updates::of(&kind, &judged);
        if !self.answer(server, &kind, &version, response.nonce, &updates) {
            return None;
        }
        self.delete_absent(server, &kind, &judged);
        self.apply(now, server, &kind, &version, judged);
        Some(updates)
    }

    /// A difference came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    ///
    /// Returns what was in it, unless it is not ours to judge.
    pub fn handle_difference(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DeltaDiscoveryResponse,
    ) -> Option<Updates> {
        let kind = self.known_kind(server, &response.type_url)?;
        let rules = self.rules();
        let mut judged = response::judge_difference(&kind, response.resources, rules, |name| {
            self.cache.value(&kind, name)
        });
        judged.report(response.resource_errors);
        let version = response.system_version_info;
        let updates = Updates::of(&kind, &judged);
        if !self.answer(server, &kind, &version, response.nonce, &updates) {
            return None;
        }
        for name in &response.removed_resources {
            let name = Arc::from(rules.names.spelling(name));
            self.remove(server, &kind, &name);
        }
        self.apply(now, server, &kind, &version, judged);
        Some(updates)
    }

    fn rules(&self) -> Rules {
        Rules {
            duplicates: self.config.duplicates,
            names: self.config.names,
        }
    }

    /// The kind of a response, if it was ever subscribed to.
    fn known_kind(&mut self, server: ServerId, type_url: &str) -> Option<Kind> {
        let stream = &mut self.channels.get_mut(server).stream;
        match Kind::from_type_url(type_url) {
            Some((kind, _)) if stream.knows(&kind) => Some(kind),
            // C-78: neither an ACK nor a NACK would be right.
            _ => {
                if stream.handle_unknown_kind() {
                    self.channels.settle_on(&self.cache, server);
                }
                None
            }
        }
    }

    /// Acknowledges or rejects. `false` if the response is a late one, which says nothing (C-160).
    fn answer(
        &mut self,
        server: ServerId,
        kind: &Kind,
        version: &str,
        nonce: String,
        updates: &Updates,
    ) -> bool {
        let stream = &mut self.channels.get_mut(server).stream;
        let nack = updates.rejection.clone();
        let is_timely = stream.handle_response(kind, version.to_owned(), nonce, nack);
        if is_timely {
            self.channels.settle_on(&self.cache, server);
        }
        is_timely
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
            self.cache.handle_unreachable(authority, |kind, name| {
                unreachable(lost, node_id, &cause, kind, name)
            });
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (_, channel) in self.channels.iter_mut() {
            channel.stream.handle_timeout(now);
        }
        let (channels, config) = (&self.channels, &self.config);
        self.cache.handle_timeout(now, |server, kind, name| {
            let seconds = config.resource_timeout.as_secs_f32();
            let text = format!("does not exist: no answer within {seconds} s");
            let server = &channels.get(server).server;
            let reason = Reason::DoesNotExist;
            error(server, &config.node.id, reason, &text, kind, name)
        });
    }

    /// What to do next, and with which server. Poll until `None` after every other call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(ServerId, Transmit)> {
        let cache = &self.cache;
        let (server, transmit) = self.channels.iter_mut().find_map(|(server, channel)| {
            let held = |kind: &Kind, name: &str| cache.version_from(server, kind, name);
            let transmit = channel.stream.poll_transmit(held)?;
            Some((server, transmit))
        })?;
        let asked = match &transmit {
            Transmit::Request(request) => Some((&request.type_url, &request.resource_names)),
            Transmit::Delta(request) => {
                Some((&request.type_url, &request.resource_names_subscribe))
            }
            Transmit::Open | Transmit::Close => None,
        };
        if let Some((type_url, names)) = asked
            && let Some((kind, _)) = Kind::from_type_url(type_url)
        {
            // C-94: the clock of a resource starts when its name has gone out on a live stream.
            let patience = self.config.resource_timeout;
            self.cache.requested(server, &kind, names, now, patience);
        }
        Some((server, transmit))
    }

    /// The next event. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
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
    pub fn cached(&self, kind: &Kind, name: &str) -> Option<Cached<'_>> {
        self.cache.cached(kind, name)
    }

    /// All that is watched.
    pub fn resources(&self) -> impl Iterator<Item = (&Kind, &Arc<str>, Cached<'_>)> {
        self.cache.all()
    }

    /// The version of a kind that was accepted last from a server.
    #[must_use]
    pub fn version(&self, server: ServerId, kind: &Kind) -> &str {
        self.channels.get(server).stream.version(kind)
    }

    fn apply(
        &mut self,
        now: Instant,
        server: ServerId,
        kind: &Kind,
        version: &str,
        judged: Judged,
    ) {
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let (from, node_id) = (&channel.server, &self.config.node.id);
        for Accepted {
            name,
            version,
            api,
            content,
        } in judged.accepted
        {
            // C-80: what was not asked for is not kept.
            if !channel.stream.is_subscribed(kind, &name) {
                continue;
            }
            match content {
                None => {
                    let sender = (server, &from.uri);
                    cache.confirm(sender, kind, &name, (&version, api));
                }
                Some((value, resource)) => {
                    let held = Held {
                        value,
                        resource,
                        version,
                        api,
                        server_uri: Arc::clone(&from.uri),
                        server,
                        updated: now,
                    };
                    cache.accept(server, kind, &name, held);
                }
            }
        }
        for Rejected { invalid, version } in judged.rejected {
            let Some(name) = &invalid.name else { continue };
            let text = format!("is invalid: {}", response::without_name(&invalid));
            let error = error(from, node_id, Reason::Invalid, &text, kind, name);
            cache.reject(kind, name, error, Attempt { version, at: now });
        }
        for (name, status) in judged.reported {
            let error = reported(from, node_id, &status, kind, &name);
            let version = version.to_owned();
            cache.handle_reported(kind, &name, error, Attempt { version, at: now });
        }
    }

    /// Listeners and clusters that a response leaves out are gone (xDS protocol, "Deleting resources"): those that
    /// this server has sent before, and no others (C-103, DEC-7).
    fn delete_absent(&mut self, server: ServerId, kind: &Kind, judged: &Judged) {
        // A resource whose name cannot be read may be any of them.
        if !kind.is_full_state() || judged.has_nameless() {
            return;
        }
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let names = channel.stream.names(kind);
        for name in names.filter(|name| !judged.names(name)) {
            if !cache.is_held_from(server, kind, name) {
                continue;
            }
            if channel.server.ignore_resource_deletion {
                cache.ignore_deletion(kind, name);
                continue;
            }
            let (text, reason) = (
                "does not exist: the server deleted it",
                Reason::DoesNotExist,
            );
            let node_id = &self.config.node.id;
            let error = error(&channel.server, node_id, reason, text, kind, name);
            cache.delete(kind, name, error);
        }
    }

    /// The server says that there is no such resource: it was deleted, or never was (C-278).
    fn remove(&mut self, server: ServerId, kind: &Kind, name: &Arc<str>) {
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        if !channel.stream.is_subscribed(kind, name) {
            return;
        }
        let is_held = cache.value(kind, name).is_some();
        if is_held && channel.server.ignore_resource_deletion {
            return cache.ignore_deletion(kind, name);
        }
        let (from, node_id) = (&channel.server, &self.config.node.id);
        let text = "does not exist: the server says so";
        let error = error(from, node_id, Reason::DoesNotExist, text, kind, name);
        cache.handle_none(kind, name, error);
    }

    fn unreachable(&self, server: ServerId, cause: &str, kind: &Kind, name: &str) -> WatchError {
        let server = &self.channels.get(server).server;
        unreachable(server, &self.config.node.id, cause, kind, name)
    }
}

fn unreachable(server: &Server, node_id: &str, cause: &str, kind: &Kind, name: &str) -> WatchError {
    let text = format!("cannot be had: {cause}");
    error(server, node_id, Reason::Unreachable, &text, kind, name)
}
