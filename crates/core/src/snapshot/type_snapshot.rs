//! One type of a snapshot, with the encoded bodies that its sessions share.
//!
//! Clients of v2 are served the same resources, translated to v2 (S-62), except those that v2 cannot express (S-63):
//!
//! ```text
//!   TypeSnapshot, v3 ──apply──▶ TypeSnapshot, v3 ──apply──▶ …
//!        │ first v2 client            │
//!        ▼                            ▼ only the changes
//!   TypeSnapshot, v2 ─────────▶ TypeSnapshot, v2 ─────────▶ …
//! ```
//! To a session, the v2 state is like any other, with the same revisions. A resource that v2 cannot express does not
//! exist in it; one that v2 cannot express any more was removed. Versions are those of v3, so that both kinds of client
//! agree on them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use imbl::OrdMap;
use oxds_types::{ApiVersion, ResourceType};

use super::body::Body;
use super::change::ChangesOfType;
use super::difference::Difference;
use super::form::Form;
use super::history::History;
use super::log::ChangeLog;
use super::resource::{Obstacles, Resource};
use super::resource_set::ResourceSet;
use super::settings::{Revision, Settings};
use crate::protocol::Protocol;
use crate::vhds::HostIndex;

/// Sorted names, each with the end of its element in a body.
type ElementEnds = Box<[(Arc<str>, usize)]>;

/// State of one type in a snapshot: its resources, its recent changes, and bodies encoded for sessions.
///
/// It is dropped with its snapshot, and the encoded bodies with it. So a session never keeps one; it keeps the
/// [`ResourceSet`].
#[derive(Debug)]
pub struct TypeSnapshot {
    resources: Arc<ResourceSet>,
    /// Revision of the state before. Nearly every session is there when a change comes.
    previous: Revision,
    log: ChangeLog,
    history: History,
    settings: Arc<Settings>,
    /// Bodies with all resources, by form. Encoded once, read without a lock.
    complete: [OnceLock<Arc<[Body]>>; Form::COUNT],
    /// Whether a session took the complete body, by form.
    taken: [AtomicBool; Form::COUNT],
    /// Ends of the elements in the complete SotW body, by form. Computed when a body without some of them is needed.
    ends: [OnceLock<ElementEnds>; Form::COUNT],
    /// Difference from `previous`. Computed once, read without a lock.
    from_previous: OnceLock<Arc<Difference>>,
    /// Differences from older states: the latest few that were asked for.
    from_older: Mutex<Vec<Arc<Difference>>>,
    /// Virtual hosts by domain; made when the first client asks for one on demand.
    hosts: OnceLock<HostIndex>,
    /// State for clients of v2; made when the first of them asks. Empty in a v2 state itself.
    in_v2: OnceLock<V2State>,
}

/// State of one type for clients of v2.
#[derive(Debug)]
struct V2State {
    snapshot: Arc<TypeSnapshot>,
    /// Resources that v2 cannot express, with the reasons.
    not_representable: OrdMap<Arc<str>, Obstacles>,
}

impl TypeSnapshot {
    pub(super) fn empty(settings: &Arc<Settings>) -> Self {
        let (resources, log) = (ResourceSet::default(), ChangeLog::new());
        Self::new(resources, Revision::UNLOADED, log, settings)
    }

    fn new(
        resources: ResourceSet,
        previous: Revision,
        log: ChangeLog,
        settings: &Arc<Settings>,
    ) -> Self {
        Self {
            resources: Arc::new(resources),
            previous,
            log,
            history: History::default(),
            settings: Arc::clone(settings),
            complete: Default::default(),
            taken: Default::default(),
            ends: Default::default(),
            from_previous: OnceLock::new(),
            from_older: Mutex::default(),
            hosts: OnceLock::new(),
            in_v2: OnceLock::new(),
        }
    }

    /// Returns a state of the same revision with these resources, without a log of the changes before.
    pub(super) fn without_history(
        &self,
        mut resources: ResourceSet,
        settings: &Arc<Settings>,
    ) -> Self {
        settings.counters.visited(self.resources.len());
        let revision = self.resources.revision;
        resources.revision = revision;
        let log = ChangeLog::since_only(revision);
        Self::new(resources, revision, log, settings)
    }

    /// Returns the state after `changes` and the names that differ; `None` if nothing differs.
    pub(super) fn apply(
        &self,
        revision: Revision,
        changes: ChangesOfType,
        settings: &Arc<Settings>,
    ) -> Option<(Self, Arc<[Arc<str>]>)> {
        let mut resources = ResourceSet::clone(&self.resources);
        let (mut changed, mut upserts) = (Vec::new(), Vec::new());
        for (name, new) in changes {
            settings.counters.visited(1);
            match new {
                Some(new) if resources.get(&name) == Some(&new) => continue,
                Some(new) => upserts.push(new),
                None if resources.remove(&name) => {}
                None => continue,
            }
            changed.push(name);
        }
        if changed.is_empty() {
            return None;
        }
        resources.insert_all(&upserts);
        resources.revision = revision;
        let changed: Arc<[Arc<str>]> = changed.into();
        let log = self
            .log
            .push(revision, Arc::clone(&changed), settings.limits.log_names);
        let mut after = Self::new(resources, self.resources.revision, log, settings);
        after.history = self.history.push(&self.resources, changed.len(), settings);
        if let Some(mut hosts) = self.hosts.get().cloned() {
            for name in &*changed {
                if let Some(old) = self.resources.get(name) {
                    hosts.remove(name, &old.value());
                }
                if let Some(new) = after.resources.get(name) {
                    hosts.insert(name, &new.value());
                }
            }
            // `after` is not shared yet, so its cell is empty.
            let _ = after.hosts.set(hosts);
        }
        if let Some(in_v2) = self.in_v2.get() {
            let in_v2 = in_v2.next(revision, &changed, &after.resources, settings);
            // `after` is not shared yet, so its cell is empty.
            let _ = after.in_v2.set(in_v2);
        }
        Some((after, changed))
    }

    /// Returns the state for clients of this API version.
    pub(super) fn in_version(self: &Arc<Self>, api: ApiVersion) -> &Arc<Self> {
        match api {
            ApiVersion::V2 => {
                let in_v2 = || V2State::new(self, &self.settings);
                &self.in_v2.get_or_init(in_v2).snapshot
            }
            ApiVersion::V3 => self,
        }
    }

    /// Returns the resources that v2 cannot express, with the reasons (S-63). Empty until the first client of v2 asks.
    pub fn not_representable(&self) -> impl Iterator<Item = (&Arc<str>, &Obstacles)> {
        let in_v2 = self.in_v2.get().map(|in_v2| &in_v2.not_representable);
        in_v2.into_iter().flatten()
    }

    /// Returns the resources.
    #[must_use]
    pub fn collection(&self) -> &Arc<ResourceSet> {
        &self.resources
    }

    /// Returns the latest earlier state of this version, if it is still known
    /// ([`Limits::history`](super::Limits::history)).
    #[must_use]
    pub fn at_version(&self, version: &str) -> Option<&Arc<ResourceSet>> {
        self.history.at_version(version)
    }

    /// Returns the virtual host of a route configuration that a host selects (VHDS).
    pub(crate) fn virtual_host(&self, routes: &str, host: &str) -> Option<&Arc<str>> {
        let make = || {
            let mut index = HostIndex::default();
            let hosts = self.resources.iter();
            hosts.for_each(|host| index.insert(host.name(), &host.value()));
            index
        };
        self.hosts.get_or_init(make).find(routes, host)
    }

    /// Returns the size at which responses are split.
    pub(crate) fn body_limit(&self) -> usize {
        self.settings.limits.body_bytes()
    }

    /// Returns the names that changed after `since`, with repetitions; `None` if the log was trimmed beyond it.
    pub(crate) fn changed_since(&self, since: Revision) -> Option<impl Iterator<Item = &Arc<str>>> {
        let names = self.log.since(since)?;
        Some(names.inspect(|_| self.settings.counters.visited(1)))
    }

    /// Returns the reason why a name is not served, if the source has it.
    pub(crate) fn fault(&self, resource_type: &ResourceType, name: &str) -> Option<Arc<str>> {
        self.settings.errors.get(resource_type, name)
    }

    /// Returns the difference between an older state and this one. `from` must be of the same type and lineage.
    #[must_use]
    pub fn difference(&self, from: &Arc<ResourceSet>) -> Arc<Difference> {
        let find = || {
            let (log, settings) = (&self.log, &self.settings);
            let found = Difference::between(from, &self.resources, log, settings);
            Arc::new(found)
        };
        if from.revision == self.previous {
            return Arc::clone(self.from_previous.get_or_init(find));
        }
        // The difference is computed under the lock, so that sessions which fell behind together compute it once. After
        // a panic the list still has only complete differences.
        let mut older = self
            .from_older
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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

    /// Returns all resources, encoded: in one body for SotW, split at the message limit for delta.
    ///
    /// They are encoded once for all sessions; in a group, once for the first session and once for all others.
    pub fn full(&self, form: Form) -> Arc<[Body]> {
        let form = self.effective(form);
        let kept = &self.complete[form.index()];
        let is_first = || !self.taken[form.index()].swap(true, Ordering::Relaxed);
        if kept.get().is_none() && !self.settings.is_shared && is_first() {
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
        self.settings.counters.visited(self.resources.len());
        Body::upserts(self.resources.iter(), form, limit)
    }

    /// Returns all resources except these for a SotW response, in slices of the shared body.
    pub(crate) fn full_without<'a>(
        &self,
        form: Form,
        names: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<Body> {
        let protocol = Protocol::Sotw;
        let form = self.effective(Form { protocol, ..form });
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

    /// Returns the form whose bytes a session gets: if no resource has a TTL, clients with and without TTL support
    /// share them.
    fn effective(&self, form: Form) -> Form {
        let ttl = form.ttl && self.resources.has_ttl();
        Form { ttl, ..form }
    }

    fn find_ends(&self, form: Form) -> ElementEnds {
        self.settings.counters.visited(self.resources.len());
        let ends = self.resources.iter().scan(0, |end, resource| {
            *end += resource.element(form).len();
            Some((Arc::clone(resource.name()), *end))
        });
        ends.collect()
    }
}

impl V2State {
    /// Translates all resources, once.
    fn new(current: &TypeSnapshot, settings: &Arc<Settings>) -> Self {
        let (mut resources, mut translated) = (ResourceSet::default(), Vec::new());
        let mut not_representable = OrdMap::new();
        for resource in current.resources.iter() {
            match resource.in_v2() {
                Ok(in_v2) => translated.push(Arc::clone(in_v2)),
                Err(obstacles) => {
                    let name = Arc::clone(resource.name());
                    not_representable.insert(name, Arc::clone(obstacles));
                }
            }
        }
        resources.insert_all(&translated);
        Self {
            snapshot: Arc::new(current.without_history(resources, settings)),
            not_representable,
        }
    }

    /// Returns the state after these names changed. `to` has them in v3.
    fn next(
        &self,
        revision: Revision,
        changed: &[Arc<str>],
        to: &ResourceSet,
        settings: &Arc<Settings>,
    ) -> Self {
        let mut not_representable = self.not_representable.clone();
        let mut changes = ChangesOfType::new();
        for name in changed {
            not_representable.remove(name);
            let new: Option<Arc<Resource>> = match to.get(name).map(|resource| resource.in_v2()) {
                None => None,
                Some(Ok(in_v2)) => Some(Arc::clone(in_v2)),
                Some(Err(obstacles)) => {
                    not_representable.insert(Arc::clone(name), Arc::clone(obstacles));
                    None
                }
            };
            changes.insert(Arc::clone(name), new);
        }
        let after = self.snapshot.apply(revision, changes, settings);
        let unchanged = || Arc::clone(&self.snapshot);
        Self {
            snapshot: after.map_or_else(unchanged, |(after, _)| Arc::new(after)),
            not_representable,
        }
    }
}
