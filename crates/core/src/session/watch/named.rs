//! The next response to a client that asked by name.

use std::{collections::BTreeSet, mem, sync::Arc};

use oxds_types::Fingerprint;

use super::{Claims, Content, Draft, Kept, Told, Watch};
use crate::{
    session::{Refusal, frame::Response, ordering::Peers},
    snapshot::{Collection, Protocol, Published, Resource, has_aliases, nothing_by_alias},
    subscription::{NameState, Sent},
    time::Instant,
};

/// What a due name needs.
enum Verdict {
    /// Nothing: the client was told what there is.
    Settled,
    /// The resource.
    Send(Arc<Resource>),
    /// To be told that what it has does not exist any more.
    Gone(Arc<Resource>),
    /// To be told that there is no such thing (S-34).
    Missing,
}

impl Verdict {
    fn of(state: &NameState, there_is: Option<&Arc<Resource>>) -> Self {
        match (&state.sent, there_is) {
            // Also what was sent and rejected: the same content is not sent again (S-17, S-46).
            (Sent::Resource(sent), Some(resource)) if sent == resource => Self::Settled,
            (_, Some(resource)) => Self::Send(Arc::clone(resource)),
            (Sent::Resource(sent), None) => Self::Gone(Arc::clone(sent)),
            (Sent::Absent, None) => Self::Settled,
            (Sent::Nothing, None) => Self::Missing,
        }
    }
}

impl Watch {
    pub(super) fn poll_named(
        &mut self,
        now: Instant,
        head: &Published,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        self.note_changes(head);
        self.expand_collections(head.collection());
        self.believe_claims(head.collection());
        if self.form.protocol == Protocol::Sotw && self.kind.is_full_state() {
            self.tell_all_named(now, head, peers)
        } else {
            self.tell_due(now, head, peers)
        }
    }

    /// Adds the names that changed since the last look to those that are due: by the log if it is shorter than the
    /// subscription, else all of them.
    fn note_changes(&mut self, head: &Published) {
        let revision = head.collection().revision();
        if revision == self.seen {
            return;
        }
        let changed = head.changed_since(self.seen);
        self.seen = revision;
        if let Some(mut changed) = changed {
            for name in changed.by_ref().take(self.subscription.len()) {
                if self.subscription.has_name(name) {
                    self.due.insert(Arc::clone(name));
                } else {
                    self.note_member(name);
                }
            }
            if changed.next().is_none() {
                return;
            }
        }
        let all = self.subscription.iter().map(|(name, _)| Arc::clone(name));
        self.due.extend(all);
    }

    /// What the client has from an earlier stream in the version that there is, it need not be sent (S-42, S-43).
    fn believe_claims(&mut self, there_is: &Collection) {
        let Some(Claims::Resources(claimed)) = self.claims.take() else {
            return;
        };
        let mut believed = Vec::new();
        self.subscription.look_at_all(|name, state| {
            let version = claimed.get(name)?;
            let resource = there_is
                .get(name)
                .filter(|there_is| there_is.version() == **version)?;
            state.sent = Sent::Resource(Arc::clone(resource));
            state.acked = Some(Arc::clone(resource));
            believed.push(Arc::clone(resource));
            Some(Arc::clone(resource.name()))
        });
        for resource in &believed {
            self.due.remove(resource.name());
            self.resume_heartbeat(resource);
        }
    }

    /// Delta, and SotW for kinds where a response need not be complete: the names that are due (S-7 … S-11, S-34).
    fn tell_due(&mut self, now: Instant, head: &Published, peers: &Peers<'_>) -> Option<Draft> {
        let to = head.collection();
        let delta = self.form.protocol == Protocol::Delta;
        let mut response = Response::new(self.form.protocol);
        let mut told: Vec<Told> = Vec::new();
        let mut later = BTreeSet::new();
        let mut waits = false;
        for name in mem::take(&mut self.due) {
            let Some(state) = self.subscription.get(&name) else {
                continue;
            };
            match Verdict::of(state, to.get(&name)) {
                Verdict::Settled => {
                    self.held.remove(&name);
                }
                Verdict::Send(resource) => {
                    if self.lacks_dependency(&resource, peers) {
                        waits = true;
                        later.insert(name);
                        continue;
                    }
                    let element = resource.element(self.form);
                    if !response.has_room_for(element.len(), head.body_limit()) {
                        later.insert(name);
                        continue;
                    }
                    response.push_element(element);
                    told.push((Arc::clone(resource.name()), Some(resource)));
                }
                Verdict::Gone(resource) if delta && self.is_needed(now, &resource, peers) => {
                    later.insert(name);
                }
                Verdict::Gone(_) | Verdict::Missing if delta && has_aliases(&self.kind) => {
                    let nothing = nothing_by_alias(&name);
                    if !response.has_room_for(nothing.len(), head.body_limit()) {
                        later.insert(name);
                        continue;
                    }
                    response.push_element(nothing);
                    told.push((name, None));
                }
                Verdict::Gone(_) | Verdict::Missing => {
                    if delta && !response.has_room_to_remove(&name, head.body_limit()) {
                        later.insert(name);
                        continue;
                    }
                    if delta {
                        response.push_removal(&name);
                    } else if self.understands_errors {
                        let room = 2 * name.len() + 64;
                        if !response.has_room_for(room, head.body_limit()) {
                            later.insert(name);
                            continue;
                        }
                        response.push_error(&name, &Refusal::not_found(&self.kind, &name));
                    }
                    told.push((name, None));
                }
            }
        }
        self.due = later;
        self.note_waiting(now, waits);
        for (name, resource) in &told {
            self.held.remove(name);
            if let Some(state) = self.subscription.get_mut(name) {
                state.sent = resource.clone().into();
                if resource.is_some() {
                    self.subscription.share_name(name);
                }
            }
            if resource.is_none() {
                self.forget_member(name);
            }
        }
        // An answer that is owed waits with what it is about.
        if response.is_empty() && (waits || !self.answer_owed) {
            return None;
        }
        let rewarm = self.rewarmed(told.iter().filter_map(|(_, resource)| resource.as_ref()));
        Some(Draft {
            response,
            version: to.version(),
            content: Content::Named(told),
            kept: Kept::default(),
            rewarm,
        })
    }

    /// SotW, LDS and CDS: all that was asked for, as soon as one of it has to be told (S-6). Absence is removal.
    fn tell_all_named(
        &mut self,
        now: Instant,
        head: &Published,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        let to = head.collection();
        let mut changed = self.answer_owed;
        let mut missing = false;
        let mut updates = Vec::new();
        let mut later = BTreeSet::new();
        for name in &self.due.clone() {
            let Some(state) = self.subscription.get(name) else {
                continue;
            };
            match Verdict::of(state, to.get(name)) {
                Verdict::Settled => {
                    self.held.remove(name);
                }
                Verdict::Send(resource) => updates.push(resource),
                Verdict::Gone(resource) => {
                    if self.is_needed(now, &resource, peers) {
                        later.insert(Arc::clone(name));
                    } else {
                        self.held.remove(name);
                        changed = true;
                    }
                }
                Verdict::Missing => {
                    missing = true;
                    changed = true;
                }
            }
        }
        if self.withholds_answer(now, missing, peers) || self.must_wait(now, updates.iter(), peers)
        {
            return None;
        }
        self.due = later;
        if !changed && updates.is_empty() {
            return None;
        }
        let mut response = Response::new(Protocol::Sotw);
        let mut told: Vec<Told> = Vec::new();
        let mut kept = Kept::default();
        let mut fingerprint = Fingerprint::default();
        let rejections = &self.record.rejections;
        for (name, state) in self.subscription.iter_mut() {
            let there_is = to.get(name);
            let held = self.held.get(name).map(|held| &held.resource);
            // Of what it asked for since, the client is told what there is.
            let told_before = !matches!(state.sent, Sent::Nothing);
            let rejected = rejections.get(name).filter(|_| told_before);
            let instead = rejected.and_then(|rejected| rejected.instead_of(there_is));
            let tell = instead.unwrap_or(there_is.or(held));
            if let Some(resource) = tell {
                response.push_element(resource.element(self.form));
                fingerprint.add(name, &resource.version());
            }
            if instead.is_none() && (there_is.is_some() || held.is_none()) {
                state.sent = there_is.cloned().into();
                told.push((Arc::clone(name), there_is.cloned()));
            } else if instead.is_none() {
                kept.held.extend(held.cloned());
            }
        }
        let rejections = self.record.rejections.iter_mut();
        rejections.for_each(|(name, rejected)| rejected.supersede(to.get(name)));
        for resource in &updates {
            self.held.remove(resource.name());
            self.subscription.share_name(resource.name());
        }
        let rewarm = self.rewarmed(updates.iter());
        Some(Draft {
            response,
            version: fingerprint.version(),
            content: Content::Named(told),
            kept,
            rewarm,
        })
    }
}
