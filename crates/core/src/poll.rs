//! When a server without a stream is asked, and what: REST discovery (xDS protocol, "REST-JSON polling subscriptions").
//!
//! ```text
//!          a question                       answered, failed, or request_timeout is over
//!  Idle ──────────────► Asking ──────────────────────────────────────────► Waiting
//!                        ▲  ▲ │ other names: what is asked is given up        │
//!                        │  └─┘                                               │
//!                        └──────── refresh_delay ± a fifth, or other names ───┘
//! ```
//! One question is open at a time (C-269). What to ask comes from [`ads::Client`](crate::ads::Client) or
//! [`Observer`](crate::observe::Observer), as the request that each would write to a stream; an acknowledgement is no
//! question of its own, but says what the next one is.

use std::time::Duration;

use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};

use crate::ads::jittered;
use crate::time::Instant;

/// The pace of a [`RestPoller`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PollTiming {
    /// From an answer to the next question; changed by up to a fifth each time, so that clients do not ask together.
    pub refresh_delay: Duration,
    /// How long an answer may take. Servers may hold a question until something changes (long poll).
    pub request_timeout: Duration,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum PollOutcome {
    /// An answer.
    Response(Box<DiscoveryResponse>),
    /// The server has nothing new.
    Unchanged,
    /// There was no answer, for this reason.
    Failed(String),
    /// There was one, but it is none that can be read, for this reason.
    Unreadable(String),
}

/// The machine: one server, one kind.
#[derive(Debug)]
pub struct RestPoller {
    // Fixed.
    pace: PollTiming,
    node: Node,

    question: Option<DiscoveryRequest>,
    /// The names of the last question that was answered: for other names, nobody has said that nothing changed.
    answered: Option<Vec<String>>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is nothing to ask.
    Idle,
    /// A question is due.
    Due,
    /// The answer must come before this.
    Asking { until: Instant },
    /// The next question is due at this time.
    Waiting { until: Instant },
}

impl RestPoller {
    /// A machine that has nothing to ask. Every question says who asks.
    #[must_use]
    pub fn new(pace: PollTiming, node: Node) -> Self {
        Self {
            pace,
            node,
            question: None,
            answered: None,
            phase: Phase::Idle,
        }
    }

    /// What to ask from now on. Other names are asked for at once, even if a question is open: it is given up.
    pub fn handle_request(&mut self, request: DiscoveryRequest) {
        let asked = self.question.as_ref();
        if asked.is_none_or(|asked| asked.resource_names != request.resource_names) {
            self.phase = Phase::Due;
        }
        self.question = Some(request);
    }

    /// The open question was answered, or failed. `random` spreads the next one. Returns what that means: an answer
    /// that brings the version of the last one, for the same names, brings nothing (C-267); one that does not say of
    /// which type it is, is of the type that was asked for.
    pub fn handle_outcome(
        &mut self,
        now: Instant,
        answer: PollOutcome,
        random: u64,
    ) -> PollOutcome {
        let delay = jittered(self.pace.refresh_delay, random);
        self.phase = Phase::Waiting { until: now + delay };
        let Some(question) = &self.question else {
            return answer;
        };
        let same_names = self.answered.as_ref() == Some(&question.resource_names);
        match answer {
            PollOutcome::Response(response)
                if same_names
                    && !response.version_info.is_empty()
                    && response.version_info == question.version_info =>
            {
                PollOutcome::Unchanged
            }
            PollOutcome::Response(mut response) => {
                self.answered = Some(question.resource_names.clone());
                if response.type_url.is_empty() {
                    response.type_url.clone_from(&question.type_url);
                }
                PollOutcome::Response(response)
            }
            other => other,
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come. If that is the end of a question, it failed.
    pub fn handle_timeout(&mut self, now: Instant, random: u64) -> Option<PollOutcome> {
        match self.phase {
            Phase::Waiting { until } if until <= now => {
                self.phase = Phase::Due;
                None
            }
            Phase::Asking { until } if until <= now => {
                let patience = self.pace.request_timeout;
                let failed = PollOutcome::Failed(format!("no answer within {patience:?}"));
                Some(self.handle_outcome(now, failed, random))
            }
            _ => None,
        }
    }

    /// A question to put now; one that is open is given up. RestPoller after every other call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<DiscoveryRequest> {
        let question = self.question.as_ref()?;
        if self.phase != Phase::Due {
            return None;
        }
        self.phase = Phase::Asking {
            until: now + self.pace.request_timeout,
        };
        let mut request = question.clone();
        request.node = Some(self.node.clone());
        // There is no stream that it could be of.
        request.response_nonce.clear();
        if self.answered.as_ref() != Some(&question.resource_names) {
            // The version is that of other names: a server that has no newer one must not keep silent about these.
            request.version_info.clear();
        }
        Some(request)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Asking { until } | Phase::Waiting { until } => Some(until),
            Phase::Idle | Phase::Due => None,
        }
    }
}
