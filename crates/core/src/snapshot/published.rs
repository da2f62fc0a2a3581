//! One kind of a snapshot, with what its sessions share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use oxds_types::{ApiVersion, ResourceType};

use super::{
    Body, Difference, Form, Limits, Obstacles, Protocol, ResourceSet, Revision, WorkCounters,
    change::OfType, faults::Faults, in_v2::InV2, log::Log,
};

/// What all states of a lineage have in common.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) counters: Arc<WorkCounters>,
    pub(super) faults: Arc<Faults>,
    /// Whether a session that needs everything is likely not to be the only one. Groups may be as many as clients, and
    /// a body for each of them that nobody else takes would be most of the memory (P-12).
    pub(super) for_many: bool,
}

/// Names, in order, and where the element of each ends.
type Ends = Box<[(Arc<str>, usize)]>;

/// The state of one kind in a snapshot: its resources, what changed lately, and what was encoded for sessions.
///
/// Dropped with its snapshot, and the encoded bodies with it. A session therefore never keeps one; it keeps the
/// [`ResourceSet`].
#[derive(Debug)]
pub struct TypeSnapshot {
    collection: Arc<ResourceSet>,
    /// The state right before: nearly every session is there when a change comes.
    previous: Revision,
    log: Log,
    settings: Arc<Settings>,
    /// By form: everything there is. Made once, read without a lock.
    full: [OnceLock<Arc<[Body]>>; Form::COUNT],
    /// By form: whether somebody took it already.
    taken: [AtomicBool; Form::COUNT],
    /// By form: where each resource ends in the full SotW body. Made only if somebody refused one.
    ends: [OnceLock<Ends>; Form::COUNT],
    /// From `previous`. Made once, read without a lock.
    step: OnceLock<Arc<Difference>>,
    /// From older states: the latest few that were asked for.
    older: Mutex<Vec<Arc<Difference>>>,
    /// The same for clients of v2, once there was one. None in itself.
    in_v2: OnceLock<InV2>,
}

impl TypeSnapshot {
    pub(super) fn empty(settings: &Arc<Settings>) -> Self {
        Self::new(
            ResourceSet::default(),
            Revision::UNLOADED,
            Log::new(),
            settings,
        )
    }

    fn new(
        collection: ResourceSet,
        previous: Revision,
        log: Log,
        settings: &Arc<Settings>,
    ) -> Self {
        Self {
            collection: Arc::new(collection),
            previous,
            log,
            settings: Arc::clone(settings),
            full: Default::default(),
            taken: Default::default(),
            ends: Default::default(),
            step: OnceLock::new(),
            older: Mutex::default(),
            in_v2: OnceLock::new(),
        }
    }

    /// Another state with these resources that begins here: nothing is known of what was before.
    pub(super) fn alike(&self, mut resources: ResourceSet, settings: &Arc<Settings>) -> Self {
        settings.counters.visited(self.collection.len());
        let revision = self.collection.revision;
        resources.revision = revision;
        Self::new(resources, revision, Log::since_only(revision), settings)
    }

    /// The state after `changes`, and the names that differ; `None` if none does.
    pub(super) fn apply(
        &self,
        revision: Revision,
        changes: OfType,
        settings: &Arc<Settings>,
    ) -> Option<(Self, Arc<[Arc<str>]>)> {
        let mut collection = ResourceSet::clone(&self.collection);
        let (mut changed, mut upserts) = (Vec::new(), Vec::new());
        for (name, new) in changes {
            settings.counters.visited(1);
            match new {
                Some(new) if collection.get(&name) == Some(&new) => continue,
                Some(new) => upserts.push(new),
                None if collection.remove(&name) => {}
                None => continue,
            }
            changed.push(name);
        }
        if changed.is_empty() {
            return None;
        }
        collection.insert_all(&upserts);
        collection.revision = revision;
        let changed: Arc<[Arc<str>]> = changed.into();
        let log = self
            .log
            .push(revision, Arc::clone(&changed), settings.limits.log_names);
        let after = Self::new(collection, self.collection.revision, log, settings);
        if let Some(in_v2) = self.in_v2.get() {
            let in_v2 = in_v2.next(revision, &changed, &after.collection, settings);
            // Nobody else knows of `after` yet.
            let _ = after.in_v2.set(in_v2);
        }
        Some((after, changed))
    }

    /// The state that clients are served who ask in this version.
    pub(super) fn in_version(self: &Arc<Self>, api: ApiVersion) -> &Arc<Self> {
        match api {
            ApiVersion::V2 => {
                &self
                    .in_v2
                    .get_or_init(|| InV2::of(self, &self.settings))
                    .published
            }
            ApiVersion::V3 => self,
        }
    }

    /// The resources that clients of v2 do not get, and what v2 lacks (S-63). Known as soon as there was such a client.
    pub fn withheld(&self) -> impl Iterator<Item = (&Arc<str>, &Obstacles)> {
        let withheld = self.in_v2.get().map(|in_v2| &in_v2.withheld);
        withheld.into_iter().flatten()
    }

    /// The resources.
    #[must_use]
    pub fn collection(&self) -> &Arc<ResourceSet> {
        &self.collection
    }

    /// The limit to which the bodies of responses are split.
    pub(crate) fn body_limit(&self) -> usize {
        self.settings.limits.body_bytes()
    }

    /// The names that changed after `since`, some of them repeatedly. `None`: too long ago for the log.
    pub(crate) fn changed_since(&self, since: Revision) -> Option<impl Iterator<Item = &Arc<str>>> {
        let names = self.log.since(since)?;
        Some(names.inspect(|_| self.settings.counters.visited(1)))
    }

    /// What is wrong with a name of this kind that is not served.
    pub(crate) fn fault(&self, resource_type: &ResourceType, name: &str) -> Option<Arc<str>> {
        self.settings.faults.of(resource_type, name)
    }

    /// What lies between an older state and this one. `from` must be of the same kind and lineage.
    #[must_use]
    pub fn difference(&self, from: &Arc<ResourceSet>) -> Arc<Difference> {
        let find = || {
            Arc::new(Difference::between(
                from,
                &self.collection,
                &self.log,
                &self.settings,
            ))
        };
        if from.revision == self.previous {
            return Arc::clone(self.step.get_or_init(find));
        }
        // Found under the lock, so that sessions which fell behind together find it once. A poisoned list is a list
        // of what was found before the panic, all of it complete.
        let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = older.iter().find(|known| known.from() == from.revision) {
            return Arc::clone(known);
        }
        if older.len() >= self.settings.limits.differences.max(1) {
            older.remove(0);
        }
        let found = find();
        older.push(Arc::clone(&found));
        found
    }

    /// Everything there is. SotW needs it in one piece; delta has it split where it exceeds the message limit.
    ///
    /// Encoded once for all sessions; in a group, once for the first and once for all others.
    pub fn full(&self, form: Form) -> Arc<[Body]> {
        let form = self.shared(form);
        let kept = &self.full[form.index()];
        let first = || !self.taken[form.index()].swap(true, Ordering::Relaxed);
        if kept.get().is_none() && !self.settings.for_many && first() {
            return self.encode(form);
        }
        Arc::clone(kept.get_or_init(|| self.encode(form)))
    }

    fn encode(&self, form: Form) -> Arc<[Body]> {
        let limit = match form.protocol {
            Protocol::Sotw => usize::MAX,
            Protocol::Delta => self.settings.limits.body_bytes(),
        };
        self.settings.counters.encoded();
        self.settings.counters.visited(self.collection.len());
        Body::upserts(self.collection.iter(), form, limit)
    }

    /// SotW: everything there is but these, in pieces of the one body that all sessions share.
    pub(crate) fn full_without<'a>(
        &self,
        form: Form,
        names: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<Body> {
        let protocol = Protocol::Sotw;
        let form = self.shared(Form { protocol, ..form });
        let full = self.full(form);
        let [whole] = &*full else {
            return Vec::new();
        };
        let ends = self.ends[form.index()].get_or_init(|| self.find_ends(form));
        let end = |index: usize| index.checked_sub(1).map_or(0, |before| ends[before].1);
        let piece = |from: usize, to: usize| Body {
            bytes: whole.bytes.slice(end(from)..end(to)),
            resources: to - from,
            removed: 0,
        };
        let mut pieces = Vec::new();
        let mut from = 0;
        for name in names {
            if let Ok(at) = ends.binary_search_by(|(other, _)| other.cmp(name)) {
                pieces.push(piece(from, at));
                from = at + 1;
            }
        }
        pieces.push(piece(from, ends.len()));
        pieces
    }

    /// Where nothing has a TTL, those who are told of TTLs share the bytes with those who are not.
    fn shared(&self, form: Form) -> Form {
        let ttl = form.ttl && self.collection.is_mortal();
        Form { ttl, ..form }
    }

    fn find_ends(&self, form: Form) -> Ends {
        self.settings.counters.visited(self.collection.len());
        let ends = self.collection.iter().scan(0, |end, resource| {
            *end += resource.element(form).len();
            Some((Arc::clone(resource.name()), *end))
        });
        ends.collect()
    }
}
