//! The client's machine: subscriptions to one xDS server over SotW ADS, and what came of them.
//!
//! Two parts, so that fallback between servers (gRFC A71) finds its place: `stream` is what one server has been
//! asked and told; `cache` is what is held of each resource, whoever sent it. [`Client`] runs the one on the other.
//!
//! ```text
//!  watch, unwatch ─► ┌────────┐ ─► poll_transmit: open, request, close
//!                    │ Client │
//!  handle_opened ──► │ stream │ ─► poll_event: resource changed, ambient error
//!  handle_response ► │ cache  │
//!  handle_closed ──► └────────┘ ─► poll_timeout ─► handle_timeout
//! ```
//!
//! Rules: xDS protocol, "ACK/NACK and versioning", "How the client specifies what resources to return", "Knowing when
//! a requested resource does not exist"; gRFC A27, A46, A53, A57, A88.

mod backoff;
mod cache;
mod error;
mod response;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::google::rpc::Code;
use oxds_types::Kind;
use oxds_types::discovery::{DiscoveryResponse, Node, Status};

pub use backoff::Backoff;
pub use cache::{CacheState, Cached, Held};
pub use error::{Reason, WatchError};
pub use stream::Transmit;

use crate::resource::Resource;
use crate::time::Instant;
use cache::Cache;
use response::Judged;
use stream::{Ended, Stream};

/// How a client behaves towards its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The server, for error texts.
    pub server_uri: Arc<str>,
    /// Who asks.
    pub node: Node,
    /// How long a server may be silent about a resource before it counts as missing: 15 s (gRFC A27).
    pub resource_timeout: Duration,
    /// Deleted listeners and clusters stay in use (gRFC A53).
    pub ignore_resource_deletion: bool,
    /// What to make of a response that holds a name twice: accepted by default (DEC-4).
    pub duplicates: Duplicates,
}

/// What to make of a response that holds a name twice. The protocol forbids it; gRPC does not look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Nothing: duplicates are not looked for.
    #[default]
    Accept,
    /// The response is rejected; the first one counts.
    Reject,
}

impl Config {
    /// gRPC's defaults.
    #[must_use]
    pub fn new(server_uri: impl Into<Arc<str>>, node: Node) -> Self {
        Self {
            server_uri: server_uri.into(),
            node,
            resource_timeout: Duration::from_secs(15),
            ignore_resource_deletion: false,
            duplicates: Duplicates::default(),
        }
    }
}

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
    stream: Stream,
    cache: Cache,
    /// The server could not be reached, and has not answered since.
    unreachable: Option<Arc<str>>,
}

impl Client {
    /// A client that watches nothing, so that it neither connects nor asks (C-63).
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            stream: Stream::new(config.node.clone()),
            config,
            cache: Cache::default(),
            unreachable: None,
        }
    }

    /// Adds a watcher of a resource. Returns what it is to be told at once; the rest comes as events to all watchers
    /// of the name.
    pub fn watch(&mut self, kind: &Kind, name: &Arc<str>) -> Vec<Event> {
        if self.cache.watch(kind, name) {
            self.stream.subscribe(kind, Arc::clone(name));
            // C-108: whoever comes while the server is lost is not left in silence.
            return match &self.unreachable {
                Some(cause) => vec![Event::Changed {
                    kind: kind.clone(),
                    name: Arc::clone(name),
                    resource: Err(self.unreachable(cause, kind, name)),
                }],
                None => Vec::new(),
            };
        }
        let current = self.cache.current(kind, name);
        match (&self.unreachable, current.is_empty()) {
            (Some(cause), true) => vec![Event::Changed {
                kind: kind.clone(),
                name: Arc::clone(name),
                resource: Err(self.unreachable(cause, kind, name)),
            }],
            _ => current,
        }
    }

    /// Removes a watcher that [`watch`](Self::watch) added.
    pub fn unwatch(&mut self, kind: &Kind, name: &str) {
        if self.cache.unwatch(kind, name) {
            self.stream.unsubscribe(kind, name);
        }
    }

    /// Asks another server from now on. Versions and nonces are a server's own, so none goes to the next one (C-73);
    /// what is held stays in use until that one replaces it, and is not deleted by its absence there (DEC-7).
    ///
    /// If anything is watched, the next transmit is [`Transmit::Open`], in place of the stream before.
    pub fn turn_to(&mut self, server_uri: impl Into<Arc<str>>) {
        self.config.server_uri = server_uri.into();
        self.unreachable = None;
        self.cache.handle_closed();
        self.stream = Stream::new(self.config.node.clone());
        for (kind, name, _) in self.cache.all() {
            self.stream.subscribe(kind, Arc::clone(name));
        }
    }

    /// Requests can be written from now on.
    pub fn handle_opened(&mut self) {
        self.stream.handle_opened();
    }

    /// A response came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    pub fn handle_response(&mut self, now: Instant, response: DiscoveryResponse) {
        let kind = match Kind::from_type_url(&response.type_url) {
            Some((kind, _)) if self.stream.knows(&kind) => kind,
            // C-78: neither an ACK nor a NACK would be right.
            _ => {
                if self.stream.handle_unknown_kind() {
                    self.unreachable = None;
                }
                return;
            }
        };
        let duplicates = self.config.duplicates;
        let mut judged = response::judge(&kind, &response.resources, duplicates, |name| {
            self.cache.value(&kind, name)
        });
        judged.report(response.resource_errors);
        let nack = judged.nack(&kind);
        if !self
            .stream
            .handle_response(&kind, response.version_info.clone(), response.nonce, nack)
        {
            return;
        }
        self.unreachable = None;
        self.delete_absent(&kind, &judged);
        self.apply(now, &kind, &response.version_info, judged);
    }

    /// The stream could not be opened, or ended, for this reason. `random` spreads the next attempt.
    pub fn handle_closed(&mut self, now: Instant, cause: &str, random: u64) {
        let ended = self.stream.handle_closed(now, random);
        self.cache.handle_closed();
        if ended == Ended::Unanswered {
            let cause: Arc<str> = cause.into();
            self.unreachable = Some(Arc::clone(&cause));
            let config = &self.config;
            self.cache
                .handle_unreachable(|kind, name| unreachable(config, &cause, kind, name));
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.stream.handle_timeout(now);
        let config = &self.config;
        self.cache.handle_timeout(now, |kind, name| {
            let seconds = config.resource_timeout.as_secs_f32();
            let text = format!("does not exist: no answer within {seconds} s");
            error(config, Reason::DoesNotExist, &text, kind, name)
        });
    }

    /// What to do next. Poll until `None` after every other call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.stream.poll_transmit()?;
        if let Transmit::Request(request) = &transmit
            && let Some((kind, _)) = Kind::from_type_url(&request.type_url)
        {
            // C-94: the clock of a resource starts when its name has gone out on a live stream.
            let patience = self.config.resource_timeout;
            self.cache
                .requested(&kind, &request.resource_names, now, patience);
        }
        Some(transmit)
    }

    /// The next event. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.cache.poll_event()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.stream
            .poll_timeout()
            .into_iter()
            .chain(self.cache.poll_timeout())
            .min()
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

    /// The version of a kind that was accepted last.
    #[must_use]
    pub fn version(&self, kind: &Kind) -> &str {
        self.stream.version(kind)
    }

    fn apply(&mut self, now: Instant, kind: &Kind, version: &str, judged: Judged) {
        for (name, accepted) in judged.accepted {
            // C-80: what was not asked for is not kept.
            if !self.stream.is_subscribed(kind, &name) {
                continue;
            }
            match accepted {
                None => self
                    .cache
                    .confirm(kind, &name, version, &self.config.server_uri),
                Some((value, resource)) => self.cache.accept(
                    kind,
                    &name,
                    Held {
                        value,
                        resource,
                        version: version.to_owned(),
                        server_uri: Arc::clone(&self.config.server_uri),
                        updated: now,
                    },
                ),
            }
        }
        for invalid in judged.rejected {
            let Some(name) = &invalid.name else { continue };
            let text = format!("is invalid: {}", response::without_name(&invalid));
            let error = error(&self.config, Reason::Invalid, &text, kind, name);
            self.cache.reject(kind, name, error);
        }
        for (name, status) in judged.reported {
            let error = reported(&self.config, &status, kind, &name);
            self.cache.handle_reported(kind, &name, error);
        }
    }

    /// Listeners and clusters that a response leaves out are gone (xDS protocol, "Deleting resources"): those that
    /// this server has sent before, and no others (C-103, DEC-7).
    fn delete_absent(&mut self, kind: &Kind, judged: &Judged) {
        // A resource whose name cannot be read may be any of them.
        if !kind.is_full_state() || judged.rejected.iter().any(|invalid| invalid.name.is_none()) {
            return;
        }
        let absent = self
            .stream
            .names(kind)
            .filter(|name| !judged.names(name) && self.is_held_from_this_server(kind, name))
            .cloned();
        for name in absent.collect::<Vec<_>>() {
            if self.config.ignore_resource_deletion {
                self.cache.ignore_deletion(kind, &name);
                continue;
            }
            let text = "does not exist: the server deleted it";
            let error = error(&self.config, Reason::DoesNotExist, text, kind, &name);
            self.cache.delete(kind, &name, error);
        }
    }

    fn is_held_from_this_server(&self, kind: &Kind, name: &str) -> bool {
        let held = self.cache.cached(kind, name).and_then(|cached| cached.held);
        held.is_some_and(|held| held.server_uri == self.config.server_uri)
    }

    fn unreachable(&self, cause: &str, kind: &Kind, name: &str) -> WatchError {
        unreachable(&self.config, cause, kind, name)
    }
}

fn unreachable(config: &Config, cause: &str, kind: &Kind, name: &str) -> WatchError {
    let text = format!("cannot be had: {cause}");
    error(config, Reason::Unreachable, &text, kind, name)
}

/// What a server says of a resource instead of sending it (gRFC A88).
fn reported(config: &Config, status: &Status, kind: &Kind, name: &str) -> WatchError {
    let code = Code::try_from(status.code).unwrap_or(Code::Unknown);
    let reason = match code {
        Code::NotFound => Reason::DoesNotExist,
        Code::PermissionDenied => Reason::Denied,
        _ => Reason::Unreachable,
    };
    let text = format!(
        "was answered with {}: {}",
        code.as_str_name(),
        status.message
    );
    error(config, reason, &text, kind, name)
}

/// Every text says what, whose, from where, and for whom (C-118).
fn error(config: &Config, reason: Reason, what: &str, kind: &Kind, name: &str) -> WatchError {
    let Config {
        server_uri, node, ..
    } = config;
    WatchError::new(
        reason,
        format!(
            "{} {name:?} {what} [xDS server {server_uri}, node {:?}]",
            kind.message(),
            node.id
        ),
    )
}
