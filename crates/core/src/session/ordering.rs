//! Make before break, across the kinds of one stream (S-51 … S-55).
//!
//! Additions go in the order of the kinds, so that nothing arrives before what it depends on; removals go in reverse,
//! so that nothing goes while something refers to it. Neither needs a table of kinds: a resource carries its
//! references, kinds are ordered, and every [`Watch`] knows what its client has.
//!
//! ```text
//!   an update waits while                              a removal waits while
//!   something it refers to, of an earlier kind,        a copy that the client has, but that is about to change
//!   is there to be had and asked for,                  or to go, refers to it
//!   but not accepted yet
//! ```
//!
//! Both are bounded by [`Config::hold`](super::Config::hold): then it goes anyway, and is reported (S-53). Where
//! something has a TTL, updates wait no longer than the client can do without a sign of life (S-49). A kind that
//! the client did not ask for delays nothing (S-55); a client that asks by name decides its own order, as gRPC does.

use std::{sync::Arc, time::Duration};

use oxds_types::{Reference, ResourceType};

use super::{held::WaitsFor, watch::Watch};
use crate::{
    snapshot::{Resource, Snapshot},
    time::Instant,
};

/// How long something has been held, and whether that was long enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    since: Instant,
    over: bool,
    /// It ends by then, however long others last.
    at_most: Duration,
}

impl Patience {
    pub(super) fn since(since: Instant) -> Self {
        Self {
            since,
            over: false,
            at_most: Duration::MAX,
        }
    }

    pub(super) fn at_most(self, at_most: Duration) -> Self {
        Self { at_most, ..self }
    }

    /// When it began.
    pub(super) fn began(self) -> Instant {
        self.since
    }

    pub(super) fn is_over(self) -> bool {
        self.over
    }

    /// Whether it ended just now.
    pub(super) fn ends(&mut self, now: Instant, hold: Duration) -> bool {
        let ends = !self.over && now >= self.since + hold.min(self.at_most);
        self.over |= ends;
        ends
    }

    pub(super) fn deadline(self, hold: Duration) -> Option<Instant> {
        (!self.over).then(|| self.since + hold.min(self.at_most))
    }
}

/// The other kinds of a stream, as one of them sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peers<'a> {
    /// Those that are sent before it.
    pub(super) before: &'a [Watch],
    /// Those that are sent after it.
    pub(super) after: &'a [Watch],
    pub(super) snapshot: &'a Snapshot,
    /// Whether other kinds may still be asked for on this stream.
    pub(super) aggregated: bool,
}

impl Peers<'_> {
    /// Whether something that the client has and will not keep refers to this resource.
    pub(super) fn need(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.user(resource_type, name).is_some()
    }

    /// What that is, or may be.
    pub(super) fn user(&self, resource_type: &ResourceType, name: &str) -> Option<WaitsFor> {
        let mut others = self.before.iter().chain(self.after);
        others.find_map(|watch| {
            let head = watch.head(self.snapshot);
            if watch.is_unanswered(head) {
                return Some(WaitsFor::resource_type(&watch.resource_type));
            }
            let user = watch.user(resource_type, name, head)?;
            Some(WaitsFor::resource(&watch.resource_type, user.name()))
        })
    }

    /// As [`need`](Self::need), of what the client asked for by name.
    pub(super) fn need_by_name(&self, resource_type: &ResourceType, name: &str) -> bool {
        let mut others = self
            .before
            .iter()
            .chain(self.after)
            .filter(|watch| watch.is_by_name());
        others.any(|watch| {
            watch
                .user(resource_type, name, watch.head(self.snapshot))
                .is_some()
        })
    }

    /// Whether anything that the client asked for by name and has accepted refers to this resource, and will.
    pub(super) fn keep_by_name(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.before
            .iter()
            .chain(self.after)
            .any(|watch| watch.accepted_by_name(resource_type, name))
    }

    /// Clusters that the client is not told yet to be gone.
    pub(super) fn parting_clusters(&self) -> Option<WaitsFor> {
        let clusters = self.earlier(&ResourceType::CLUSTER)?;
        clusters
            .parts_with_something()
            .then(|| WaitsFor::resource_type(&clusters.resource_type))
    }

    /// Whether all that may refer to clusters has been asked for, and answered.
    pub(super) fn users_are_answered(&self) -> bool {
        self.unanswered_user().is_none()
    }

    /// What may refer to clusters, and has been asked for and not answered.
    pub(super) fn unanswered_user(&self) -> Option<WaitsFor> {
        let mut after = self.after.iter();
        let unanswered = after.find(|watch| watch.is_unanswered(watch.head(self.snapshot)));
        unanswered.map(|watch| WaitsFor::resource_type(&watch.resource_type))
    }

    /// Whether something that may refer to clusters has been asked for, or never will be.
    pub(super) fn users_are_asked_for(&self) -> bool {
        !self.aggregated
            || self
                .after
                .iter()
                .any(|watch| watch.resource_type >= ResourceType::LISTENER)
    }

    /// Whether all earlier kinds are where they should be, so that nothing can be missing.
    pub(super) fn are_settled(&self) -> bool {
        self.before
            .iter()
            .all(|watch| watch.is_settled(watch.head(self.snapshot)))
    }

    /// Whether the client lacks something that `resource` depends on and that it will have.
    pub(super) fn lack(&self, resource: &Resource) -> bool {
        self.lacking(resource).is_some()
    }

    /// What that is.
    pub(super) fn lacking(&self, resource: &Resource) -> Option<WaitsFor> {
        let needed =
            |reference: &Reference| WaitsFor::resource(&reference.resource_type, &reference.name);
        resource.references().iter().find_map(|reference| {
            // What the client asks for by name, it asks for in its own order: it does not wait for what it did not ask
            // for.
            let watch = self.earlier(&reference.resource_type)?;
            if !watch.covers(&reference.name) {
                return None;
            }
            let there_is = watch
                .head(self.snapshot)
                .collection()
                .get(&reference.name)?;
            if watch.lacks(&reference.name) {
                return Some(needed(reference));
            }
            let mut further = there_is.references().iter();
            further
                .find(|next| self.lack_next(watch, there_is, next))
                .map(needed)
        })
    }

    /// One step further: the assignment of a cluster that a route names. Without it the cluster does not warm.
    fn lack_next(&self, watch: &Watch, needed: &Arc<Resource>, next: &Reference) -> bool {
        let served = self
            .snapshot
            .of_type_in(&next.resource_type, watch.form.api);
        if served.collection().get(&next.name).is_none() {
            return false;
        }
        match self.earlier(&next.resource_type) {
            Some(further)
                if further.covers(&next.name) && !watch.lets_go_before(needed, &next.name) =>
            {
                further.lacks(&next.name)
            }
            // Not asked for yet, or not any more by then; but the client has just learnt of the cluster, or is about to: then it will ask.
            _ => next.resource_type == ResourceType::ENDPOINT && watch.is_news(needed),
        }
    }

    fn earlier(&self, resource_type: &ResourceType) -> Option<&Watch> {
        self.before
            .iter()
            .find(|watch| watch.resource_type == *resource_type)
    }
}
