//! The next response to a client that asked by name.

use std::{collections::BTreeSet, mem, sync::Arc};

use bytes::Bytes;
use oxds_types::{Fingerprint, Kind};
use smallvec::SmallVec;

use super::{
    Watch,
    response::{Content, Draft, Kept, Told},
    subscribe::Claims,
};
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

/// A response in the making.
struct Telling {
    response: Response,
    told: SmallVec<[Told; 1]>,
    /// Something waits for what it depends on.
    waits: bool,
    /// Something in it is told for the first time.
    new: bool,
    limit: usize,
}

impl Telling {
    fn new(protocol: Protocol, limit: usize) -> Self {
        Self {
            response: Response::new(protocol),
            told: SmallVec::new(),
            waits: false,
            new: false,
            limit,
        }
    }

    /// That there is no such resource, in the protocol's way; false if there is no room for it.
    fn push_absence(&mut self, kind: &Kind, name: &Arc<str>) -> bool {
        if self.response.protocol() == Protocol::Sotw {
            return self.push_error(name, &Refusal::not_found(kind, name));
        }
        let fits = self.response.has_room_to_remove(name, self.limit);
        if fits {
            self.response.push_removal(name);
        }
        fits
    }

    /// Why the client does not get it; false if there is no room for that.
    fn push_error(&mut self, name: &str, refusal: &Refusal) -> bool {
        let room = name.len() + refusal.message.len() + 32;
        let fits = self.response.has_room_for(room, self.limit);
        if fits {
            self.response.push_error(name, refusal);
        }
        fits
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
        // Both are in order.
        let mut rest = believed.iter().map(|resource| resource.name()).peekable();
        self.due.retain(|name| {
            while rest.next_if(|believed| *believed < name).is_some() {}
            rest.next_if(|believed| *believed == name).is_none()
        });
        believed
            .iter()
            .for_each(|resource| self.resume_heartbeat(resource));
    }

    /// Delta, and SotW for kinds where a response need not be complete: the names that are due (S-7 … S-11, S-34).
    fn tell_due(&mut self, now: Instant, head: &Published, peers: &Peers<'_>) -> Option<Draft> {
        let to = head.collection();
        let mut telling = Telling::new(self.form.protocol, head.body_limit());
        let mut due = mem::take(&mut self.due);
        // Not made anew: a client of one name is told of it again and again, without an allocation.
        due.retain(|name| !self.tell(now, name, head, peers, &mut telling));
        self.due = due;
        let Telling {
            response,
            told,
            waits,
            new,
            ..
        } = telling;
        self.note_waiting(now, waits);
        if new {
            let names = told.iter().filter_map(|(_, told)| told.as_ref());
            self.subscription
                .share_names(names.map(|resource| resource.name()));
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

    /// Tells the client what there is of a name; false if that has to wait.
    fn tell(
        &mut self,
        now: Instant,
        name: &Arc<str>,
        head: &Published,
        peers: &Peers<'_>,
        telling: &mut Telling,
    ) -> bool {
        let there_is = head.collection().get(name);
        let Some(state) = self.subscription.get(name) else {
            return true;
        };
        let delta = self.form.protocol == Protocol::Delta;
        match Verdict::of(state, there_is) {
            Verdict::Settled => drop(self.held.remove(name)),
            Verdict::Send(resource) => {
                if self.lacks_dependency(&resource, peers) {
                    telling.waits = true;
                    return false;
                }
                telling.new |= state.is_new();
                return self.send(telling, name, resource.element(self.form), Some(&resource));
            }
            Verdict::Gone(resource) if delta && self.is_needed(now, &resource, peers) => {
                return false;
            }
            Verdict::Gone(_) | Verdict::Missing if delta && has_aliases(&self.kind) => {
                return self.send(telling, name, nothing_by_alias(name), None);
            }
            Verdict::Gone(_) | Verdict::Missing if self.is_mute_on_absence() => {
                self.record.rejections.remove(name);
                self.note_told(name, Sent::Absent);
            }
            verdict @ (Verdict::Gone(_) | Verdict::Missing) => {
                let fits = match self.unfit(&verdict, name, head) {
                    Some(unfit) => telling.push_error(name, &unfit),
                    None => telling.push_absence(&self.kind, name),
                };
                if !fits {
                    return false;
                }
                self.note_told(name, Sent::Absent);
                telling.told.push((Arc::clone(name), None));
                self.forget_member(name);
            }
        }
        true
    }

    /// Why a name cannot be served that its source has (S-73), if the client has nothing of it and understands that.
    fn unfit(&self, verdict: &Verdict, name: &str, head: &Published) -> Option<Refusal> {
        let may_say = self.understands_errors && matches!(verdict, Verdict::Missing);
        let fault = may_say.then(|| head.fault(&self.kind, name)).flatten()?;
        Some(Refusal::unfit(&fault))
    }

    /// Puts an element into the response, if there is room.
    fn send(
        &mut self,
        telling: &mut Telling,
        name: &Arc<str>,
        element: Bytes,
        resource: Option<&Arc<Resource>>,
    ) -> bool {
        if !telling.response.has_room_for(element.len(), telling.limit) {
            return false;
        }
        telling.response.push_element(element);
        self.note_told(name, resource.cloned().into());
        // Its own name is the one that all sessions share.
        let shared = resource.map_or(name, |resource| resource.name());
        telling.told.push((Arc::clone(shared), resource.cloned()));
        if resource.is_none() {
            self.forget_member(name);
        }
        true
    }

    fn note_told(&mut self, name: &str, sent: Sent) {
        self.held.remove(name);
        if let Some(state) = self.subscription.get_mut(name) {
            state.sent = sent;
        }
    }

    /// Whether nothing can be said of what does not exist: the client keeps what it has of it.
    pub(super) fn is_mute_on_absence(&self) -> bool {
        self.form.protocol == Protocol::Sotw
            && !self.kind.is_full_state()
            && !self.understands_errors
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
        let mut told: SmallVec<[Told; 1]> = SmallVec::new();
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
        let updated = updates.iter().map(|resource| resource.name());
        updated
            .clone()
            .for_each(|name| drop(self.held.remove(name)));
        self.subscription.share_names(updated);
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
