//! Signs of life for resources that have a TTL (S-49).
//!
//! A client drops such a resource unless it hears of it in time. There is one timer per distinct TTL, so the cost
//! follows the resources that have one, and a kind without any costs nothing.
//!
//! A sign of life names the resource and has no body, but for a SotW full state: there, what is left out is removed, so
//! the whole state goes out again. So it does to whoever asked for everything over SotW, whatever the kind: Envoy takes
//! that for the whole (SRDS). And a SotW client that has not accepted a whole response on this stream, as something in
//! each was bad, knows no version by which a sign could be one: what it took of them it is sent again.

use std::{collections::BTreeMap, iter, mem, sync::Arc, time::Duration};

use oxds_types::Version;
use smallvec::SmallVec;

use super::{
    Watch,
    response::{Content, Draft, Kept},
};
use crate::{
    session::frame::Response,
    snapshot::{Protocol, Resource, TypeSnapshot, heartbeat},
    subscription::{Sent, SubscribedName},
    time::Instant,
};

/// By TTL: when the resources that have it are to be confirmed next.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<Duration, Next>);

#[derive(Debug, PartialEq, Eq)]
enum Next {
    At(Instant),
    /// As soon as the client has answered what is outstanding.
    Due,
    /// The same, for what there was no room for.
    Rest(Rest),
}

/// What is still to be confirmed.
#[derive(Debug, PartialEq, Eq)]
struct Rest {
    after: Arc<str>,
    /// When the first part was.
    began: Instant,
}

impl Rest {
    fn of_all(now: Instant) -> Self {
        Self {
            after: Arc::default(),
            began: now,
        }
    }
}

impl Heartbeats {
    /// The client was told of a resource with this TTL. It is confirmed at half its time: an answer that is late by as
    /// much costs nothing yet.
    fn start(&mut self, now: Instant, ttl: Duration) {
        self.0.entry(ttl).or_insert(Next::At(now + ttl / 2));
    }

    /// There was no room for all that has this TTL.
    fn go_on(&mut self, ttl: Duration, rest: Rest) {
        self.0.insert(ttl, Next::Rest(rest));
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
            Next::Due | Next::Rest(_) => None,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The TTLs that are due, and of which of them this is the rest; they are not due any more.
    fn take_due(&mut self) -> Vec<(Duration, Option<Rest>)> {
        let mut taken = Vec::new();
        for (ttl, next) in mem::take(&mut self.0) {
            match next {
                Next::At(_) => drop(self.0.insert(ttl, next)),
                Next::Due => taken.push((ttl, None)),
                Next::Rest(rest) => taken.push((ttl, Some(rest))),
            }
        }
        taken
    }
}

impl Watch {
    /// Whether a sign of life has to be the whole state.
    fn confirms_by_state(&self) -> bool {
        let is_whole = self.resource_type.all_resources_required_in_sotw() || self.all.is_some();
        self.form.protocol == Protocol::Sotw && is_whole
    }

    /// SotW full state: if a sign of life is due, so is the state. The next is counted from here: what the client goes on
    /// with instead of what it refused is in the state, and not among what it is told.
    pub(super) fn owe_heartbeat(&mut self, now: Instant) {
        if !self.form.ttl || !self.confirms_by_state() {
            return;
        }
        for (ttl, _) in self.heartbeats.take_due() {
            if self.mortal(ttl, "").next().is_some() {
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

    /// What the client has that has this TTL and comes after this name, by name.
    fn mortal<'a>(
        &'a self,
        ttl: Duration,
        after: &'a str,
    ) -> Box<dyn Iterator<Item = &'a Arc<Resource>> + 'a> {
        let is_left = move |one: &&Arc<Resource>| one.ttl() == Some(ttl) && **one.name() > *after;
        let rejections = &self.record.rejections;
        match self.all.as_ref().and_then(|all| all.cursor.as_ref()) {
            Some(cursor) => {
                let fine = move |one: &&Arc<Resource>| !rejections.contains_key(one.name());
                let kept = rejections.values().filter_map(|r| r.fallback.resource());
                let kept = kept.filter(is_left);
                let others = cursor.with_ttl(ttl).filter(is_left).filter(fine);
                Box::new(by_name(kept, others))
            }
            None => {
                // What is gone may end, where nothing else can be said of it.
                let there_is = self
                    .subscription
                    .iter()
                    .filter(|named| !matches!(named.sent(), Sent::Absent));
                Box::new(there_is.filter_map(SubscribedName::acked).filter(is_left))
            }
        }
    }

    /// The signs of life that are due, as many as there is room for, if the client has anything that they are about.
    pub(super) fn poll_heartbeat(&mut self, now: Instant, head: &TypeSnapshot) -> Option<Draft> {
        if self.all.as_ref().is_some_and(|all| all.rest.is_some()) {
            return None;
        }
        let mut response = Response::new(self.form.protocol);
        for (ttl, rest) in self.heartbeats.take_due() {
            let Rest { after, began } = rest.unwrap_or_else(|| Rest::of_all(now));
            let before = response.resources;
            match self.confirm(&mut response, ttl, &after, head.body_limit()) {
                Some(after) => self.heartbeats.go_on(ttl, Rest { after, began }),
                None if response.resources > before || !after.is_empty() => {
                    self.heartbeats.start(began, ttl);
                }
                None => {}
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

    /// Adds signs of life of what has this TTL, or, where a sign would not be understood, the thing itself. If there is no
    /// room for all: the last that there was room for.
    fn confirm(
        &self,
        response: &mut Response,
        ttl: Duration,
        after: &str,
        limit: usize,
    ) -> Option<Arc<str>> {
        let mut last = after;
        for resource in self.mortal(ttl, after) {
            let version = match self.form.protocol {
                Protocol::Delta => Some(resource.version()),
                Protocol::Sotw => self.accepted_whole(),
            };
            let element = match version {
                Some(version) => heartbeat(self.form, resource.name(), version, ttl),
                None => resource.element(self.form),
            };
            if !response.has_room_for(element.len(), limit) {
                return Some(last.into());
            }
            response.push_element(element);
            last = resource.name();
        }
        None
    }

    /// SotW: what a client takes for a sign of life has the version of the whole that it accepted last.
    fn accepted_whole(&self) -> Option<Version> {
        let is_sotw = self.form.protocol == Protocol::Sotw;
        self.record.acked.filter(|_| is_sotw)
    }
}

/// Both are in order, and so is what comes of them.
fn by_name<'a>(
    one: impl Iterator<Item = &'a Arc<Resource>>,
    other: impl Iterator<Item = &'a Arc<Resource>>,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if first.name() > second.name() => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
}
