//! The session of one poll subscription: what the client has, and what it is sent next.
//!
//! ```text
//!                 transmit                            poll with the version of the response
//!  ┌───────┐ ──────────────────▶ ┌─────────────┐ ─────────────────────────────────────────▶ ACK ──┐
//!  │ known │                     │ outstanding │   poll with error_detail                         │
//!  └───────┘ ◀──────────────┐    └─────────────┘ ─────────────────────────────────────────▶ NACK ─┤
//!      │                    │           │ poll with another version: the response was lost        │
//!      │ poll with another  │           ▼                                                         │
//!      │ version            │    ┌─────────────┐                                                  │
//!      └────────────────────│──▶ │ new session │                                                  │
//!                           │    └─────────────┘                                                  │
//!                           └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! After a NACK the session is as that of a stream: rejected content is not sent again, by whatever number of polls,
//! until it changes (S-17, S-80).

use std::sync::Arc;
use std::time::Duration;

use oxds_core::session::{Config, Event, Nonce, Session, TransmitResponse};
use oxds_core::snapshot::{Revision, Snapshot};
use oxds_core::time::Instant;
use oxds_types::Version;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Status};

use crate::clients::nack::ReportedNack;
use crate::clients::subscription::PollSubscription;

/// Time without a poll after which a client is removed: twice the longest hold of a poll.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(120);

/// Least time without a poll after which a subscription ends while its client polls others.
const MIN_IDLE: Duration = Duration::from_secs(10);

/// Message of a NACK without `error_detail`.
const UNEXPLAINED: &str = "the client got the response and kept its version, without error_detail";

/// The part of a poll that answers the last response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollReport<'a> {
    /// `version_info`: the version that the client has.
    pub(crate) version: &'a str,
    /// `response_nonce`; empty if the client sends none.
    pub(crate) nonce: &'a str,
    /// `error_detail`: present if the client rejects the last response.
    pub(crate) error: Option<&'a Status>,
}

/// Session of one subscription.
#[derive(Debug)]
pub(super) struct PollSession {
    pub(super) subscription: PollSubscription,
    pub(super) session: Session,
    /// Version that the client reported last.
    reported: String,
    /// Version of the last response that the client accepted. `None` before the first.
    accepted: Option<Version>,
    outstanding: Option<Outstanding>,
    /// Version of the last response, answered or not: also its nonce.
    last: Option<Version>,
    /// Complete state that the client has, if a `Fetch` may request it again.
    state: Option<DiscoveryResponse>,
    /// Number of polls. Only the latest one is sent responses.
    turn: u64,
    last_poll: Instant,
    /// Longest time between two polls. `None` before the second.
    interval: Option<Duration>,
    /// Revision of the last snapshot that the session has seen.
    seen: Revision,
}

/// A response that the client has not answered.
#[derive(Debug)]
struct Outstanding {
    nonce: Nonce,
    version: Version,
    state: Option<DiscoveryResponse>,
}

impl PollSession {
    /// Opens a session for a client that reports this version. Returns `None` for a subscription that a session does
    /// not accept; those of checked requests are accepted.
    pub(super) fn new(
        subscription: PollSubscription,
        reported: &str,
        config: &Arc<Config>,
        now: Instant,
    ) -> Option<Self> {
        let (session, _) = subscription.open(reported, config, now).ok()?;
        Some(Self {
            session,
            subscription,
            reported: reported.to_owned(),
            accepted: None,
            outstanding: None,
            last: None,
            state: None,
            turn: 0,
            last_poll: now,
            interval: None,
            seen: Revision::UNLOADED,
        })
    }

    /// Forgets what the client was sent and what it rejected.
    pub(super) fn restart(&mut self, config: &Arc<Config>, now: Instant) {
        let subscription = self.subscription.clone();
        if let Some(new) = Self::new(subscription, &self.reported, config, now) {
            *self = Self {
                turn: self.turn,
                last_poll: self.last_poll,
                interval: self.interval,
                ..new
            };
        }
    }

    /// Handles the part of a poll that answers the last response, and begins the next turn.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        report: PollReport<'_>,
        config: &Arc<Config>,
    ) -> Vec<Event> {
        let gap = now.saturating_since(self.last_poll);
        self.interval = (self.turn > 0).then(|| self.interval.map_or(gap, |known| known.max(gap)));
        self.turn += 1;
        self.last_poll = now;
        report.version.clone_into(&mut self.reported);
        let (events, is_known) = self.handle_answer(now, report);
        if !is_known {
            self.restart(config, now);
        }
        debug_assert!(self.is_consistent());
        events
    }

    /// Whether the last response is the outstanding one, if any, and a kept state is one that the client has accepted.
    fn is_consistent(&self) -> bool {
        let mut outstanding = self.outstanding.iter();
        outstanding.all(|outstanding| self.last == Some(outstanding.version))
            && (self.state.is_none() || self.accepted.is_some())
    }

    /// Turns the poll into an ACK or a NACK. Returns its events, and whether the client is in the state that the
    /// session knows.
    fn handle_answer(&mut self, now: Instant, report: PollReport<'_>) -> (Vec<Event>, bool) {
        let PollReport {
            version,
            nonce,
            error,
        } = report;
        if self.turn == 1 {
            // The session was opened for this poll.
            return (Vec::new(), true);
        }
        let is_version = |of: Option<Version>| of.is_some_and(|of| *of.as_str() == *version);
        let has_nonce = !nonce.is_empty() && self.last.is_some_and(|last| *last.as_str() == *nonce);
        // xDS protocol, "REST-JSON polling subscriptions": one request is outstanding at a time, so the nonce is
        // optional, and the version tells what the client accepted. `error_detail` alone makes a NACK, as on a stream
        // (S-17).
        match (error, &self.outstanding) {
            // S-15: it answers an older response, so it lost the last one.
            (Some(_), Some(_)) if !nonce.is_empty() && !has_nonce => (Vec::new(), false),
            (Some(error), Some(_)) => (self.answer(now, Some(error.clone())), true),
            // A poll repeats the error until other content comes. It is one NACK.
            (Some(_), None) => (Vec::new(), true),
            (None, Some(last)) if is_version(Some(last.version)) => (self.answer(now, None), true),
            (None, Some(_)) if has_nonce => {
                let error = Status {
                    message: UNEXPLAINED.to_owned(),
                    ..Status::default()
                };
                (self.answer(now, Some(error)), true)
            }
            (None, Some(_)) => (Vec::new(), false),
            (None, None) if version.is_empty() => {
                // xDS protocol, "ACK/NACK and versioning": the first request has an empty version, so the client has
                // restarted, unless its nonce shows that it rejected the first response.
                let is_new = self.last.is_none() && self.accepted.is_none();
                (Vec::new(), self.accepted.is_none() && (is_new || has_nonce))
            }
            (None, None) => (Vec::new(), is_version(self.accepted)),
        }
    }

    /// Answers the outstanding response, if there is one.
    fn answer(&mut self, now: Instant, error: Option<Status>) -> Vec<Event> {
        let Some(outstanding) = self.outstanding.take() else {
            return Vec::new();
        };
        if error.is_none() {
            self.accepted = Some(outstanding.version);
            self.state = outstanding.state;
        }
        let request = DiscoveryRequest {
            response_nonce: outstanding.nonce.to_string(),
            error_detail: error,
            ..self.subscription.request()
        };
        // The session has accepted the same subscription before, so it has no error to report.
        let _ = self.session.handle_request(now, request.into());
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    /// Returns the next response to the poll of this turn, or `None` while the client has what the snapshot serves to
    /// it.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        turn: u64,
        snapshot: &Snapshot,
    ) -> Option<TransmitResponse> {
        // Polls of one client may overlap: the earlier one was given up, or gets its answer by the later one. A session
        // must not see an older snapshot than before.
        if turn != self.turn || self.outstanding.is_some() || snapshot.revision() < self.seen {
            return None;
        }
        self.seen = snapshot.revision();
        while let Some(sent) = self.session.poll_transmit(now, snapshot) {
            self.last = Some(sent.version);
            self.outstanding = Some(Outstanding {
                nonce: sent.nonce,
                version: sent.version,
                state: None,
            });
            if *sent.version.as_str() != *self.reported {
                return Some(sent);
            }
            // The version is a content hash (S-29), so it shows what the client has, whichever server has sent it.
            self.answer(now, None);
        }
        if self.accepted.is_none() {
            let status = self.session.status();
            self.accepted = status.first().and_then(|status| status.acked);
        }
        None
    }

    /// Keeps the response of this turn, so that [`state`](Self::state) returns it once it is accepted.
    pub(super) fn keep(&mut self, turn: u64, response: &DiscoveryResponse) {
        if let Some(outstanding) = self.outstanding.as_mut().filter(|_| turn == self.turn) {
            outstanding.state = Some(response.clone());
        }
    }

    /// Returns the complete state that the client has accepted, if it was kept.
    pub(super) fn state(&self) -> Option<&DiscoveryResponse> {
        self.state.as_ref()
    }

    /// Whether the client has rejected content that is still served.
    pub(super) fn has_nacked(&self) -> bool {
        let status = self.session.status();
        let nacked = |resource_type| {
            self.session
                .nacked_resources(resource_type)
                .next()
                .is_some()
        };
        status
            .iter()
            .any(|status| status.nack.is_some() || nacked(&status.resource_type))
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    pub(super) fn last_poll(&self) -> Instant {
        self.last_poll
    }

    /// Whether the client still polls this subscription: it did so in four of its intervals, or in two minutes.
    pub(super) fn is_polled(&self, now: Instant) -> bool {
        let idle = self.interval.map_or(MAX_IDLE, |interval| {
            interval.saturating_mul(4).clamp(MIN_IDLE, MAX_IDLE)
        });
        now.saturating_since(self.last_poll) < idle
    }

    pub(super) fn reported_nacks(&self, events: &[Event]) -> Vec<ReportedNack> {
        let nacks = events.iter();
        let nacks = nacks.flat_map(|event| ReportedNack::of_event(&self.session, event));
        nacks.collect()
    }
}
