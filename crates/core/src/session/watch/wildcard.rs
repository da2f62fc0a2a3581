//! The next response to a client that asked for everything.

use std::{collections::HashMap, sync::Arc};

use oxds_types::Kind;

use super::{All, Claims, Content, Draft, Kept, Rest, Step, Told, Watch};
use crate::{
    session::{frame::Response, ordering::Peers},
    snapshot::{Change, Collection, Difference, Protocol, Published, Resource},
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
        if all.rest.is_some() {
            return self.next_part(all);
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
        let mut parts = None;
        if let (Step::Everything, Some(Claims::Resources(claimed))) = (&step, self.claims.take()) {
            self.due.extend(differing(&claimed, to));
            self.resume_heartbeats(to);
            rewarm = self.rewarmed(self.due.iter().filter_map(|name| to.get(name)));
            step = Step::None;
        }
        match &step {
            Step::None => {}
            Step::Since(difference) => {
                parts = Some(difference.upserts(self.form));
                self.push_removals(&mut response, difference);
                rewarm = self.rewarmed(step.updates(to));
            }
            Step::Everything => {
                parts = Some(head.full(self.form));
                // What exists comes with the rest (S-28); what does not has to be said.
                self.due.retain(|name| to.get(name).is_none());
            }
        }
        if let Some(parts) = parts {
            parts.first().inspect(|part| response.push_body(part));
            if parts.len() > 1 {
                let step = step.clone();
                all.rest = Some(Rest {
                    parts: Arc::clone(parts),
                    next: 1,
                    step,
                });
            }
        }
        for name in released {
            response.push_removal(name);
        }
        let mut extra: Vec<Told> = released
            .iter()
            .map(|name| (Arc::clone(name), None))
            .collect();
        self.push_due(&mut response, &mut extra, head, &step);

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

    /// The removals of a step, but for those that are held.
    fn push_removals(&self, response: &mut Response, difference: &Difference) {
        let held = |name: &Arc<str>| self.held.contains_key(name);
        let gone = || {
            difference
                .changes()
                .iter()
                .filter(|change| change.new.is_none())
        };
        if self.held.is_empty() || !gone().any(|change| held(&change.name)) {
            response.push_body(difference.removals());
        } else {
            for change in gone().filter(|change| !held(&change.name)) {
                response.push_removal(&change.name);
            }
        }
    }

    /// Names to be sent whatever the cursor says (S-35, S-39), up to the message limit.
    fn push_due(
        &mut self,
        response: &mut Response,
        extra: &mut Vec<Told>,
        head: &Published,
        step: &Step,
    ) {
        while let Some(name) = self.due.pop_first() {
            if step.has(&name) && !self.held.contains_key(&name)
                || extra.iter().any(|(told, _)| *told == name)
            {
                continue;
            }
            let resource = head.collection().get(&name).cloned();
            match &resource {
                Some(resource) => {
                    let element = resource.element(self.form);
                    if !response.is_empty() && response.bytes + element.len() > head.message_limit()
                    {
                        self.due.insert(name);
                        return;
                    }
                    response.push_element(element);
                }
                None => {
                    self.held.remove(&name);
                    response.push_removal(&name);
                }
            }
            extra.push((name, resource));
        }
    }

    /// Delta: the next part of a response that was split (S-50).
    fn next_part(&mut self, all: &mut All) -> Option<Draft> {
        let to = Arc::clone(all.cursor.as_ref()?);
        let rest = all.rest.as_mut()?;
        let mut response = Response::new(Protocol::Delta);
        response.push_body(rest.parts.get(rest.next)?);
        rest.next += 1;
        let step = rest.step.clone();
        let completes = rest.next == rest.parts.len();
        if completes {
            all.rest = None;
        }
        let version = to.version();
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
            rewarm: Vec::new(),
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
