//! The next response to a client that asked for everything.
//!
//! SotW tells it the [`whole`]; delta the [`difference`], in [`parts`] if it is large.

mod difference;
mod parts;
mod step;
mod whole;

use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use self::parts::Rest;
pub(in crate::session) use self::step::Step;
use super::{Draft, Watch, subscribe::Claims};
use crate::{
    session::ordering::Peers,
    snapshot::{Protocol, Resource, ResourceSet, TypeSnapshot},
    time::Instant,
};

/// What a client that asked for everything was sent.
#[derive(Debug, Default)]
pub(in crate::session::watch) struct All {
    /// What it was brought to; `None`: it has to be sent everything.
    pub(in crate::session::watch) cursor: Option<Arc<ResourceSet>>,
    /// What it accepted. Equal to the cursor if it is in sync.
    pub(in crate::session::watch) acked: Option<Arc<ResourceSet>>,
    /// SotW: the version of what was sent, which is the cursor's unless removals are held.
    pub(in crate::session::watch) version: Option<Version>,
    /// Delta: what is left of a response that was split.
    pub(in crate::session::watch) rest: Option<Rest>,
}

impl All {
    /// The client is at `to`, having been told all that there is to tell.
    fn advance(&mut self, to: &Arc<ResourceSet>) {
        let at = |place: &Option<Arc<ResourceSet>>| place.as_ref().map(|c| c.revision());
        // Nothing that it is told lies between: what it accepted, it accepted for this state too.
        if at(&self.acked) == at(&self.cursor) {
            self.acked = Some(Arc::clone(to));
        }
        self.cursor = Some(Arc::clone(to));
    }
}

impl Watch {
    pub(super) fn poll_all(
        &mut self,
        now: Instant,
        all: &mut All,
        head: &TypeSnapshot,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        while all.rest.is_some() {
            if let Some(draft) = self.next_part(all, head) {
                return Some(draft);
            }
        }
        let to = head.collection();
        let step = match &all.cursor {
            Some(cursor) if cursor.revision() == to.revision() => Step::None,
            Some(cursor) => Step::Since(head.difference(cursor)),
            None => Step::Everything,
        };
        if self.is_up_to_date_by_claim(all, &step, to) {
            return None;
        }
        if self.must_wait(now, step.updates(to), head, peers) {
            return None;
        }
        let released = self.release(to, peers);
        let replaced = step.difference().map_or_else(Vec::new, |difference| {
            self.hold_removals(now, difference, peers)
        });
        match self.form.protocol {
            Protocol::Sotw => self.tell_whole(all, head, step, &released, replaced),
            Protocol::Delta => {
                let step = self.resume(now, step, to, peers);
                self.tell_step(all, head, step, &released, replaced)
            }
        }
    }

    /// SotW, a new stream: the version is a hash of all there is, so a client that has this version of the whole needs
    /// no answer (S-24), unless some of it would end there without a sign of life, which is the whole (S-49).
    fn is_up_to_date_by_claim(
        &mut self,
        all: &mut All,
        step: &Step,
        to: &Arc<ResourceSet>,
    ) -> bool {
        let version = to.version();
        let claimed = match (step, &self.claims) {
            (Step::Everything, Some(Claims::Version(claimed))) => {
                version == **claimed && !(self.form.ttl && to.has_ttl())
            }
            _ => false,
        };
        if claimed {
            self.claims = None;
            self.answer_owed = false;
            self.due.clear();
            all.cursor = Some(Arc::clone(to));
            all.acked = Some(Arc::clone(to));
            all.version = Some(version);
            self.record.sent = Some(version);
            self.record.acked = Some(version);
        }
        claimed
    }

    /// The assignments of these resources, if they are clusters.
    pub(super) fn rewarmed<'a>(
        &self,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
    ) -> Vec<Arc<str>> {
        if self.resource_type != ResourceType::CLUSTER {
            return Vec::new();
        }
        resources
            .flat_map(|cluster| cluster.references())
            .filter(|reference| reference.resource_type == ResourceType::ENDPOINT)
            .map(|reference| Arc::clone(&reference.name))
            .collect()
    }
}
