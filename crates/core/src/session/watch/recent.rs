//! What the client was told of clusters so lately that what it asks for may not show it yet.
//!
//! A client asks for the assignments of the clusters that it has. So between its learning of a cluster and its next
//! request for assignments, what it asks for is not what it will ask for: it may still ask for one that the cluster
//! needs, or let go of one that no cluster needs any more, and of what it has of that.

use std::{collections::BTreeMap, sync::Arc};

use oxds_types::{Reference, ResourceType};

use super::{
    Watch,
    response::{Content, Told},
    wildcard::Step,
};
use crate::{
    snapshot::{Resource, ResourceChange},
    subscription::SubscribedName,
    time::Instant,
};

/// What was lately, and until when that is.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Clusters that it has accepted.
    names: BTreeMap<Arc<str>, Instant>,
    /// On a new stream, nobody knows which of all were new to it.
    all: Option<Instant>,
    /// Assignments that a cluster needed which is gone, or needs others; no end before the client has answered.
    let_go: BTreeMap<Arc<str>, Option<Instant>>,
}

impl Recent {
    /// The client is being told this.
    pub(super) fn told(&mut self, step: &Step) {
        if let Step::Since(step) = step {
            let ended = step
                .changes()
                .iter()
                .flat_map(ResourceChange::needs_no_more);
            self.let_go(ended);
        }
    }

    /// The client is being told that what needed these is gone.
    pub(super) fn let_go<'a>(&mut self, needed: impl Iterator<Item = &'a Reference>) {
        let assignments = needed.filter(|needed| needed.resource_type == ResourceType::ENDPOINT);
        self.let_go
            .extend(assignments.map(|needed| (Arc::clone(&needed.name), None)));
    }

    /// The client has answered all that it was told.
    pub(super) fn answered(&mut self, until: Instant) {
        for end in self.let_go.values_mut() {
            end.get_or_insert(until);
        }
    }

    /// The client accepted this.
    pub(super) fn note(&mut self, step: &Step, extra: &[Told], until: Instant) {
        match step {
            Step::None => {}
            Step::Since(step) => {
                let new = step.changes().iter().filter(|change| change.needs_more());
                self.names
                    .extend(new.map(|new| (Arc::clone(&new.name), until)));
            }
            Step::Everything => self.all = Some(until),
        }
        let told = extra.iter().filter_map(Told::resource);
        self.names
            .extend(told.map(|resource| (Arc::clone(resource.name()), until)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.all.is_none()
    }

    /// How many names it keeps.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.let_go.len()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.names.retain(|_, until| *until > now);
        self.all = self.all.filter(|until| *until > now);
        self.let_go
            .retain(|_, until| until.is_none_or(|until| until > now));
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let names = self.names.values().copied();
        let let_go = self.let_go.values().copied().flatten();
        names.chain(self.all).chain(let_go)
    }
}

impl Watch {
    /// Whether the client has not accepted this version of a cluster, but will.
    fn will_learn_of(&self, cluster: &Arc<Resource>) -> bool {
        let name = cluster.name();
        let accepted = match &self.all {
            Some(all) => all.acked.as_ref().and_then(|acked| acked.get(name)),
            None => self.subscription.get(name).and_then(SubscribedName::acked),
        };
        accepted != Some(cluster) && !self.record.rejections.contains_key(name)
    }

    /// Whether the client learnt of this cluster so lately that it may not have asked for its assignment yet, or has
    /// still to learn of it.
    pub(in crate::session) fn is_news(&self, cluster: &Arc<Resource>) -> bool {
        let recent = &self.recent;
        self.will_learn_of(cluster)
            || recent.all.is_some()
            || recent.names.contains_key(cluster.name())
    }

    /// Whether the client, before it learns of this cluster, lets go of an assignment that it needs: another cluster
    /// that needed it has gone. (Or perhaps it does not: then that other one is not the only one.)
    pub(in crate::session) fn lets_go_before(
        &self,
        cluster: &Arc<Resource>,
        assignment: &str,
    ) -> bool {
        let is_everything = |content: &Content| {
            matches!(
                content,
                Content::All {
                    step: Step::Everything,
                    ..
                }
            )
        };
        let recent = &self.recent;
        let lets_go = recent.let_go.contains_key(assignment)
            || recent.all.is_some()
            || self.outstanding.iter().any(|o| is_everything(&o.content));
        lets_go && self.will_learn_of(cluster)
    }
}
