//! Timers of heartbeats for resources that have a TTL (S-49).
//!
//! A client drops such a resource unless it is confirmed in time. There is one timer per distinct TTL, so the cost
//! follows the resources that have one.
//!
//! ```text
//!            half of the TTL                     all sent
//!   ┌────┐ ─────────────────▶ ┌─────┐ ─────────────────────────▶ At (half of the TTL later)
//!   │ At │                    │ Due │
//!   └────┘                    └─────┘ ──▶ Due (no room for all: the rest) ──▶ … ──▶ At
//! ```

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use oxds_types::Version;

use super::{client::ClientState, context::TypeContext};
use crate::{
    response::ResponseBuilder,
    snapshot::{Resource, heartbeat},
    time::Instant,
};

/// By TTL: when the resources that have it are confirmed next.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(BTreeMap<Duration, NextHeartbeat>);

#[derive(Debug, PartialEq, Eq)]
enum NextHeartbeat {
    At(Instant),
    /// As soon as no response is outstanding; for the rest of the resources, if not all fitted in the last response.
    Due(Option<HeartbeatRest>),
}

/// Resources that are still to be confirmed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatRest {
    /// The last name that was confirmed.
    after: Arc<str>,
    /// When the first part was sent.
    began: Instant,
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
        self.0.entry(ttl).or_insert(NextHeartbeat::Due(None));
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for next in self.0.values_mut() {
            if matches!(next, NextHeartbeat::At(at) if *at <= now) {
                *next = NextHeartbeat::Due(None);
            }
        }
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        self.0.values().filter_map(|next| match next {
            NextHeartbeat::At(at) => Some(*at),
            NextHeartbeat::Due(_) => None,
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
                NextHeartbeat::Due(rest) => taken.push((ttl, rest)),
            }
        }
        taken
    }

    /// Writes the heartbeats that are due, as many as there is room for. `accepted`: SotW version of the response
    /// that the client accepted last.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        context: &TypeContext,
        client: &ClientState,
        accepted: Option<Version>,
        response: &mut ResponseBuilder,
        limit: usize,
    ) {
        // xDS protocol, "TTL": a heartbeat has the name and the TTL of the resource, and no content (S-49).
        let element = |resource: &Resource, ttl: Duration| -> Bytes {
            let delta = context.is_delta().then(|| resource.version());
            match delta.or(accepted) {
                Some(version) => heartbeat(context.form, resource.name(), version, ttl),
                None => resource.element(context.form),
            }
        };
        for (ttl, rest) in self.take_due() {
            let (after, began) = match rest {
                Some(rest) => (rest.after, rest.began),
                None => (Arc::default(), now),
            };
            let mut last = &after;
            let mut resources = client.with_ttl(ttl, &after);
            let is_cut = resources.any(|resource| {
                let fits = response.try_push_element(element(resource, ttl), limit);
                if fits {
                    last = resource.name();
                }
                !fits
            });
            if is_cut {
                let after = Arc::clone(last);
                let rest = NextHeartbeat::Due(Some(HeartbeatRest { after, began }));
                self.0.insert(ttl, rest);
            } else if !last.is_empty() {
                self.start(began, ttl);
            }
        }
    }
}
