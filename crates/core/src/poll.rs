//! Polling of a REST server: when to send a fetch request, and with which content (xDS protocol, "REST-JSON polling
//! subscriptions").
//!
//! ```text
//!          a request                            answered, failed, or request_timeout is over
//!  Idle ──────────────► Fetching ──────────────────────────────────────────► Waiting
//!                        ▲  ▲ │ other names: the open fetch is given up         │
//!                        │  └─┘                                                 │
//!                        └───────── refresh_delay ± 20 %, or other names ───────┘
//! ```
//! At most one fetch is open at a time (C-269). The requests come from [`ads::Client`](crate::ads::Client) or
//! [`Observer`](crate::observe::Observer), which would write them to a stream. An ACK causes no fetch of its own; its
//! content is that of the next fetch.

use std::time::Duration;

use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};

use crate::backoff::jittered;
use crate::time::Instant;

/// Intervals of a [`RestPoller`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PollTiming {
    /// Delay from an answer to the next fetch. It is changed by up to 20 % each time, so that clients do not poll
    /// together.
    pub refresh_delay: Duration,
    /// Time that an answer may take. Servers may hold a request until something changes (long poll).
    pub request_timeout: Duration,
}

/// Outcome of a fetch.
#[derive(Debug, Clone, PartialEq)]
pub enum PollOutcome {
    /// The server sent a response.
    Response(Box<DiscoveryResponse>),
    /// Nothing changed since the last response.
    Unchanged,
    /// No answer, for this reason.
    Failed(String),
    /// The answer cannot be read, for this reason.
    Unreadable(String),
}

/// State machine that polls one server for one resource type.
#[derive(Debug)]
pub struct RestPoller {
    // Fixed.
    timing: PollTiming,
    node: Node,

    request: Option<DiscoveryRequest>,
    /// Whether a response came for the current names. Before it, a version and "not modified" mean nothing.
    answered: bool,
    state: PollState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollState {
    /// No request is known.
    Idle,
    /// A fetch is due.
    Due,
    /// A fetch is open; it fails at `until`.
    Fetching { until: Instant },
    /// The next fetch is due at `until`.
    Waiting { until: Instant },
}

impl RestPoller {
    /// Makes a poller without a request. Every fetch carries `node`.
    #[must_use]
    pub fn new(timing: PollTiming, node: Node) -> Self {
        Self {
            timing,
            node,
            request: None,
            answered: false,
            state: PollState::Idle,
        }
    }

    /// Sets the request. If its names differ, it is due at once, and an open fetch is given up.
    pub fn handle_request(&mut self, request: DiscoveryRequest) {
        let old = self.request.as_ref();
        if old.is_none_or(|old| old.resource_names != request.resource_names) {
            self.state = PollState::Due;
            // Even if earlier names return: the client dropped the resources of those that it unsubscribed.
            self.answered = false;
        }
        self.request = Some(request);
    }

    /// Handles the outcome of the open fetch. `random` is the jitter of the next one.
    ///
    /// Returns what the outcome means: a response with the version of the last one, for the same names, is
    /// [`Unchanged`](PollOutcome::Unchanged) (C-267); a response without a type URL gets that of the request.
    pub fn handle_outcome(
        &mut self,
        now: Instant,
        outcome: PollOutcome,
        random: u64,
    ) -> PollOutcome {
        let delay = jittered(self.timing.refresh_delay, random);
        self.state = PollState::Waiting { until: now + delay };
        let Some(request) = &self.request else {
            return outcome;
        };
        match outcome {
            // xDS protocol, "REST-JSON polling subscriptions": the version decides whether something changed (C-267).
            PollOutcome::Response(response)
                if self.answered
                    && !response.version_info.is_empty()
                    && response.version_info == request.version_info =>
            {
                PollOutcome::Unchanged
            }
            PollOutcome::Response(mut response) => {
                self.answered = true;
                if response.type_url.is_empty() {
                    response.type_url.clone_from(&request.type_url);
                }
                PollOutcome::Response(response)
            }
            other => other,
        }
    }

    /// Handles the time that [`poll_timeout`](Self::poll_timeout) returned. If an open fetch ends, it has failed.
    pub fn handle_timeout(&mut self, now: Instant, random: u64) -> Option<PollOutcome> {
        match self.state {
            PollState::Waiting { until } if until <= now => {
                self.state = PollState::Due;
                None
            }
            PollState::Fetching { until } if until <= now => {
                let timeout = self.timing.request_timeout;
                let failed = PollOutcome::Failed(format!("no answer within {timeout:?}"));
                Some(self.handle_outcome(now, failed, random))
            }
            _ => None,
        }
    }

    /// Returns the request of a fetch to start now; an open fetch is given up. Poll it after every other call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<DiscoveryRequest> {
        let current = self.request.as_ref()?;
        if self.state != PollState::Due {
            return None;
        }
        self.state = PollState::Fetching {
            until: now + self.timing.request_timeout,
        };
        let mut request = current.clone();
        request.node = Some(self.node.clone());
        // xDS protocol, "REST-JSON polling subscriptions": without a stream, a nonce has no meaning.
        request.response_nonce.clear();
        if !self.answered {
            // The version belongs to other names. With it, a server without a newer version would not send these.
            request.version_info.clear();
        }
        Some(request)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            PollState::Fetching { until } | PollState::Waiting { until } => Some(until),
            PollState::Idle | PollState::Due => None,
        }
    }
}
