//! Stream to one server: its state, its subscriptions, and what was acknowledged on it.
//!
//! ```text
//!            subscribed             opened                 response
//!   Idle ─────────────► Opening ─────────────► Open ─────────────────► Open, answered
//!    ▲                     │ failed             │ closed                 │ closed
//!    │ backoff is over     ▼                    ▼ (an error)             ▼ (no error)
//!    └──────────────── Backoff ◄────────────────┴────────────────────────┘
//! ```
//! Opening and Open return to Idle when the last subscription ends. The machine checks for subscriptions only when it
//! is polled, so a name that is unsubscribed and subscribed again in between causes no reconnect. Open goes to Stale,
//! and from there to Idle, when a version that was sent on the stream no longer holds; see [`AdsStream::supersede`].

mod type_state;

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node, VersionedTypeUrl};
use oxds_types::{ApiVersion, ResourceType};

use self::type_state::TypeState;
use super::config::{ClientConfig, Server};
use crate::backoff::Backoff;
use crate::protocol::Protocol;
use crate::time::Instant;

/// Next action of the driver on the stream to one server.
#[derive(Debug, Clone, PartialEq)]
pub enum AdsTransmit {
    /// Connect and open a stream; then call `handle_opened` or `handle_closed`.
    ///
    /// A stream counts as open as soon as requests can be written to it: a server may delay its headers until its first
    /// response (C-64).
    Open,
    /// Write this request to the SotW stream.
    SotwRequest(Box<DiscoveryRequest>),
    /// Write this request to the delta stream.
    DeltaRequest(Box<DeltaDiscoveryRequest>),
    /// Close the stream and the connection, or give up opening them. Do not report their end to the client.
    ///
    /// Either nothing is subscribed any more, or the stream must start again, and [`Open`](Self::Open) follows.
    Close,
}

/// Stream to one server.
#[derive(Debug)]
pub(super) struct AdsStream {
    node: Node,
    versions: Arc<[VersionedTypeUrl]>,
    protocol: Protocol,
    version: ApiVersion,
    resource_types: BTreeMap<ResourceType, TypeState>,
    state: StreamState,
    backoff: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    /// No stream, and no attempt to open one.
    Idle,
    /// The driver is connecting.
    Opening {
        /// Start of the attempt.
        since: Instant,
    },
    /// Requests can be written.
    Open {
        /// Start of the attempt that opened the stream.
        since: Instant,
        /// Whether the first request was sent; only that one carries the node.
        node_sent: bool,
        /// Whether a response arrived; then the end of the stream is not an error.
        answered: bool,
    },
    /// Open, but must be closed: a version that was sent to the server no longer holds.
    Stale,
    /// No attempt is made before `until`.
    Backoff { until: Instant },
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Before any response: the server counts as unreachable.
    Unanswered,
    /// After a response: servers may close streams at any time (gRFC A57).
    Answered,
    /// Nothing was subscribed on it any more.
    Unwanted,
}

impl AdsStream {
    pub(super) fn new(config: &ClientConfig, server: &Server) -> Self {
        Self {
            node: config.node.clone(),
            versions: Arc::clone(&config.versioned_type_urls),
            protocol: server.protocol,
            version: server.version,
            resource_types: BTreeMap::new(),
            state: StreamState::Idle,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn subscribe(&mut self, resource_type: &ResourceType, name: Arc<str>) {
        let state = self
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        state.subscribe(name, self.protocol);
    }

    pub(super) fn unsubscribe(&mut self, resource_type: &ResourceType, name: &str) {
        if let Some(state) = self.resource_types.get_mut(resource_type) {
            state.unsubscribe(name, self.protocol);
        }
    }

    /// Returns whether any name is subscribed.
    pub(super) fn is_wanted(&self) -> bool {
        self.resource_types
            .values()
            .any(|state| !state.names.is_empty())
    }

    /// Returns whether the type was ever subscribed. Responses of other types are neither ACKed nor NACKed (C-78).
    pub(super) fn knows(&self, resource_type: &ResourceType) -> bool {
        self.resource_types.contains_key(resource_type)
    }

    /// Returns whether a response of the type came on this stream.
    pub(super) fn is_answered(&self, resource_type: &ResourceType) -> bool {
        self.resource_types
            .get(resource_type)
            .is_some_and(|state| state.is_answered)
    }

    pub(super) fn is_subscribed(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.resource_types
            .get(resource_type)
            .is_some_and(|state| state.is_subscribed(name))
    }

    /// Returns every subscribed name.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        let resource_types = self.resource_types.iter();
        resource_types.flat_map(|(resource_type, state)| {
            state.names.iter().map(move |name| (resource_type, name))
        })
    }

    /// Whether the invariants hold; for debug assertions.
    pub(super) fn is_consistent(&self) -> bool {
        let is_open = matches!(self.state, StreamState::Open { .. } | StreamState::Stale);
        let mut states = self.resource_types.values();
        states.all(|state| state.is_consistent(self.protocol, is_open))
    }

    /// Returns whether the name itself is subscribed.
    pub(super) fn has_name(&self, resource_type: &ResourceType, name: &str) -> bool {
        let state = self.resource_types.get(resource_type);
        state.is_some_and(|state| state.names.contains(name))
    }

    /// Returns the version of the type that was accepted last; empty before the first.
    pub(super) fn version(&self, resource_type: &ResourceType) -> &str {
        self.resource_types
            .get(resource_type)
            .map_or("", |state| &state.version)
    }

    pub(super) fn handle_opened(&mut self) {
        if let StreamState::Opening { since } = self.state {
            self.state = StreamState::Open {
                since,
                node_sent: false,
                answered: false,
            };
        }
    }

    /// Another server's resources of the type replaced those of this server.
    ///
    /// This server must send its resources again when it returns, even if they did not change. If a request named their
    /// version, the server would send nothing, and would never take over again. If the current stream already named
    /// that version, the stream is replaced by a new one.
    pub(super) fn supersede(&mut self, resource_type: &ResourceType) {
        let Some(state) = self.resource_types.get_mut(resource_type) else {
            return;
        };
        if state.supersede() {
            self.state = StreamState::Stale;
        }
    }

    /// Queues the ACK of a response, or a NACK with this reason. Returns `false` if no stream is open: then the
    /// response is a late one, of a stream that has ended.
    pub(super) fn handle_response(
        &mut self,
        resource_type: &ResourceType,
        version: String,
        nonce: String,
        nack: Option<String>,
    ) -> bool {
        if !self.mark_answered() {
            return false;
        }
        if let Some(state) = self.resource_types.get_mut(resource_type) {
            // xDS protocol, "ACK/NACK and versioning": a NACK repeats the version before it (C-68).
            if nack.is_none() {
                state.accept(version);
            }
            state.superseded = false;
            state.is_answered = true;
            // xDS protocol, "ACK/NACK and versioning": the nonce names the response that is
            // acknowledged, whether it is accepted or not.
            state.nonce = nonce;
            state.nack = nack;
            state.ack_pending = true;
            state.request_due = true;
        }
        true
    }

    /// Handles a response of a type that was never subscribed: the server answers, but nothing is acknowledged (C-78).
    /// Returns `false` if no stream is open.
    pub(super) fn handle_unknown_type(&mut self) -> bool {
        self.mark_answered()
    }

    fn mark_answered(&mut self) -> bool {
        let StreamState::Open { answered, .. } = &mut self.state else {
            return false;
        };
        *answered = true;
        // gRFC A57: the backoff starts again once the server has answered.
        self.backoff.reset();
        true
    }

    pub(super) fn handle_closed(&mut self, now: Instant, random: u64) -> StreamEnd {
        let (end, from) = match self.state {
            // gRPC counts the backoff from the start of the attempt: a server that answers and closes at once is not
            // called again at once, one whose stream lasted longer is (C-89).
            StreamState::Open {
                answered: true,
                since,
                ..
            } => (StreamEnd::Answered, since),
            StreamState::Open { .. } | StreamState::Opening { .. } => (StreamEnd::Unanswered, now),
            _ => return StreamEnd::Unwanted,
        };
        let until = now.max(from.min(now) + self.backoff.next(random));
        if until == now {
            self.backoff.reset();
        }
        self.state = StreamState::Backoff { until };
        self.reset_types();
        end
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let StreamState::Backoff { until } = self.state
            && until <= now
        {
            self.state = StreamState::Idle;
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            // The backoff lasts even if all names are unsubscribed and subscribed again before its end.
            StreamState::Backoff { until } if self.is_wanted() => Some(until),
            _ => None,
        }
    }

    /// Returns the next action of the driver.
    ///
    /// `cached` returns name and version of each cached resource that this server sent, for a subscribed name.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        cached: impl Fn(&ResourceType, &str) -> Vec<(String, String)>,
    ) -> Option<AdsTransmit> {
        let wanted = self.is_wanted();
        if !wanted {
            return self.end();
        }
        match &mut self.state {
            StreamState::Idle => {
                self.state = StreamState::Opening { since: now };
                Some(AdsTransmit::Open)
            }
            StreamState::Stale => Some(self.close()),
            StreamState::Open { node_sent, .. } => {
                let (resource_type, state) = self
                    .resource_types
                    .iter_mut()
                    .find(|(_, state)| state.has_request())?;
                // xDS protocol, "ACK/NACK and versioning": the first request on a stream carries the node. Later ones
                // need not.
                let node = (!std::mem::replace(node_sent, true)).then(|| self.node.clone());
                // gRFC A30: requests keep the configured version, whichever version the server answers in (C-56).
                let type_url = resource_type.type_url_on(self.version);
                let versions = if state.is_first() {
                    of_type(&self.versions, resource_type)
                } else {
                    Vec::new()
                };
                Some(match self.protocol {
                    Protocol::Sotw => {
                        let mut request = state.sotw_request(type_url, node);
                        request.versioned_type_urls = versions;
                        AdsTransmit::SotwRequest(Box::new(request))
                    }
                    Protocol::Delta => {
                        let cached = |name: &str| cached(resource_type, name);
                        let mut request = state.delta_request(type_url, node, cached);
                        request.versioned_type_urls = versions;
                        AdsTransmit::DeltaRequest(Box::new(request))
                    }
                })
            }
            _ => None,
        }
    }

    /// Closes a stream without subscriptions. The client has dropped the server's resources, so their versions do not
    /// hold on a later stream.
    fn end(&mut self) -> Option<AdsTransmit> {
        self.resource_types.clear();
        match self.state {
            StreamState::Idle | StreamState::Backoff { .. } => None,
            StreamState::Opening { .. } | StreamState::Open { .. } | StreamState::Stale => {
                Some(self.close())
            }
        }
    }

    fn close(&mut self) -> AdsTransmit {
        self.state = StreamState::Idle;
        self.reset_types();
        AdsTransmit::Close
    }

    fn reset_types(&mut self) {
        for state in self.resource_types.values_mut() {
            state.reset(self.protocol);
        }
    }
}

/// Returns the versions of all majors of a resource.
fn of_type(versions: &[VersionedTypeUrl], resource_type: &ResourceType) -> Vec<VersionedTypeUrl> {
    let is_of_type = |versioned: &&VersionedTypeUrl| {
        ResourceType::from_type_url(&versioned.type_url)
            .is_some_and(|(known, _)| known == *resource_type)
    };
    versions.iter().filter(is_of_type).cloned().collect()
}
