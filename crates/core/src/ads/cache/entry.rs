//! Cache entries: one per watched name, their map, and their timers.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;
use std::time::Duration;

use oxds_types::ResourceType;

use super::status::{CacheState, CacheStatus, CachedResource, FailedUpdate};
use crate::ads::authority_id::AuthorityId;
use crate::ads::error::WatchError;
use crate::sample::SAMPLE;
use crate::server_id::ServerId;
use crate::time::Instant;

/// A watched name. There is one per resource, so its size matters: fields that most entries lack are in [`Extra`].
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) authority: AuthorityId,
    pub(super) watchers: u32,
    resource: Option<CachedResource>,
    extra: Option<Box<Extra>>,
}

/// State that few entries have, or that entries have for a short time.
#[derive(Debug, Default, PartialEq)]
struct Extra {
    /// The error that watchers have.
    error: Option<WatchError>,
    /// Failure of the last update.
    failure: Option<UpdateFailure>,
    /// Server and end of the resource timeout. It runs while the name is requested on a live stream (gRFC A57).
    timeout: Option<(ServerId, Instant)>,
    /// End of the TTL.
    expiry: Option<Expiry>,
    /// Servers that sent the resource before its last sender did.
    earlier_senders: Vec<ServerId>,
    /// Whether a deletion was ignored (gRFC A53).
    deletion_ignored: bool,
    /// Type URL with which the resource came, if it is not the usual one of its type.
    unusual_type_url: Option<Arc<str>>,
}

/// Failure of the last update of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpdateFailure {
    /// The client NACKed the resource.
    Nacked(FailedUpdate),
    /// The server reported an error in place of the resource.
    ReceivedError(FailedUpdate),
    /// The resource does not exist: it was deleted, or the resource timeout ended.
    DoesNotExist,
    /// The resource timeout ended, and may be transient.
    Timeout,
}

/// End of a resource's TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// Time at which the resource ends, unless the server sends it or a heartbeat before.
    pub(super) at: Instant,
    /// TTL that the server sent last.
    pub(super) ttl: Duration,
}

impl Expiry {
    /// Returns the expiry of a resource that was sent or refreshed `now`.
    pub(crate) fn new(now: Instant, ttl: Duration) -> Self {
        Self { at: now + ttl, ttl }
    }
}

impl Entry {
    pub(super) fn new(authority: AuthorityId) -> Self {
        Self {
            authority,
            watchers: 0,
            resource: None,
            extra: None,
        }
    }

    /// Changes the extra state, and drops it if nothing is left in it.
    fn change<T>(&mut self, change: impl FnOnce(&mut Extra) -> T) -> T {
        let extra = self.extra.take();
        let mut extra = extra.map_or_else(Extra::default, |extra| *extra);
        let result = change(&mut extra);
        self.extra = (extra != Extra::default()).then(|| Box::new(extra));
        result
    }

    pub(super) fn resource(&self) -> Option<&CachedResource> {
        self.resource.as_ref()
    }

    pub(super) fn resource_mut(&mut self) -> Option<&mut CachedResource> {
        self.resource.as_mut()
    }

    /// Returns the error that watchers have.
    pub(super) fn error(&self) -> Option<&WatchError> {
        self.extra.as_ref()?.error.as_ref()
    }

    /// Returns the failure of the last update.
    pub(super) fn failure(&self) -> Option<&UpdateFailure> {
        self.extra.as_ref()?.failure.as_ref()
    }

    /// Returns the server and the end of the resource timeout, while it runs.
    pub(super) fn timeout(&self) -> Option<(ServerId, Instant)> {
        self.extra.as_ref()?.timeout
    }

    /// Returns the end of the TTL.
    pub(super) fn expiry(&self) -> Option<Expiry> {
        self.extra.as_ref()?.expiry
    }

    /// Returns whether no server has answered for the name yet.
    pub(super) fn is_unanswered(&self) -> bool {
        self.resource.is_none() && self.failure().is_none()
    }

    /// Returns whether this server ever sent the cached resource. Only its responses can delete it by absence:
    /// a fallback server may never have known it (C-164).
    pub(super) fn was_sent_by(&self, server: ServerId) -> bool {
        let before = || {
            let extra = self.extra.as_ref();
            extra.is_some_and(|extra| extra.earlier_senders.contains(&server))
        };
        let resource = self.resource.as_ref();
        resource.is_some_and(|resource| resource.server == server || before())
    }

    /// Records the type URL of the cached resource, if it is not the usual one of its type.
    pub(super) fn set_unusual_type_url(&mut self, type_url: Option<Arc<str>>) {
        if type_url.is_some() || self.extra.is_some() {
            self.change(|extra| extra.unusual_type_url = type_url);
        }
    }

    /// Replaces the cached resource, remembers who sent the old one, and clears error and failure.
    pub(super) fn accept(&mut self, resource: CachedResource) {
        let sender = self.resource.replace(resource).map(|before| before.server);
        self.remember(sender);
        self.clear_failure();
    }

    /// Applies `update` to the cached resource, which was sent again. Returns whether watchers had an error, which is
    /// over.
    pub(super) fn confirm(&mut self, update: impl FnOnce(&mut CachedResource)) -> bool {
        let sender = self.resource.as_ref().map(|resource| resource.server);
        if let Some(resource) = &mut self.resource {
            update(resource);
        }
        self.remember(sender);
        self.clear_failure()
    }

    fn remember(&mut self, sender: Option<ServerId>) {
        if let Some(sender) = sender.filter(|sender| !self.was_sent_by(*sender)) {
            self.change(|extra| extra.earlier_senders.push(sender));
        }
    }

    fn clear_failure(&mut self) -> bool {
        self.extra.is_some()
            && self.change(|extra| {
                extra.failure = None;
                extra.error.take().is_some()
            })
    }

    pub(super) fn fail(&mut self, failure: UpdateFailure) {
        self.change(|extra| extra.failure = Some(failure));
    }

    /// Drops the cached resource. Returns `false` if nothing was cached. The next error is new to watchers, even if
    /// they had the same one while the resource was in use.
    pub(super) fn drop_resource(&mut self) -> bool {
        let is_dropped = self.resource.take().is_some();
        if is_dropped {
            self.change(|extra| {
                extra.earlier_senders.clear();
                extra.deletion_ignored = false;
                extra.unusual_type_url = None;
                extra.error = None;
            });
        }
        is_dropped
    }

    /// Records the error that watchers get. Returns `false` if they have the same one already.
    pub(super) fn set_error(&mut self, error: &WatchError) -> bool {
        let is_new = self.error() != Some(error);
        if is_new {
            self.change(|extra| extra.error = Some(error.clone()));
        }
        is_new
    }

    /// Clears the error of watchers. Returns `false` if they had none.
    pub(super) fn clear_error(&mut self) -> bool {
        self.error().is_some() && self.change(|extra| extra.error.take().is_some())
    }

    /// Records an ignored deletion. Returns `false` if it was recorded before, or nothing is cached.
    pub(super) fn ignore_deletion(&mut self) -> bool {
        self.resource.is_some()
            && self.change(|extra| !std::mem::replace(&mut extra.deletion_ignored, true))
    }

    /// Clears the record of an ignored deletion. Returns whether there was one.
    pub(super) fn take_ignored_deletion(&mut self) -> bool {
        self.extra.is_some() && self.change(|extra| std::mem::take(&mut extra.deletion_ignored))
    }

    /// Sets the resource timeout. Use [`Timers::set_timeout`], which keeps the schedule up to date.
    pub(super) fn set_timeout(&mut self, timeout: Option<(ServerId, Instant)>) {
        self.change(|extra| extra.timeout = timeout);
    }

    /// Sets the end of the TTL. Use [`Timers::set_expiry`], which keeps the schedule up to date.
    pub(super) fn set_expiry(&mut self, expiry: Option<Expiry>) {
        self.change(|extra| extra.expiry = expiry);
    }

    /// Whether the invariants hold; for debug assertions.
    fn is_consistent(&self) -> bool {
        let Some(extra) = self.extra.as_deref() else {
            return true;
        };
        // What describes a resource ends with it.
        let is_of_resource = extra.expiry.is_some()
            || extra.deletion_ignored
            || extra.unusual_type_url.is_some()
            || !extra.earlier_senders.is_empty();
        *extra != Extra::default()
            && (self.resource.is_some() || !is_of_resource)
            && (extra.failure.is_none() || extra.error.is_some())
    }

    pub(super) fn status(&self) -> CacheStatus<'_> {
        CacheStatus {
            // gRFC A88: the state is that of the last update, whether or not a resource is in use (C-113).
            state: match (self.failure(), &self.resource) {
                (Some(UpdateFailure::Nacked(_)), _) => CacheState::Nacked,
                (Some(UpdateFailure::ReceivedError(_)), _) => CacheState::ReceivedError,
                (Some(UpdateFailure::DoesNotExist), _) => CacheState::DoesNotExist,
                (Some(UpdateFailure::Timeout), _) => CacheState::Timeout,
                (None, Some(_)) => CacheState::Acked,
                (None, None) => CacheState::Requested,
            },
            held: self.resource.as_ref(),
            ttl: self.expiry().map(|expiry| expiry.ttl),
            unusual_type_url: self
                .extra
                .as_ref()
                .and_then(|extra| extra.unusual_type_url.as_deref()),
            error: self.error(),
            attempt: match self.failure() {
                Some(UpdateFailure::Nacked(update) | UpdateFailure::ReceivedError(update)) => {
                    Some(update)
                }
                _ => None,
            },
        }
    }
}

/// Entries of one type. They are boxed because a B-tree that is filled in order has half of its slots empty.
type EntriesByName = BTreeMap<Arc<str>, Box<Entry>>;

/// All entries, by type and name.
#[derive(Debug, Default)]
pub(super) struct Entries {
    resource_types: BTreeMap<ResourceType, EntriesByName>,
}

impl Entries {
    /// Returns the entry with the shared copy of its name.
    pub(super) fn get(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(&Arc<str>, &Entry)> {
        let (name, entry) = self
            .resource_types
            .get(resource_type)?
            .get_key_value(name)?;
        Some((name, entry))
    }

    pub(super) fn get_mut(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<&mut Entry> {
        let entry = self.resource_types.get_mut(resource_type)?.get_mut(name)?;
        Some(entry)
    }

    /// Returns the entry of a name; makes it if `authority` returns one.
    pub(super) fn get_or_insert(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        authority: impl FnOnce() -> Option<AuthorityId>,
    ) -> Option<&mut Entry> {
        let of_type = self
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        Some(match of_type.entry(Arc::clone(name)) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(vacant) => vacant.insert(Box::new(Entry::new(authority()?))),
        })
    }

    pub(super) fn remove(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(Arc<str>, Box<Entry>)> {
        self.resource_types
            .get_mut(resource_type)?
            .remove_entry(name)
    }

    /// Returns the entries of a type, by name.
    pub(super) fn of_type(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let of_type = self.resource_types.get(resource_type).into_iter().flatten();
        of_type.map(|(name, entry)| (name, &**entry))
    }

    pub(super) fn of_type_mut(
        &mut self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = &mut Entry> {
        let of_type = self.resource_types.get_mut(resource_type).into_iter();
        of_type
            .flat_map(BTreeMap::values_mut)
            .map(|entry| &mut **entry)
    }

    /// Returns all entries, by type and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &Entry)> {
        self.resource_types
            .iter()
            .flat_map(|(resource_type, of_type)| {
                let of_type = of_type.iter();
                of_type.map(move |(name, entry)| (resource_type, name, &**entry))
            })
    }

    pub(super) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &mut Entry)> {
        self.resource_types
            .iter_mut()
            .flat_map(|(resource_type, of_type)| {
                let of_type = of_type.iter_mut();
                of_type.map(move |(name, entry)| (resource_type, name, &mut **entry))
            })
    }
}

/// Timer of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The server has not answered for the resource (gRFC A27).
    ResourceTimeout,
    /// The TTL of the resource ends (xDS protocol, "Resource TTL").
    Ttl,
}

/// Schedule of all timers. Each entry has its own times as well; the next timer is found in O(log n).
#[derive(Debug, Default)]
pub(super) struct Timers {
    times: BTreeSet<(Instant, Timer, ResourceType, Arc<str>)>,
}

impl Timers {
    /// Starts, moves or stops the resource timeout of an entry.
    pub(super) fn set_timeout(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        entry: &mut Entry,
        new: Option<(ServerId, Instant)>,
    ) {
        let old = entry.timeout();
        if old != new {
            entry.set_timeout(new);
            let at = |timeout: Option<(_, Instant)>| timeout.map(|(_, at)| at);
            self.replace(
                Timer::ResourceTimeout,
                resource_type,
                name,
                (at(old), at(new)),
            );
        }
    }

    /// Starts, moves or stops the TTL of an entry.
    pub(super) fn set_expiry(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        entry: &mut Entry,
        new: Option<Expiry>,
    ) {
        let old = entry.expiry();
        if old != new {
            entry.set_expiry(new);
            let at = |expiry: Option<Expiry>| expiry.map(|expiry| expiry.at);
            self.replace(Timer::Ttl, resource_type, name, (at(old), at(new)));
        }
    }

    fn replace(
        &mut self,
        timer: Timer,
        resource_type: &ResourceType,
        name: &Arc<str>,
        (old, new): (Option<Instant>, Option<Instant>),
    ) {
        let time = |at| (at, timer, resource_type.clone(), Arc::clone(name));
        if let Some(at) = old {
            self.times.remove(&time(at));
        }
        if let Some(at) = new {
            self.times.insert(time(at));
        }
    }

    /// Whether each timer is that of its entry, and each entry is consistent and has its timers; for debug assertions.
    pub(super) fn is_consistent(&self, entries: &Entries) -> bool {
        let times = |entry: &Entry| {
            let timeout = entry.timeout().map(|(_, at)| at);
            let expiry = entry.expiry().map(|expiry| expiry.at);
            [(Timer::ResourceTimeout, timeout), (Timer::Ttl, expiry)]
        };
        let mut scheduled = self.times.iter().take(SAMPLE);
        let mut entries_checked = entries.iter().take(SAMPLE);
        scheduled.all(|(at, timer, resource_type, name)| {
            let entry = entries.get(resource_type, name);
            entry.is_some_and(|(_, entry)| times(entry).contains(&(*timer, Some(*at))))
        }) && entries_checked.all(|(resource_type, name, entry)| {
            let mut running = times(entry).into_iter();
            entry.is_consistent()
                && running.all(|(timer, at)| {
                    let time = |at| (at, timer, resource_type.clone(), Arc::clone(name));
                    at.is_none_or(|at| self.times.contains(&time(at)))
                })
        })
    }

    /// Removes and returns the next timer that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Timer, ResourceType, Arc<str>)> {
        let first = self.times.first().filter(|(at, ..)| *at <= now)?;
        let (_, timer, resource_type, name) = first.clone();
        self.times.pop_first();
        Some((timer, resource_type, name))
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.times.first().map(|(at, ..)| *at)
    }

    /// Returns the names whose resource timeout runs.
    pub(super) fn running_timeouts(&self) -> Vec<(ResourceType, Arc<str>)> {
        let timeouts = self
            .times
            .iter()
            .filter(|(_, timer, ..)| *timer == Timer::ResourceTimeout);
        timeouts
            .map(|(_, _, resource_type, name)| (resource_type.clone(), Arc::clone(name)))
            .collect()
    }
}
