//! Delta: what changed.

use std::{collections::HashMap, sync::Arc};

use super::{
    All, Step,
    parts::{Rest, push_removals},
};
use crate::{
    session::{
        frame::Response,
        ordering::Peers,
        watch::{
            Watch,
            response::{Content, Draft, Kept, Told},
            subscribe::Claims,
        },
    },
    snapshot::{Body, Difference, Protocol, Resource, ResourceSet, TypeSnapshot},
    time::Instant,
};

impl Watch {
    /// Delta, the first answer: what differs from what the client says it has (S-42).
    pub(super) fn resume(
        &mut self,
        now: Instant,
        step: Step,
        to: &ResourceSet,
        peers: &Peers<'_>,
    ) -> Step {
        let (Step::Everything, Some(claims)) = (&step, self.claims.take()) else {
            return step;
        };
        let Claims::Resources(claimed) = claims else {
            return step;
        };
        self.due.extend(differing(&claimed, to));
        let gone = claimed.into_keys().filter(|name| to.get(name).is_none());
        self.part_with(now, gone.map(Arc::from).collect(), to, peers);
        self.resume_heartbeats(to.ttls());
        Step::None
    }

    /// Delta: what changed since the cursor, and names that are owed besides.
    pub(super) fn tell_step(
        &mut self,
        all: &mut All,
        head: &TypeSnapshot,
        step: Step,
        released: &[Arc<str>],
        replaced: Vec<Arc<Resource>>,
    ) -> Option<Draft> {
        let to = head.collection();
        let mut response = Response::new(Protocol::Delta);
        let mut rewarm = Vec::new();
        // What did not fit, and goes with a later response.
        let mut later = Vec::new();
        match &step {
            // A client that has come back, and is told by name what differs, be it in later parts.
            Step::None if self.record.sent.is_none() => {
                rewarm = self.rewarmed(self.due.iter().filter_map(|name| to.get(name)));
            }
            Step::None => {}
            Step::Since(difference) => {
                let held = &self.held;
                self.due
                    .retain(|name| !step.has(name) || held.contains_key(name));
                let limit = head.body_limit();
                let upserts = difference.upserts(self.form);
                let removals = self.shared_removals(difference);
                all.rest = Rest::begin(&mut response, upserts, removals, &step, limit);
                if removals.is_none() {
                    let names = self.own_removals(difference);
                    push_removals(&mut response, names, &mut later, limit);
                }
                rewarm = self.rewarmed(step.updates(to).take(response.resources));
            }
            Step::Everything => {
                let limit = head.body_limit();
                all.rest = Rest::begin(&mut response, &head.full(self.form), None, &step, limit);
                // What exists comes with the rest (S-28); what does not has to be said.
                self.due.retain(|name| to.get(name).is_none());
            }
        }
        let part = 0..response.resources;
        let at = later.len();
        push_removals(
            &mut response,
            released.iter(),
            &mut later,
            head.body_limit(),
        );
        let went = released.iter().filter(|name| !later[at..].contains(name));
        let mut extra: Vec<Told> = went.map(|name| Told::Absent(Arc::clone(name))).collect();
        self.push_due(&mut response, &mut extra, head);
        self.due.extend(later);
        rewarm.extend(self.rewarmed(extra.iter().filter_map(Told::resource)));

        if response.is_empty() && !self.answer_owed {
            all.advance(to);
            return None;
        }
        all.cursor = Some(Arc::clone(to));
        let completes = all.rest.is_none() && self.due.is_empty();
        let content = Content::All {
            to: Arc::clone(to),
            completes,
            step,
            part,
            extra,
        };
        Some(Draft {
            response,
            version: to.version(),
            content,
            kept: Kept {
                held: Vec::new(),
                replaced,
            },
            rewarm,
        })
    }

    /// The removals of a step in the form that all sessions share; `None` if some of them are held here.
    fn shared_removals<'a>(&self, difference: &'a Difference) -> Option<&'a Arc<[Body]>> {
        let mut changes = difference.changes().iter();
        let held =
            changes.any(|change| change.new.is_none() && self.held.contains_key(&change.name));
        (!held).then(|| difference.removals())
    }

    /// The removals of a step but for those that are held here.
    fn own_removals<'a>(
        &'a self,
        difference: &'a Difference,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let changes = difference.changes().iter();
        let removals = changes.filter(|change| change.new.is_none());
        let names = removals.map(|change| &change.name);
        names.filter(|name| !self.held.contains_key(*name))
    }

    /// RequestedNames to be sent whatever the cursor says (S-35, S-39), up to the message limit.
    fn push_due(&mut self, response: &mut Response, extra: &mut Vec<Told>, head: &TypeSnapshot) {
        while let Some(name) = self.due.pop_first() {
            if extra.iter().any(|told| *told.name() == name) {
                continue;
            }
            match head.collection().get(&name) {
                Some(resource) => {
                    let element = resource.element(self.form);
                    if !response.has_room_for(element.len(), head.body_limit()) {
                        self.due.insert(name);
                        return;
                    }
                    response.push_element(element);
                    extra.push(Told::Resource(Arc::clone(resource)));
                }
                None => {
                    if !response.has_room_to_remove(&name, head.body_limit()) {
                        self.due.insert(name);
                        return;
                    }
                    self.held.remove(&name);
                    response.push_removal(&name);
                    extra.push(Told::Absent(name));
                }
            }
        }
    }

    /// Delta: the next part of a response that was split (S-50).
    pub(super) fn next_part(&mut self, all: &mut All, head: &TypeSnapshot) -> Option<Draft> {
        let (Some(to), Some(rest)) = (all.cursor.clone(), &mut all.rest) else {
            all.rest = None;
            return None;
        };
        let mut response = Response::new(Protocol::Delta);
        let sent = rest.resources;
        rest.push_next(&mut response, head.collection());
        let step = rest.step.clone();
        let is_last = rest.parts.is_empty();
        if is_last {
            all.rest = None;
        }
        // All that was left are removals of what is there again.
        if response.is_empty() {
            return None;
        }
        let completes = is_last && self.due.is_empty();
        let version = to.version();
        // Also on a new stream: a cluster of an earlier part may have had the assignment sent already.
        let part = sent..sent + response.resources;
        let rewarm = self.rewarmed(step.part(&part, &to));
        let content = Content::All {
            to,
            completes,
            step,
            part,
            extra: Vec::new(),
        };
        Some(Draft {
            response,
            version,
            content,
            kept: Kept::default(),
            rewarm,
        })
    }
}

/// The names of which the client does not have what there is.
fn differing(claimed: &HashMap<String, String>, to: &ResourceSet) -> Vec<Arc<str>> {
    let has = |resource: &Resource| {
        claimed
            .get(&**resource.name())
            .is_some_and(|version| resource.version() == **version)
    };
    let differing = to.iter().filter(|resource| !has(resource));
    differing.map(|r| Arc::clone(r.name())).collect()
}
