//! State that a reconnecting client brings from an earlier stream (S-42, S-52).
//!
//! Before the later types are answered, the server does not know which copies refer to removed resources. Over SotW,
//! where absence means removal, the whole first answer waits. Over delta the client reports names and versions, and
//! only the removals wait.
//!
//! ```text
//!   first request:   version_info (SotW)          initial_resource_versions (delta)
//!                          │                               │ gone here
//!                          ▼                               ▼
//!   first answer waits for the later types      pending removals ──▶ no user any more, or time over: due
//! ```

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use super::{
    context::TypeContext,
    gate::{PeerType, Peers},
    hold_timer::{HoldTimer, ReconnectTimers},
};
use crate::{
    session::{Config, request::RequestedNames},
    subscription::SubscriptionChange,
    time::Instant,
};

/// Resources of an earlier stream that are gone, and whose removal is still to be sent.
#[derive(Debug)]
struct PendingRemovals {
    names: BTreeSet<Arc<str>>,
    timers: ReconnectTimers,
}

/// Facts about earlier streams, from the first request of a type. Resets with the stream.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    /// SotW: `version_info` of the first request, one version for the whole. Used for the first answer only.
    pub(crate) whole_version: Option<String>,
    /// Delta: `initial_resource_versions`, by name. Used for the first answer only.
    pub(crate) versions: Option<HashMap<String, String>>,
    /// The first request reports no version: the client never accepted a response of this type.
    pub(crate) fresh: bool,
    /// Types whose absence means removal over SotW: names of which the client may have a copy from an earlier stream,
    /// whatever it answers on this one.
    pub(crate) inherited: BTreeSet<Arc<str>>,
    /// Present while the first answer waits, since it would remove clusters.
    first_answer: Option<ReconnectTimers>,
    removals: Option<Box<PendingRemovals>>,
}

// Initial versions.
impl Resumed {
    /// Takes the versions that the first request reports.
    pub(crate) fn begin(&mut self, names: RequestedNames) {
        match names {
            RequestedNames::Sotw { version, .. } => {
                self.whole_version = Some(version).filter(|version| !version.is_empty());
            }
            RequestedNames::Delta {
                initial_versions, ..
            } => self.versions = Some(initial_versions).filter(|versions| !versions.is_empty()),
        }
        self.fresh = self.whole_version.is_none() && self.versions.is_none();
    }

    /// Whether the invariants hold; for debug assertions.
    pub(crate) fn is_consistent(&self, context: &TypeContext) -> bool {
        let (has_whole, has_versions) = (self.whole_version.is_some(), self.versions.is_some());
        let removals = self.removals.as_ref();
        let of_protocol = if context.is_delta() {
            !has_whole && self.first_answer.is_none()
        } else {
            !has_versions && removals.is_none()
        };
        of_protocol
            && !(self.fresh && (has_whole || has_versions))
            && removals.is_none_or(|removals| !removals.names.is_empty())
    }

    pub(crate) fn forget_versions(&mut self) {
        self.whole_version = None;
        self.versions = None;
    }

    /// The version that the client reports for this name does not count: its cluster changed (S-54).
    pub(crate) fn distrust(&mut self, name: &str) {
        let version = self.versions.as_mut().and_then(|all| all.get_mut(name));
        version.into_iter().for_each(String::clear);
    }

    /// A request changed the subscription that the reported versions were about.
    pub(crate) fn note_change(&mut self, change: &SubscriptionChange) {
        if change.wildcard.is_some() {
            self.forget_versions();
        }
        if let Some(versions) = &mut self.versions {
            let names = change.added.iter().chain(&change.repeated);
            let names = names.chain(&change.dropped);
            names.for_each(|name| drop(versions.remove(&**name)));
        }
    }
}

// What waits.
impl Resumed {
    /// SotW: whether the first answer waits, as it would remove a cluster. `missing`: a subscribed name is gone; it
    /// waits for the types that may use clusters to be answered. `removes`: a cluster that the client has is gone; it
    /// waits for those types to be subscribed, as removals wait by themselves then.
    pub(crate) fn first_answer_waits<T: PeerType>(
        &mut self,
        now: Instant,
        missing: bool,
        removes: bool,
        peers: &Peers<'_, T>,
    ) -> bool {
        let timers = self.first_answer.unwrap_or(ReconnectTimers::start(now));
        // xDS protocol, "Resource hints": a SotW answer without a cluster deletes the client's copy, which its routes
        // may use.
        let waits = (missing || removes) && waits_for_subscription(timers, peers)
            || missing && peers.unanswered_user().is_some() && !timers.to_answer.expired;
        self.first_answer = waits.then_some(timers);
        waits
    }

    pub(crate) fn is_first_answer_held(&self) -> bool {
        self.first_answer.is_some()
    }

    /// Timer of the first answer while it waits, unless it expired.
    pub(crate) fn first_answer(&self) -> Option<HoldTimer> {
        self.first_answer?.running()
    }

    /// Delta: the client reported resources that are gone. Returns those whose removal is due at once.
    pub(crate) fn remove<T: PeerType>(
        &mut self,
        now: Instant,
        context: &TypeContext,
        gone: BTreeSet<Arc<str>>,
        peers: &Peers<'_, T>,
    ) -> BTreeSet<Arc<str>> {
        if gone.is_empty() {
            return gone;
        }
        self.removals = Some(Box::new(PendingRemovals {
            names: gone,
            timers: ReconnectTimers::start(now),
        }));
        self.due_removals(context, peers)
    }

    /// Takes the pending removals that no copy at the client can need any more.
    pub(crate) fn due_removals<T: PeerType>(
        &mut self,
        context: &TypeContext,
        peers: &Peers<'_, T>,
    ) -> BTreeSet<Arc<str>> {
        let Some(mut removals) = self.removals.take() else {
            return BTreeSet::new();
        };
        let timers = removals.timers;
        let is_used = |name: &Arc<str>| {
            !timers.to_answer.expired && peers.user(&context.resource_type, name).is_some()
        };
        // S-52: a client subscribes to clusters first, and its routes are known only after it subscribed to them.
        let is_early = context.is_cluster() && waits_for_subscription(timers, peers);
        let (stay, mut due) = mem::take(&mut removals.names)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|name| is_early || is_used(name));
        // A resource that came back was sent like any other.
        due.retain(|name| peers.head.collection().get(name).is_none());
        removals.names = stay;
        self.removals = Some(removals).filter(|removals| !removals.names.is_empty());
        due
    }

    pub(crate) fn has_removals(&self) -> bool {
        self.removals.is_some()
    }

    /// Whether the removal of this name is still to be sent.
    pub(crate) fn has_removal(&self, name: &str) -> bool {
        let removals = self.removals.as_ref();
        removals.is_some_and(|removals| removals.names.contains(name))
    }

    /// Pending removals and their timer, unless it expired.
    pub(crate) fn removals(&self) -> Option<(&BTreeSet<Arc<str>>, HoldTimer)> {
        let removals = self.removals.as_ref()?;
        Some((&removals.names, removals.timers.running()?))
    }

    /// Updates the timers. Returns whether the first answer waited too long, and the removals that did.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        config: &Config,
    ) -> (bool, impl Iterator<Item = &Arc<str>>) {
        let expire = |timers: &mut ReconnectTimers| timers.expire(now, config);
        let first = self.first_answer.as_mut().is_some_and(expire);
        let removals = self.removals.as_mut();
        let expired =
            removals.and_then(|removals| expire(&mut removals.timers).then_some(&removals.names));
        (first, expired.into_iter().flatten())
    }

    pub(crate) fn deadlines(&self, config: &Config) -> impl Iterator<Item = Instant> {
        let removals = self.removals.as_ref().map(|removals| removals.timers);
        let timers = self.first_answer.into_iter().chain(removals);
        timers.flat_map(|timers| timers.deadlines(config))
    }

    /// Names that memory grows with.
    pub(crate) fn footprint(&self) -> usize {
        let removals = self.removals.as_ref();
        self.inherited.len() + removals.map_or(0, |removals| removals.names.len())
    }
}

fn waits_for_subscription<T: PeerType>(timers: ReconnectTimers, peers: &Peers<'_, T>) -> bool {
    !peers.users_are_subscribed() && !timers.to_subscribe.expired
}
