//! Timers of heartbeats for resources that have a TTL (S-49).
//!
//! A client drops such a resource unless it is confirmed in time. There is one timer per distinct TTL, so the cost
//! follows the resources that have one.
//!
//! ```text
//!            half of the TTL                     all sent
//!   ┌────┐ ─────────────────▶ ┌─────┐ ─────────────────────────▶ At (half of the TTL later)
//!   │ At │                    │ Due │
//!   └────┘                    └─────┘ ──▶ Rest (no room for all) ──▶ … ──▶ At
//! ```

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use crate::time::Instant;

/// By TTL: when the resources that have it are confirmed next.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(BTreeMap<Duration, NextHeartbeat>);

#[derive(Debug, PartialEq, Eq)]
enum NextHeartbeat {
    At(Instant),
    /// As soon as no response is outstanding.
    Due,
    /// As soon as no response is outstanding, for resources after those that fitted in the last response.
    Rest(HeartbeatRest),
}

/// Resources that are still to be confirmed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatRest {
    /// The last name that was confirmed.
    pub(crate) after: Arc<str>,
    /// When the first part was sent.
    pub(crate) began: Instant,
}

impl Heartbeats {
    /// A resource with this TTL is sent. It is confirmed after half of the TTL, so that a confirmation may be late by
    /// as much.
    pub(crate) fn start(&mut self, now: Instant, ttl: Duration) {
        let next = NextHeartbeat::At(now + ttl / 2);
        self.0.entry(ttl).or_insert(next);
    }

    /// The client has a resource with this TTL from an earlier stream, and how much of the TTL is left is unknown.
    pub(crate) fn start_due(&mut self, ttl: Duration) {
        self.0.entry(ttl).or_insert(NextHeartbeat::Due);
    }

    /// There was no room for all resources that have this TTL.
    pub(crate) fn continue_with(&mut self, ttl: Duration, rest: HeartbeatRest) {
        self.0.insert(ttl, NextHeartbeat::Rest(rest));
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for next in self.0.values_mut() {
            if matches!(next, NextHeartbeat::At(at) if *at <= now) {
                *next = NextHeartbeat::Due;
            }
        }
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        self.0.values().filter_map(|next| match next {
            NextHeartbeat::At(at) => Some(*at),
            NextHeartbeat::Due | NextHeartbeat::Rest(_) => None,
        })
    }

    /// Distinct TTLs.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the TTLs that are due, with where to go on.
    pub(crate) fn take_due(&mut self) -> Vec<(Duration, Option<HeartbeatRest>)> {
        let mut taken = Vec::new();
        for (ttl, next) in mem::take(&mut self.0) {
            match next {
                NextHeartbeat::At(_) => drop(self.0.insert(ttl, next)),
                NextHeartbeat::Due => taken.push((ttl, None)),
                NextHeartbeat::Rest(rest) => taken.push((ttl, Some(rest))),
            }
        }
        taken
    }
}
