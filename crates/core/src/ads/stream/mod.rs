//! One server's side of the client: the stream, its subscriptions, and what is acknowledged.
//!
//! ```text
//!            wanted                 opened                 response
//!   Idle ─────────────► Opening ─────────────► Open ─────────────────► Open, answered
//!    ▲                     │ failed             │ closed                 │ closed
//!    │ time has come       ▼                    ▼ (an error)             ▼ (none)
//!    └──────────────── Backoff ◄────────────────┴────────────────────────┘
//! ```
//! Opening and Open go back to Idle when nothing is wanted any more. Whether something is wanted is looked at when
//! the machine is polled: what is given up and wanted again in one moment disturbs nothing. Open goes by way of Stale to
//! Idle when what was said on the stream has ceased to be true; see [`Stream::supersede`].

mod type_state;

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use oxds_types::{ApiVersion, ResourceType};

use self::type_state::TypeState;
use super::backoff::Backoff;
use super::config::Server;
use crate::snapshot::Protocol;
use crate::time::Instant;

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum AdsTransmit {
    /// Connect and open a stream; then call `handle_opened` or `handle_closed`. A stream is open as soon as requests
    /// can be written to it: a server may send its headers with its first response only (C-64).
    Open,
    /// Write this request to the stream.
    SotwRequest(Box<DiscoveryRequest>),
    /// The same, to a server that is asked for differences.
    DeltaRequest(Box<DeltaDiscoveryRequest>),
    /// Close the stream and the connection, or give up opening them: nothing is wanted any more, or all is to begin anew,
    /// which [`Open`](Self::Open) says then. Their end is not to be reported.
    Close,
}

/// The stream to one server.
#[derive(Debug)]
pub(super) struct Stream {
    node: Node,
    protocol: Protocol,
    version: ApiVersion,
    resource_types: BTreeMap<ResourceType, TypeState>,
    phase: Phase,
    backoff: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is under way.
    Idle,
    /// The driver is connecting.
    Opening {
        since: Instant,
    },
    Open {
        /// When it began to connect.
        since: Instant,
        /// The first request has gone; it alone carries the node.
        introduced: bool,
        /// A response has come: the end of this stream will be no error.
        answered: bool,
    },
    /// Open, and to be closed: the server was told of something held that is so no more.
    Stale,
    Backoff {
        until: Instant,
    },
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Before any response: the server is unreachable, or as good as.
    Unanswered,
    /// After one: servers close streams as they see fit (gRFC A57).
    Answered,
    /// It was not wanted any more.
    Unwanted,
}

impl Stream {
    pub(super) fn new(node: Node, server: &Server) -> Self {
        Self {
            node,
            protocol: server.protocol,
            version: server.version,
            resource_types: BTreeMap::new(),
            phase: Phase::Idle,
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

    pub(super) fn is_wanted(&self) -> bool {
        self.resource_types
            .values()
            .any(|state| !state.names.is_empty())
    }

    /// Whether the kind was ever subscribed to: responses of other kinds are not ours to judge (C-78).
    pub(super) fn knows(&self, resource_type: &ResourceType) -> bool {
        self.resource_types.contains_key(resource_type)
    }

    pub(super) fn is_subscribed(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.resource_types
            .get(resource_type)
            .is_some_and(|state| state.asks_for(name))
    }

    /// All that is subscribed to.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        let resource_types = self.resource_types.iter();
        resource_types.flat_map(|(resource_type, state)| {
            state.names.iter().map(move |name| (resource_type, name))
        })
    }

    /// The version of the kind that was accepted last.
    pub(super) fn version(&self, resource_type: &ResourceType) -> &str {
        self.resource_types
            .get(resource_type)
            .map_or("", |state| &state.version)
    }

    pub(super) fn handle_opened(&mut self) {
        if let Phase::Opening { since } = self.phase {
            self.phase = Phase::Open {
                since,
                introduced: false,
                answered: false,
            };
        }
    }

    /// What it sent is held no more.
    pub(super) fn forget_versions(&mut self) {
        for state in self.resource_types.values_mut() {
            state.version.clear();
        }
    }

    /// Another server's word on the kind was taken. This one is to say again what it has, be it the same: were it told of
    /// what it sent before, it would keep silent, and never take over again. If it was told on this stream already, there
    /// is another.
    pub(super) fn supersede(&mut self, resource_type: &ResourceType) {
        let Some(state) = self.resource_types.get_mut(resource_type) else {
            return;
        };
        if state.supersede() {
            self.phase = Phase::Stale;
        }
    }

    /// Answers a response: an ACK, or a NACK for this reason. `false` if no stream is open, so that the response is
    /// a late one.
    pub(super) fn handle_response(
        &mut self,
        resource_type: &ResourceType,
        version: String,
        nonce: String,
        nack: Option<String>,
    ) -> bool {
        let Phase::Open { answered, .. } = &mut self.phase else {
            return false;
        };
        *answered = true;
        self.backoff.reset();
        if let Some(state) = self.resource_types.get_mut(resource_type) {
            // A NACK repeats the version before (DEC-3).
            if nack.is_none() {
                state.version = version;
            }
            state.superseded = false;
            state.nonce = nonce;
            state.nack = nack;
            state.unanswered = true;
            state.due = true;
        }
        true
    }

    /// A response that is not ours to judge still shows that the server answers. `false` if no stream is open.
    pub(super) fn handle_unknown_type(&mut self) -> bool {
        let Phase::Open { answered, .. } = &mut self.phase else {
            return false;
        };
        *answered = true;
        self.backoff.reset();
        true
    }

    pub(super) fn handle_closed(&mut self, now: Instant, random: u64) -> Ended {
        let (ended, from) = match self.phase {
            // A server that answers and hangs up is not called again at once; one that was there for longer is (C-89).
            Phase::Open {
                answered: true,
                since,
                ..
            } => (Ended::Answered, since),
            Phase::Open { .. } | Phase::Opening { .. } => (Ended::Unanswered, now),
            _ => return Ended::Unwanted,
        };
        let until = now.max(from.min(now) + self.backoff.next(random));
        if until == now {
            self.backoff.reset();
        }
        self.phase = Phase::Backoff { until };
        self.reset_stream();
        ended
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Phase::Backoff { until } = self.phase
            && until <= now
        {
            self.phase = Phase::Idle;
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            // A server is not called again early because someone left and came back meanwhile.
            Phase::Backoff { until } if self.is_wanted() => Some(until),
            _ => None,
        }
    }

    /// `held` are name and version of what is held as this server sent it, by the name that was asked for.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        held: impl Fn(&ResourceType, &str) -> Vec<(String, String)>,
    ) -> Option<AdsTransmit> {
        let wanted = self.is_wanted();
        match &mut self.phase {
            Phase::Idle if wanted => {
                self.phase = Phase::Opening { since: now };
                Some(AdsTransmit::Open)
            }
            Phase::Opening { .. } | Phase::Open { .. } if !wanted => {
                self.phase = Phase::Idle;
                self.reset_stream();
                Some(AdsTransmit::Close)
            }
            Phase::Stale => {
                self.phase = Phase::Idle;
                self.reset_stream();
                Some(AdsTransmit::Close)
            }
            Phase::Open { introduced, .. } => {
                let (resource_type, state) = self
                    .resource_types
                    .iter_mut()
                    .find(|(_, state)| state.is_due())?;
                let node = (!std::mem::replace(introduced, true)).then(|| self.node.clone());
                // Whatever the server calls it in its responses (C-56).
                let type_url = resource_type.type_url_on(self.version);
                Some(match self.protocol {
                    Protocol::Sotw => {
                        AdsTransmit::SotwRequest(Box::new(state.request(type_url, node)))
                    }
                    Protocol::Delta => {
                        let held = |name: &str| held(resource_type, name);
                        let difference = state.difference(type_url, node, held);
                        AdsTransmit::DeltaRequest(Box::new(difference))
                    }
                })
            }
            _ => None,
        }
    }

    fn reset_stream(&mut self) {
        for state in self.resource_types.values_mut() {
            state.reset(self.protocol);
        }
    }
}
