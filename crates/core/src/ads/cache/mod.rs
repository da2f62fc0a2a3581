//! Cache of the client: the watched resources, their watchers, and their timers.
//!
//! ```text
//!                 ┌──────────── valid ────────────┐
//!                 ▼                               │
//!  Requested ─ valid ─► Acked ─ invalid ─► Nacked (resource kept)
//!   │  │  │               │ deleted, or its TTL ended ─► DoesNotExist
//!   │  │  └─ invalid ─► Nacked (no resource)
//!   │  └─ no answer within 15 s ─► DoesNotExist ─ valid ─► Acked
//!   │          (within 30 s ─► Timeout, if the server's timeout is transient)
//!   └─ server unreachable: an error for watchers, the state stays Requested
//! ```
//! A `ResourceError` from the server acts like an invalid update, with `ReceivedError` in place of `Nacked`. Whether an
//! error keeps or drops the cached resource is configured per server; see [`DataErrors`](super::DataErrors).
//!
//! This file has the watchers and the queries, `updates` what servers do, `entry` one watched name with its timers,
//! `collection` the watches of more than one name, `status` what CSDS shows. A resource costs its bytes, its name, its
//! parsed forms, and one `Entry`: a test counts the allocations.

mod collection;
mod entry;
mod status;
mod updates;

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::selects_many;

pub(super) use entry::{Expiry, Timer, UpdateFailure};
pub(super) use status::Delivery;
pub use status::{CacheState, CacheStatus, CachedResource, FailedUpdate, VersionText};

use self::collection::{WatchedCollections, has_member};
use self::entry::{Entries, Entry, Timers};
use super::authority_id::AuthorityId;
use super::config::Server;
use super::event::{ClientEvent, EventQueue};
use crate::resource::ResourceParsers;
use crate::sample::SAMPLE;
use crate::server_id::ServerId;
use crate::time::Instant;

/// All watched resources.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: Entries,
    collections: WatchedCollections,
    /// Names whose last watcher has left since [`end_unwatched`](Self::end_unwatched). They count one watcher until
    /// then.
    unwatched: BTreeSet<(ResourceType, Arc<str>)>,
    timers: Timers,
    events: EventQueue,
    /// Servers whose routes may rewrite the authority of RPCs.
    trusted: BTreeSet<ServerId>,
}

impl Cache {
    /// Returns an empty cache of the resources of these servers.
    pub(super) fn new(servers: &[Server]) -> Self {
        let servers = servers.iter().enumerate();
        let trusted = servers.filter(|(_, server)| server.is_trusted);
        Self {
            trusted: trusted.map(|(index, _)| ServerId::at(index)).collect(),
            ..Self::default()
        }
    }

    /// Whether the invariants hold; for debug assertions.
    pub(super) fn is_consistent(&self) -> bool {
        // An entry without watchers is the cached member of a watched collection.
        let mut entries = self.entries.iter().take(SAMPLE);
        let is_needed = entries.all(|(resource_type, name, entry)| {
            let is_member = || self.collections.has(resource_type, name);
            entry.watchers > 0 || entry.resource().is_some() && is_member()
        });
        // A name whose last watcher has left counts this one.
        let mut unwatched = self.unwatched.iter().take(SAMPLE);
        let is_counted = unwatched.all(|(resource_type, name)| {
            let entry = self.entries.get(resource_type, name);
            let watchers = if selects_many(name) {
                let collection = self.collections.get(resource_type, name);
                collection.map(|(_, watchers)| watchers)
            } else {
                entry.map(|(_, entry)| entry.watchers)
            };
            watchers == Some(1)
        });
        is_needed && is_counted && self.timers.is_consistent(&self.entries)
    }

    /// Returns every name that is subscribed, with its authority.
    pub(super) fn subscribed(
        &self,
    ) -> impl Iterator<Item = (AuthorityId, &ResourceType, &Arc<str>)> {
        let watched = self.entries.iter().filter(|(.., entry)| entry.watchers > 0);
        let names =
            watched.map(|(resource_type, name, entry)| (entry.authority, resource_type, name));
        self.collections.iter().chain(names)
    }

    /// Returns the authority that subscribes to this name itself.
    pub(super) fn subscriber(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        if selects_many(name) {
            let collection = self.collections.get(resource_type, name);
            return collection.map(|(authority, _)| authority);
        }
        let (_, entry) = self.entries.get(resource_type, name)?;
        (entry.watchers > 0).then_some(entry.authority)
    }

    /// Adds a watcher. Returns whether its name must be subscribed: it is the first one.
    pub(super) fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> bool {
        // The watcher takes the place of the one that left: the name is still subscribed, and its resource cached.
        if self.take_unwatched(resource_type, name) {
            return false;
        }
        if selects_many(name) {
            return self.collections.watch(authority, resource_type, name);
        }
        let entry = self
            .entries
            .get_or_insert(resource_type, name, || Some(authority));
        entry.is_some_and(|entry| {
            entry.authority = authority;
            entry.watchers += 1;
            entry.watchers == 1
        })
    }

    fn take_unwatched(&mut self, resource_type: &ResourceType, name: &Arc<str>) -> bool {
        !self.unwatched.is_empty()
            && self
                .unwatched
                .remove(&(resource_type.clone(), Arc::clone(name)))
    }

    /// Removes a watcher. The name of the last one stays subscribed and cached until
    /// [`end_unwatched`](Self::end_unwatched).
    pub(super) fn unwatch(&mut self, resource_type: &ResourceType, name: &str) {
        let name: Arc<str> = name.into();
        let watchers = if selects_many(&name) {
            self.collections.watchers(resource_type, &name)
        } else {
            let entry = self.entries.get_mut(resource_type, &name);
            entry.map(|entry| &mut entry.watchers)
        };
        match watchers {
            Some(1) => {
                self.unwatched.insert((resource_type.clone(), name));
            }
            Some(watchers) => *watchers = watchers.saturating_sub(1),
            None => {}
        }
    }

    /// Removes the next name without watchers, with its resource (C-116). Returns it, to be unsubscribed.
    ///
    /// This happens when requests are written: as long as the server does not know that a name is unsubscribed, it
    /// would not send the resource again.
    pub(super) fn end_unwatched(&mut self) -> Option<(AuthorityId, ResourceType, Arc<str>)> {
        while let Some((resource_type, name)) = self.unwatched.pop_first() {
            if let Some(authority) = self.end(&resource_type, &name) {
                return Some((authority, resource_type, name));
            }
        }
        None
    }

    fn end(&mut self, resource_type: &ResourceType, name: &Arc<str>) -> Option<AuthorityId> {
        if selects_many(name) {
            let authority = self.collections.remove(resource_type, name)?;
            self.remove_unwatched_members(resource_type);
            return Some(authority);
        }
        let entry = self.entries.get_mut(resource_type, name)?;
        entry.watchers = 0;
        let authority = entry.authority;
        // A member of a watched collection stays cached. A name without a resource would count as unanswered, although
        // no watcher waits for it.
        if entry.resource().is_none() || !self.collections.has(resource_type, name) {
            self.remove_entry(resource_type, name);
        }
        Some(authority)
    }

    fn remove_entry(&mut self, resource_type: &ResourceType, name: &str) {
        if let Some((name, mut entry)) = self.entries.remove(resource_type, name) {
            let timers = &mut self.timers;
            timers.set_timeout(resource_type, &name, &mut entry, None);
            timers.set_expiry(resource_type, &name, &mut entry, None);
            if entry.take_ignored_deletion() {
                let event = ClientEvent::deletion_over(resource_type, &name, false);
                self.events.push(event);
            }
        }
    }

    /// Returns the authority of a name: its own, or that of a collection of which it is a member.
    pub(super) fn authority(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        let entry = self.entries.get(resource_type, name);
        entry
            .map(|(_, entry)| entry.authority)
            .or_else(|| self.collections.authority(resource_type, name))
    }

    /// Returns the cached resources of a type that are watched as members of a collection only: name, authority, and
    /// the server that sent the resource last.
    pub(super) fn mere_members(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, AuthorityId, ServerId)> {
        let entries = self
            .collections
            .is_any_watched(resource_type)
            .then(|| self.entries.of_type(resource_type));
        let members = entries.into_iter().flatten();
        members.filter_map(|(name, entry)| {
            let cached = entry.resource().filter(|_| entry.watchers == 0)?;
            Some((name, entry.authority, cached.server))
        })
    }

    /// Removes entries that were cached only for collections that have no watcher any more.
    fn remove_unwatched_members(&mut self, resource_type: &ResourceType) {
        let entries = self.entries.of_type(resource_type);
        let unwatched = entries.filter(|(name, entry)| {
            entry.watchers == 0 && !self.collections.has(resource_type, name)
        });
        let unwatched: Vec<_> = unwatched.map(|(name, _)| Arc::clone(name)).collect();
        for name in unwatched {
            self.remove_entry(resource_type, &name);
        }
    }

    /// Parses the cached resources of a type again, after a parser was added.
    ///
    /// A resource that the parsers do not accept stays as it is; watchers of the new type get the reason.
    pub(super) fn reparse(&mut self, resource_type: &ResourceType, parsers: &ResourceParsers) {
        for entry in self.entries.of_type_mut(resource_type) {
            if let Some(cached) = entry.resource_mut() {
                cached.resource.reparse(resource_type, parsers);
                cached.move_to_sender(&self.trusted);
            }
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.poll()
    }

    /// Returns the number of events since the client was made.
    pub(super) fn events_pushed(&self) -> u64 {
        self.events.pushed()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Removes and returns the next timer that is due, with the server that it concerns.
    pub(super) fn pop_timer(
        &mut self,
        now: Instant,
    ) -> Option<(Timer, ServerId, ResourceType, Arc<str>)> {
        loop {
            let (timer, resource_type, name) = self.timers.pop(now)?;
            let Some(entry) = self.entries.get_mut(&resource_type, &name) else {
                continue;
            };
            let server = match timer {
                Timer::ResourceTimeout => {
                    let timeout = entry.timeout();
                    entry.set_timeout(None);
                    timeout.map(|(server, _)| server)
                }
                Timer::Ttl => {
                    entry.set_expiry(None);
                    entry.resource().map(|cached| cached.server)
                }
            };
            if let Some(server) = server {
                return Some((timer, server, resource_type, name));
            }
        }
    }

    /// Returns every name that an authority subscribes to.
    pub(super) fn names(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        let watched = self
            .of_authority(authority)
            .filter(|(.., entry)| entry.watchers > 0);
        let names = watched.map(|(resource_type, name, _)| (resource_type, name));
        names.chain(self.collections.names(authority))
    }

    /// Returns whether a name of an authority has no answer yet.
    pub(super) fn has_unanswered(&self, authority: AuthorityId) -> bool {
        self.of_authority(authority)
            .any(|(.., entry)| entry.is_unanswered())
            || self.collections.has_unanswered(authority)
    }

    fn of_authority(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &Entry)> {
        let entries = self.entries.iter();
        entries.filter(move |(.., entry)| entry.authority == authority)
    }

    /// Returns the cached names of a type that this server ever sent.
    pub(super) fn names_from(
        &self,
        server: ServerId,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.of_type(resource_type);
        let sent = entries.filter(move |(_, entry)| entry.was_sent_by(server));
        sent.map(|(name, _)| name)
    }

    /// Returns the events for a new watcher (C-107).
    pub(super) fn current(&self, resource_type: &ResourceType, name: &str) -> Vec<ClientEvent> {
        if selects_many(name) {
            let members = self.members(resource_type, name);
            return members
                .flat_map(|(member, entry)| current_events(resource_type, member, entry))
                .chain(self.collections.current(resource_type, name))
                .collect();
        }
        let entry = self.entries.get(resource_type, name);
        entry.map_or_else(Vec::new, |(name, entry)| {
            current_events(resource_type, name, entry)
        })
    }

    /// Returns the cached members of a collection.
    fn members(
        &self,
        resource_type: &ResourceType,
        collection: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let entries = self.entries.of_type(resource_type);
        entries.filter(move |(name, _)| has_member(collection, name))
    }

    pub(super) fn status(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<CacheStatus<'_>> {
        self.entries
            .get(resource_type, name)
            .map(|(_, entry)| entry.status())
    }

    pub(super) fn statuses(
        &self,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, CacheStatus<'_>)> {
        let entries = self.entries.iter();
        entries.map(|(resource_type, name, entry)| (resource_type, name, entry.status()))
    }

    /// Returns the cached resource with the shared copy of its name.
    pub(super) fn resource(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(&Arc<str>, &CachedResource)> {
        let (name, entry) = self.entries.get(resource_type, name)?;
        Some((name, entry.resource()?))
    }

    /// Returns the `initial_resource_versions` of a subscribed name: name and version of each cached resource that this
    /// server sent last.
    pub(super) fn initial_versions(
        &self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &str,
    ) -> Vec<(String, String)> {
        let is_collection = selects_many(name);
        let version = |(name, entry): (&Arc<str>, &Entry)| {
            let cached = entry.resource().filter(|cached| cached.server == server)?;
            let version = match entry.failure() {
                None => cached.version.to_string(),
                // A member of a collection is listed even after a failed update, without a version: if the resource was
                // deleted since, only a listed name can be in `removed_resources`.
                Some(_) if is_collection => String::new(),
                // After a failed update the server must send the resource again. If it returned to the cached version,
                // a listed version would suppress that, and nothing else would clear the failure (C-111).
                Some(_) => return None,
            };
            Some((name.to_string(), version))
        };
        if is_collection {
            self.members(resource_type, name)
                .filter_map(version)
                .collect()
        } else {
            let entry = self.entries.get(resource_type, name);
            entry.and_then(version).into_iter().collect()
        }
    }
}

fn current_events(
    resource_type: &ResourceType,
    name: &Arc<str>,
    entry: &Entry,
) -> Vec<ClientEvent> {
    let resource = match (entry.resource(), entry.error()) {
        (Some(cached), _) => Ok(cached.resource.clone()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => return Vec::new(),
    };
    let mut events = vec![ClientEvent::changed(resource_type, name, resource)];
    // gRFC A88: a cached resource with an error is a resource followed by an ambient error (C-107).
    if let (Some(_), Some(error)) = (entry.resource(), entry.error()) {
        let error = Some(error.clone());
        events.push(ClientEvent::ambient(resource_type, name, error));
    }
    events
}
