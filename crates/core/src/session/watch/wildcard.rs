//! The next response to a client that asked for everything.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use oxds_types::Kind;

use super::{All, Claims, Content, Draft, Kept, Rest, Step, Told, Watch};
use crate::{
    session::{frame::Response, ordering::Peers},
    snapshot::{Body, Change, Collection, Difference, Protocol, Published, Resource},
    time::Instant,
};

impl Step {
    fn difference(&self) -> Option<&Arc<Difference>> {
        match self {
            Self::Since(difference) => Some(difference),
            Self::None | Self::Everything => None,
        }
    }

    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Since(difference) => difference.changes().is_empty(),
            Self::Everything => false,
        }
    }

    /// Whether a resource has another TTL, which no version tells.
    fn changes_a_ttl(&self) -> bool {
        let mut changes = self.difference().into_iter().flat_map(|d| d.changes());
        changes.any(Change::is_of_ttl)
    }

    /// Whether this name is part of the step.
    pub(super) fn has(&self, name: &str) -> bool {
        self.difference()
            .is_some_and(|difference| difference.has(name))
    }
}

impl All {
    /// The client is at `to`, having been told all that there is to tell.
    fn advance(&mut self, to: &Arc<Collection>) {
        let at = |place: &Option<Arc<Collection>>| place.as_ref().map(|c| c.revision());
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
        head: &Published,
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
        if self.must_wait(now, step.updates(to), peers) {
            return None;
        }
        let released = self.release(to, peers);
        let replaced = step.difference().map_or_else(Vec::new, |difference| {
            self.hold_removals(now, difference, peers)
        });
        match self.form.protocol {
            Protocol::Sotw => self.tell_whole(all, head, step, &released, replaced),
            Protocol::Delta => self.tell_step(all, head, step, &released, replaced),
        }
    }

    /// SotW, a new stream: the version is a hash of all there is, so a client that has this version of the whole needs
    /// no answer (S-24).
    fn is_up_to_date_by_claim(&mut self, all: &mut All, step: &Step, to: &Arc<Collection>) -> bool {
        let version = to.version();
        let claimed = match (step, &self.claims) {
            (Step::Everything, Some(Claims::Version(claimed))) => version == **claimed,
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
            self.resume_heartbeats(to);
        }
        claimed
    }

    /// SotW: all there is, and what is held besides (S-1, S-3 … S-5). Absence is removal.
    fn tell_whole(
        &mut self,
        all: &mut All,
        head: &Published,
        step: Step,
        released: &[Arc<str>],
        replaced: Vec<Arc<Resource>>,
    ) -> Option<Draft> {
        let to = head.collection();
        let asked = self.answer_owed || !self.due.is_empty() || matches!(step, Step::Everything);
        if !asked && released.is_empty() && step.is_empty() {
            all.advance(to);
            return None;
        }
        let instead = self
            .record
            .rejections
            .iter()
            .filter_map(|(name, rejected)| {
                rejected
                    .instead_of(to.get(name))
                    .map(|instead| (name, &rejected.what.version, instead))
            });
        let instead: Vec<_> = instead.collect();
        let held = self.held.values().map(|held| &held.resource);
        let besides: Vec<_> = held
            .chain(instead.iter().filter_map(|(.., copy)| *copy))
            .collect();

        let mut fingerprint = to.fingerprint();
        instead
            .iter()
            .for_each(|(name, version, _)| fingerprint.remove(name, version));
        besides
            .iter()
            .for_each(|copy| fingerprint.add(copy.name(), &copy.version()));
        let version = fingerprint.version();
        if !asked && all.version == Some(version) && !(self.form.ttl && step.changes_a_ttl()) {
            all.advance(to);
            return None;
        }
        let mut response = Response::new(Protocol::Sotw);
        if instead.is_empty() {
            head.full(self.form)
                .iter()
                .for_each(|body| response.push_body(body));
        } else {
            let names = instead.iter().map(|(name, ..)| *name);
            let pieces = head.full_without(self.form, names);
            pieces.iter().for_each(|body| response.push_body(body));
        }
        besides
            .iter()
            .for_each(|copy| response.push_element(copy.element(self.form)));
        let rejections = self.record.rejections.iter_mut();
        rejections.for_each(|(name, rejected)| rejected.supersede(to.get(name)));
        self.due.clear();
        all.cursor = Some(Arc::clone(to));
        all.version = Some(version);
        let held = self.held.values().map(|held| Arc::clone(&held.resource));
        let kept = Kept {
            held: held.collect(),
            replaced,
        };
        let rewarm = match &step {
            Step::Since(_) => self.rewarmed(step.updates(to)),
            // On a new stream, the client asks for the assignments again anyway.
            Step::None | Step::Everything => Vec::new(),
        };
        let content = Content::All {
            to: Arc::clone(to),
            completes: true,
            step,
            extra: Vec::new(),
        };
        Some(Draft {
            response,
            version,
            content,
            kept,
            rewarm,
        })
    }

    /// Delta: what changed since the cursor, and names that are owed besides.
    fn tell_step(
        &mut self,
        all: &mut All,
        head: &Published,
        mut step: Step,
        released: &[Arc<str>],
        replaced: Vec<Arc<Resource>>,
    ) -> Option<Draft> {
        let to = head.collection();
        let mut response = Response::new(Protocol::Delta);
        let mut rewarm = Vec::new();
        if let (Step::Everything, Some(Claims::Resources(claimed))) = (&step, self.claims.take()) {
            self.due.extend(differing(&claimed, to));
            self.resume_heartbeats(to);
            rewarm = self.rewarmed(self.due.iter().filter_map(|name| to.get(name)));
            step = Step::None;
        }
        // What did not fit, and goes with a later response.
        let mut later = Vec::new();
        match &step {
            Step::None => {}
            Step::Since(difference) => {
                let held = &self.held;
                self.due
                    .retain(|name| !step.has(name) || held.contains_key(name));
                let upserts = difference.upserts(self.form);
                let removals = self.shared_removals(difference);
                all.rest = Rest::begin(&mut response, upserts, removals, &step, head.body_limit());
                if removals.is_none() {
                    let names = difference
                        .changes()
                        .iter()
                        .filter(|change| change.new.is_none());
                    let names = names.map(|change| &change.name);
                    let names = names.filter(|name| !self.held.contains_key(*name));
                    push_removals(&mut response, names, &mut later, head.body_limit());
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
        let at = later.len();
        push_removals(
            &mut response,
            released.iter(),
            &mut later,
            head.body_limit(),
        );
        let went = released.iter().filter(|name| !later[at..].contains(name));
        let mut extra: Vec<Told> = went.map(|name| (Arc::clone(name), None)).collect();
        self.push_due(&mut response, &mut extra, head);
        self.due.extend(later);
        rewarm.extend(self.rewarmed(extra.iter().filter_map(|(_, resource)| resource.as_ref())));

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

    /// Names to be sent whatever the cursor says (S-35, S-39), up to the message limit.
    fn push_due(&mut self, response: &mut Response, extra: &mut Vec<Told>, head: &Published) {
        while let Some(name) = self.due.pop_first() {
            if extra.iter().any(|(told, _)| *told == name) {
                continue;
            }
            let resource = head.collection().get(&name).cloned();
            match &resource {
                Some(resource) => {
                    let element = resource.element(self.form);
                    if !response.has_room_for(element.len(), head.body_limit()) {
                        self.due.insert(name);
                        return;
                    }
                    response.push_element(element);
                }
                None => {
                    if !response.has_room_to_remove(&name, head.body_limit()) {
                        self.due.insert(name);
                        return;
                    }
                    self.held.remove(&name);
                    response.push_removal(&name);
                }
            }
            extra.push((name, resource));
        }
    }

    /// Delta: the next part of a response that was split (S-50).
    fn next_part(&mut self, all: &mut All, head: &Published) -> Option<Draft> {
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
        let told = step.updates(&to).skip(sent).take(response.resources);
        let rewarm = self.rewarmed(told);
        let content = Content::All {
            to,
            completes,
            step,
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

    /// The assignments of these resources, if they are clusters.
    pub(super) fn rewarmed<'a>(
        &self,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
    ) -> Vec<Arc<str>> {
        if self.kind != Kind::CLUSTER {
            return Vec::new();
        }
        resources
            .flat_map(|cluster| cluster.references())
            .filter(|reference| reference.kind == Kind::ENDPOINT)
            .map(|reference| Arc::clone(&reference.name))
            .collect()
    }
}

impl Rest {
    /// Puts into a response what fits, of resources and then of removals; what is left comes later.
    fn begin(
        response: &mut Response,
        upserts: &Arc<[Body]>,
        removals: Option<&Arc<[Body]>>,
        step: &Step,
        limit: usize,
    ) -> Option<Self> {
        let removals = removals.into_iter().flat_map(|removals| removals.iter());
        let parts = upserts.iter().chain(removals);
        let mut parts = parts.filter(|part| !part.bytes.is_empty()).peekable();
        let first = parts.next()?;
        response.push_body(first);
        if let Some(second) = parts.next_if(|second| first.fits_with(second, limit)) {
            response.push_body(second);
        }
        let parts: VecDeque<Body> = parts.cloned().collect();
        let step = step.clone();
        let (resources, removed) = (response.resources, response.removed);
        (!parts.is_empty()).then_some(Self {
            parts,
            resources,
            removed,
            step,
        })
    }

    /// Puts the next part into a response. What is there (again) is not removed any more: the client keeps its copy
    /// until it is told of the new one.
    fn push_next(&mut self, response: &mut Response, there_is: &Collection) {
        let Some(part) = self.parts.pop_front() else {
            return;
        };
        let gone = self.step.difference().into_iter().flat_map(|d| d.changes());
        let gone = gone.filter(|change| change.new.is_none());
        let gone = gone.skip(self.removed).take(part.removed);
        self.resources += part.resources;
        self.removed += part.removed;
        if gone
            .clone()
            .all(|change| there_is.get(&change.name).is_none())
        {
            response.push_body(&part);
            return;
        }
        gone.filter(|change| there_is.get(&change.name).is_none())
            .for_each(|change| response.push_removal(&change.name));
    }
}

/// Removals of names, as far as there is room; the rest is for later.
fn push_removals<'a>(
    response: &mut Response,
    names: impl Iterator<Item = &'a Arc<str>>,
    later: &mut Vec<Arc<str>>,
    limit: usize,
) {
    for name in names {
        if response.has_room_to_remove(name, limit) {
            response.push_removal(name);
        } else {
            later.push(Arc::clone(name));
        }
    }
}

/// The names of which the client does not have what there is, or has what there is not (S-42).
fn differing(claimed: &HashMap<String, String>, to: &Collection) -> Vec<Arc<str>> {
    let has = |resource: &Resource| {
        claimed
            .get(&**resource.name())
            .is_some_and(|version| resource.version() == **version)
    };
    let missing = to
        .iter()
        .filter(|resource| !has(resource))
        .map(|r| Arc::clone(r.name()));
    let gone = claimed.keys().filter(|name| to.get(name).is_none());
    missing
        .chain(gone.map(|name| Arc::from(name.as_str())))
        .collect()
}
