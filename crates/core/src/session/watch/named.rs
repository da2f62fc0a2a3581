//! The next response to a client that asked by name.

use std::{collections::BTreeSet, mem, sync::Arc};

use bytes::Bytes;
use oxds_types::{Fingerprint, ResourceType};
use smallvec::SmallVec;

use super::{
    Watch,
    response::{Content, Draft, Kept, Told},
    subscribe::Claims,
};
use crate::{
    session::{ResourceErrorDetail, frame::Response, ordering::Peers},
    snapshot::{Ascending, Protocol, Resource, TypeSnapshot, has_aliases, nothing_by_alias},
    subscription::{Sent, SubscribedName},
    time::Instant,
};

/// What a due name needs.
enum Verdict<'a> {
    /// Nothing: the client was told what there is.
    Settled,
    /// The resource.
    Send(&'a Arc<Resource>),
    /// To be told that what it has does not exist any more.
    Gone(Arc<Resource>),
    /// To be told that there is no such thing (S-34).
    Missing,
}

impl<'a> Verdict<'a> {
    fn of(named: &SubscribedName, there_is: Option<&'a Arc<Resource>>) -> Self {
        match (named.sent(), there_is) {
            // Also what was sent and rejected: the same content is not sent again (S-17, S-46).
            (Sent::Resource(sent), Some(resource)) if sent == resource => Self::Settled,
            (_, Some(resource)) => Self::Send(resource),
            (Sent::Resource(sent), None) => Self::Gone(Arc::clone(sent)),
            (Sent::Absent, None) => Self::Settled,
            (Sent::Nothing, None) => Self::Missing,
        }
    }
}

/// A response in the making.
struct Telling<'a> {
    there_is: Ascending<'a>,
    response: Response,
    told: SmallVec<[Told; 1]>,
    /// Something waits for what it depends on.
    waits: bool,
    /// Members of collections that are gone.
    gone: Vec<Arc<str>>,
    limit: usize,
}

impl<'a> Telling<'a> {
    fn new(protocol: Protocol, head: &'a TypeSnapshot) -> Self {
        Self {
            there_is: head.collection().ascending(),
            response: Response::new(protocol),
            told: SmallVec::new(),
            waits: false,
            gone: Vec::new(),
            limit: head.body_limit(),
        }
    }

    /// Makes room for so many resources.
    fn expect(&mut self, resources: usize) {
        self.told.reserve_exact(resources);
        self.response.expect(resources);
    }

    /// That there is no such resource, in the protocol's way; false if there is no room for it.
    fn push_absence(&mut self, resource_type: &ResourceType, name: &Arc<str>) -> bool {
        if self.response.protocol() == Protocol::Sotw {
            return self.push_error(name, &ResourceErrorDetail::not_found(resource_type, name));
        }
        let fits = self.response.has_room_to_remove(name, self.limit);
        if fits {
            self.response.push_removal(name);
        }
        fits
    }

    /// Why the client does not get it; false if there is no room for that.
    fn push_error(&mut self, name: &str, refusal: &ResourceErrorDetail) -> bool {
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
        head: &TypeSnapshot,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        self.note_changes(head);
        self.expand_collections(head.collection());
        self.believe_claims(now, head, peers);
        if self.form.protocol == Protocol::Sotw
            && self.resource_type.all_resources_required_in_sotw()
        {
            self.tell_all_named(now, head, peers)
        } else {
            self.tell_due(now, head, peers)
        }
    }

    /// Adds the names that changed since the last look to those that are due: by the log if it is shorter than the
    /// subscription, else all of them.
    fn note_changes(&mut self, head: &TypeSnapshot) {
        let revision = head.collection().revision();
        if revision == self.seen {
            return;
        }
        let changed = head.changed_since(self.seen);
        self.seen = revision;
        if self.all_due {
            return;
        }
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
        self.all_due = !self.subscription.is_empty();
    }

    /// What the client has from an earlier stream in the version that there is, it need not be sent (S-42, S-43).
    fn believe_claims(&mut self, now: Instant, head: &TypeSnapshot, peers: &Peers<'_>) {
        let Some(Claims::Resources(claimed)) = self.claims.take() else {
            return;
        };
        let mut there_is = head.collection().ascending();
        let (mut ttls, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for named in self.subscription.iter_mut() {
            let Some(version) = claimed.get(&**named.name()) else {
                continue;
            };
            match there_is.get(named.name()) {
                Some(resource) if resource.version() == **version => {
                    named.tell(Some(resource));
                    named.accept(Some(resource));
                    ttls.extend(resource.ttl());
                }
                Some(_) => {}
                None => drop(gone.insert(Arc::clone(named.name()))),
            }
        }
        self.resume_heartbeats(ttls);
        self.part_with(now, gone, head.collection(), peers);
    }

    /// Delta, and SotW for kinds where a response need not be complete: the names that are due (S-7 … S-11, S-34).
    fn tell_due(&mut self, now: Instant, head: &TypeSnapshot, peers: &Peers<'_>) -> Option<Draft> {
        let to = head.collection();
        let mut telling = Telling::new(self.form.protocol, head);
        let mut due = mem::take(&mut self.due);
        if mem::take(&mut self.all_due) {
            telling.expect(self.subscription.len());
            due.clear();
            for at in 0..self.subscription.len() {
                if !self.tell(now, at, head, peers, &mut telling) {
                    due.extend(
                        self.subscription
                            .at(at)
                            .map(|named| Arc::clone(named.name())),
                    );
                }
            }
        } else {
            // Not made anew: a client of one name is told of it again and again, without an allocation.
            due.retain(|name| match self.subscription.position(name) {
                Some(at) => !self.tell(now, at, head, peers, &mut telling),
                None => false,
            });
        }
        self.due = due;
        let Telling {
            response,
            told,
            waits,
            gone,
            ..
        } = telling;
        gone.iter().for_each(|name| self.forget_member(name));
        self.note_waiting(now, waits, head);
        // An answer that is owed waits with what it is about.
        if response.is_empty() && (waits || !self.answer_owed) {
            return None;
        }
        let rewarm = self.rewarmed(told.iter().filter_map(Told::resource));
        Some(Draft {
            response,
            version: to.version(),
            content: Content::Named(told),
            kept: Kept::default(),
            rewarm,
        })
    }

    /// Tells the client what there is of the name at this place; false if that has to wait.
    fn tell(
        &mut self,
        now: Instant,
        at: usize,
        head: &TypeSnapshot,
        peers: &Peers<'_>,
        telling: &mut Telling<'_>,
    ) -> bool {
        let Some(named) = self.subscription.at(at) else {
            return true;
        };
        let name = named.name();
        let delta = self.form.protocol == Protocol::Delta;
        match Verdict::of(named, telling.there_is.get(name)) {
            Verdict::Settled => drop(self.held.remove(name)),
            Verdict::Send(resource) => {
                if self.lacks_dependency(resource, peers) {
                    telling.waits = true;
                    return false;
                }
                let told = Told::Resource(Arc::clone(resource));
                return self.send(telling, at, resource.element(self.form), told);
            }
            Verdict::Missing if self.parts_with(name) => {}
            verdict @ (Verdict::Gone(_) | Verdict::Missing) => {
                let name = Arc::clone(name);
                if let (true, Verdict::Gone(resource)) = (delta, &verdict)
                    && self.is_needed(now, resource, peers)
                {
                    return false;
                }
                return self.tell_absence(at, name, &verdict, head, telling);
            }
        }
        true
    }

    /// Tells the client that there is no such resource; false if that has to wait.
    fn tell_absence(
        &mut self,
        at: usize,
        name: Arc<str>,
        verdict: &Verdict<'_>,
        head: &TypeSnapshot,
        telling: &mut Telling<'_>,
    ) -> bool {
        if self.form.protocol == Protocol::Delta && has_aliases(&self.resource_type) {
            return self.send(telling, at, nothing_by_alias(&name), Told::Absent(name));
        }
        if self.is_mute_on_absence() {
            self.record.rejections.remove(&name);
            self.note_told(at, &Told::Absent(name));
            return true;
        }
        let fits = match self.unfit(verdict, &name, head) {
            Some(unfit) => telling.push_error(&name, &unfit),
            None => telling.push_absence(&self.resource_type, &name),
        };
        if fits {
            telling.gone.extend(self.member(&name));
            let told = Told::Absent(name);
            self.note_told(at, &told);
            telling.told.push(told);
        }
        fits
    }

    /// Why a name cannot be served that its source has (S-73), if the client has nothing of it and understands that.
    fn unfit(
        &self,
        verdict: &Verdict<'_>,
        name: &str,
        head: &TypeSnapshot,
    ) -> Option<ResourceErrorDetail> {
        let may_say = self.understands_errors && matches!(verdict, Verdict::Missing);
        let fault = may_say
            .then(|| head.fault(&self.resource_type, name))
            .flatten()?;
        Some(ResourceErrorDetail::unfit(&fault))
    }

    /// Puts an element into the response, if there is room.
    fn send(&mut self, telling: &mut Telling<'_>, at: usize, element: Bytes, told: Told) -> bool {
        if !telling.response.has_room_for(element.len(), telling.limit) {
            return false;
        }
        telling.response.push_element(element);
        self.note_told(at, &told);
        if let Told::Absent(name) = &told {
            telling.gone.extend(self.member(name));
        }
        telling.told.push(told);
        true
    }

    fn note_told(&mut self, at: usize, told: &Told) {
        self.held.remove(told.name());
        if let Some(named) = self.subscription.at_mut(at) {
            named.tell(told.resource());
        }
    }

    /// Whether nothing can be said of what does not exist: the client keeps what it has of it.
    pub(super) fn is_mute_on_absence(&self) -> bool {
        self.form.protocol == Protocol::Sotw
            && !self.resource_type.all_resources_required_in_sotw()
            && !self.understands_errors
    }

    /// Where the names are that are due.
    fn due_places(&self) -> Vec<usize> {
        if self.all_due {
            return (0..self.subscription.len()).collect();
        }
        let due = self.due.iter();
        due.filter_map(|name| self.subscription.position(name))
            .collect()
    }

    /// SotW, LDS and CDS: all that was asked for, as soon as one of it has to be told (S-6). Absence is removal.
    fn tell_all_named(
        &mut self,
        now: Instant,
        head: &TypeSnapshot,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        let to = head.collection();
        let mut changed = self.answer_owed;
        let mut missing = false;
        let mut updates = Vec::new();
        let mut later = BTreeSet::new();
        for at in self.due_places() {
            let Some(named) = self.subscription.at(at) else {
                continue;
            };
            match Verdict::of(named, to.get(named.name())) {
                Verdict::Settled => {
                    self.held.remove(named.name());
                }
                Verdict::Send(resource) => updates.push(resource),
                Verdict::Gone(resource) => {
                    if self.is_needed(now, &resource, peers) {
                        later.insert(Arc::clone(resource.name()));
                    } else {
                        self.held.remove(resource.name());
                        changed = true;
                    }
                }
                Verdict::Missing => {
                    missing = true;
                    changed = true;
                }
            }
        }
        if self.withholds_answer(now, missing, peers)
            || self.must_wait(now, updates.iter().copied(), head, peers)
        {
            return None;
        }
        (self.due, self.all_due) = (later, false);
        if !changed && updates.is_empty() {
            return None;
        }
        let mut response = Response::new(Protocol::Sotw);
        let mut told: SmallVec<[Told; 1]> = SmallVec::new();
        let mut kept = Kept::default();
        let mut fingerprint = Fingerprint::default();
        let rejections = &self.record.rejections;
        for named in self.subscription.iter_mut() {
            let name = named.name();
            let there_is = to.get(name);
            let held = self.held.get(name).map(|held| &held.resource);
            // Of what it asked for since, the client is told what there is.
            let told_before = named.sent() != Sent::Nothing;
            let rejected = rejections.get(name).filter(|_| told_before);
            let instead = rejected.and_then(|rejected| rejected.instead_of(there_is));
            let tell = instead.unwrap_or(there_is.or(held));
            if let Some(resource) = tell {
                response.push_element(resource.element(self.form));
                fingerprint.add(name, &resource.version());
            }
            if instead.is_none() && (there_is.is_some() || held.is_none()) {
                told.push(match there_is {
                    Some(resource) => Told::Resource(Arc::clone(resource)),
                    None => Told::Absent(Arc::clone(name)),
                });
                named.tell(there_is);
            } else if instead.is_none() {
                kept.held.extend(held.cloned());
            }
        }
        let rejections = self.record.rejections.iter_mut();
        rejections.for_each(|(name, rejected)| rejected.supersede(to.get(name)));
        for updated in &updates {
            self.held.remove(updated.name());
        }
        let rewarm = self.rewarmed(updates.into_iter());
        Some(Draft {
            response,
            version: fingerprint.version(),
            content: Content::Named(told),
            kept,
            rewarm,
        })
    }
}
