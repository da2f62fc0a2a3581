//! Signs of life for resources that have a TTL (S-49).
//!
//! A client drops such a resource unless it hears of it in time. There is one timer per distinct TTL, so the cost
//! follows the resources that have one, and a kind without any costs nothing.
//!
//! A sign of life names the resource and has no body, but for a SotW full state: there, what is left out is removed, so
//! the whole state goes out again. So it does to whoever asked for everything over SotW, whatever the kind: Envoy takes
//! that for the whole (SRDS). And a SotW client that has not accepted a whole response on this stream, as something in
//! each was bad, knows no version by which a sign could be one: what it took of them it is sent again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use oxds_types::Version;
use smallvec::SmallVec;

use super::{
    Watch,
    response::{Content, Draft, Kept},
};
use crate::{
    session::frame::Response,
    snapshot::{Protocol, Published, Resource, heartbeat},
    subscription::{Named, Sent},
    time::Instant,
};

/// By TTL: when the resources that have it are to be confirmed next.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<Duration, Next>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    At(Instant),
    /// As soon as the client has answered what is outstanding.
    Due,
}

impl Heartbeats {
    /// The client was told of a resource with this TTL. It is confirmed at half its time: an answer that is late by as
    /// much costs nothing yet.
    fn start(&mut self, now: Instant, ttl: Duration) {
        self.0.entry(ttl).or_insert(Next::At(now + ttl / 2));
    }

    /// Not all that has this TTL could be confirmed.
    fn start_early(&mut self, now: Instant, ttl: Duration) {
        self.0.insert(ttl, Next::At(now + ttl / 4));
    }

    /// The client was told long ago: nobody knows how much is left of it.
    fn start_late(&mut self, ttl: Duration) {
        self.0.entry(ttl).or_insert(Next::Due);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        for next in self.0.values_mut() {
            if matches!(next, Next::At(at) if *at <= now) {
                *next = Next::Due;
            }
        }
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        self.0.values().filter_map(|next| match next {
            Next::At(at) => Some(*at),
            Next::Due => None,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The TTLs that are due; they are not any more.
    fn take_due(&mut self) -> Vec<Duration> {
        let due = self.0.iter().filter(|(_, next)| **next == Next::Due);
        let due: Vec<Duration> = due.map(|(ttl, _)| *ttl).collect();
        self.0.retain(|_, next| *next != Next::Due);
        due
    }
}

impl Watch {
    /// Whether a sign of life has to be the whole state.
    fn confirms_by_state(&self) -> bool {
        let is_whole = self.kind.is_full_state() || self.all.is_some();
        self.form.protocol == Protocol::Sotw && is_whole
    }

    /// SotW full state: if a sign of life is due, so is the state. The next is counted from here: what the client goes on
    /// with instead of what it refused is in the state, and not among what it is told.
    pub(super) fn owe_heartbeat(&mut self, now: Instant) {
        if !self.form.ttl || !self.confirms_by_state() {
            return;
        }
        for ttl in self.heartbeats.take_due() {
            if self.mortal(ttl).next().is_some() {
                self.answer_owed = true;
                self.heartbeats.start(now, ttl);
            }
        }
    }

    /// The client is told this: from now on it counts.
    pub(super) fn start_heartbeats(&mut self, now: Instant, content: &Content) {
        if !self.form.ttl {
            return;
        }
        let told = match content {
            Content::All { to, extra, .. } => {
                to.ttls().for_each(|ttl| self.heartbeats.start(now, ttl));
                &extra[..]
            }
            Content::Named(told) => told,
        };
        let ttls = told.iter().filter_map(|told| told.resource()?.ttl());
        ttls.for_each(|ttl| self.heartbeats.start(now, ttl));
    }

    /// The client has resources with these TTLs from an earlier stream, and has counted since.
    pub(super) fn resume_heartbeats(&mut self, ttls: impl IntoIterator<Item = Duration>) {
        if self.form.ttl {
            let heartbeats = &mut self.heartbeats;
            ttls.into_iter().for_each(|ttl| heartbeats.start_late(ttl));
        }
    }

    /// What the client has that has this TTL.
    fn mortal(&self, ttl: Duration) -> Box<dyn Iterator<Item = &Arc<Resource>> + '_> {
        let rejections = &self.record.rejections;
        let kept = rejections.values().filter_map(|r| r.fallback.resource());
        match self.all.as_ref().and_then(|all| all.cursor.as_ref()) {
            Some(cursor) => {
                let fine =
                    move |resource: &&Arc<Resource>| !rejections.contains_key(resource.name());
                let kept = kept.filter(move |resource| resource.ttl() == Some(ttl));
                Box::new(cursor.with_ttl(ttl).filter(fine).chain(kept))
            }
            None => {
                // What is gone may end, where nothing else can be said of it.
                let there_is = self
                    .subscription
                    .iter()
                    .filter(|named| !matches!(named.sent(), Sent::Absent));
                let has = there_is.filter_map(Named::acked);
                Box::new(has.filter(move |resource| resource.ttl() == Some(ttl)))
            }
        }
    }

    /// The sign of life that is due, if the client has anything that it is about. One message is enough for some 40,000
    /// names.
    pub(super) fn poll_heartbeat(&mut self, now: Instant, head: &Published) -> Option<Draft> {
        if self.all.as_ref().is_some_and(|all| all.rest.is_some()) {
            return None;
        }
        let mut response = Response::new(self.form.protocol);
        for ttl in self.heartbeats.take_due() {
            let before = response.resources;
            let all = self.confirm(&mut response, ttl, head.body_limit());
            match response.resources > before {
                _ if !all => self.heartbeats.start_early(now, ttl),
                true => self.heartbeats.start(now, ttl),
                false => {}
            }
        }
        let version = self.accepted_whole().unwrap_or(head.collection().version());
        (!response.is_empty()).then(|| Draft {
            response,
            version,
            content: Content::Named(SmallVec::new()),
            kept: Kept::default(),
            rewarm: Vec::new(),
        })
    }

    /// Adds signs of life of what has this TTL, or, where a sign would not be understood, as much of it as there is room
    /// for. Whether that is all of it.
    fn confirm(&self, response: &mut Response, ttl: Duration, limit: usize) -> bool {
        let whole = self.accepted_whole();
        for resource in self.mortal(ttl) {
            let version = match self.form.protocol {
                Protocol::Delta => Some(resource.version()),
                Protocol::Sotw => whole,
            };
            let element = match version {
                Some(version) => heartbeat(self.form, resource.name(), version, ttl),
                None => resource.element(self.form),
            };
            if version.is_none() && !response.has_room_for(element.len(), limit) {
                return false;
            }
            response.push_element(element);
        }
        true
    }

    /// SotW: what a client takes for a sign of life has the version of the whole that it accepted last.
    fn accepted_whole(&self) -> Option<Version> {
        let is_sotw = self.form.protocol == Protocol::Sotw;
        self.record.acked.filter(|_| is_sotw)
    }
}
