//! What is held of each watched resource, and what its watchers have been told.
//!
//! ```text
//!                 ┌──────────── valid ────────────┐
//!                 ▼                               │
//!  Requested ─ valid ─► Acked ─ invalid ─► Nacked (data kept)
//!   │  │  │               │ deleted, or its time to live ended ─► DoesNotExist
//!   │  │  └─ invalid ─► Nacked (no data)
//!   │  └─ 15 s of silence ─► DoesNotExist ─ valid ─► Acked
//!   │          (30 s, Timeout: where silence means that the server is slow)
//!   └─ server lost: an error, and still Requested
//! ```
//! An error that the server sends for a resource is to it what an invalid update is (`ReceivedError` for `Nacked`). What
//! is held when something goes wrong is kept or dropped as the server's [`DataErrors`](super::DataErrors) say.

mod collection;
mod deadlines;
mod entry;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oxds_types::{ApiVersion, Kind};

pub(super) use deadlines::Due;
pub(super) use entry::Fault;
pub use entry::{Attempt, CacheState, Cached, Held};

use super::config::{AuthorityId, ServerId};
use super::{Event, WatchError};
use crate::resource::{Resource, Types};
use crate::subscription::is_of_many;
use crate::time::Instant;
use collection::Collections;
use deadlines::Deadlines;
use entry::Entry;

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<Kind, BTreeMap<Arc<str>, Entry>>,
    collections: Collections,
    deadlines: Deadlines,
    events: VecDeque<Event>,
    /// How many events there were.
    told: u64,
}

/// What becomes of what is held when something is wrong with the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// It stays in use: the error is ambient.
    Keep,
    /// It is dropped: the error takes its place.
    Drop,
}

impl Cache {
    /// Adds a watcher. `true` if it is the first.
    pub(super) fn watch(&mut self, authority: AuthorityId, kind: &Kind, name: &Arc<str>) -> bool {
        if is_of_many(name) {
            return self.collections.watch(authority, kind, name);
        }
        let entries = self.entries.entry(kind.clone()).or_default();
        let entry = entries.entry(Arc::clone(name)).or_default();
        entry.authority = authority;
        entry.watchers += 1;
        entry.watchers == 1
    }

    /// Removes a watcher. If it was the last, the entry is gone (C-116): its authority is returned.
    pub(super) fn unwatch(&mut self, kind: &Kind, name: &str) -> Option<AuthorityId> {
        if is_of_many(name) {
            let authority = self.collections.unwatch(kind, name)?;
            self.forget_members(kind);
            return Some(authority);
        }
        let entry = self.entry_mut(kind, name)?;
        entry.watchers = entry.watchers.checked_sub(1)?;
        if entry.watchers > 0 {
            return None;
        }
        let authority = entry.authority;
        if !self.collections.holds(kind, name) {
            self.forget(kind, name);
        }
        Some(authority)
    }

    fn forget(&mut self, kind: &Kind, name: &str) {
        if let Some((name, _)) = self.entry(kind, name) {
            let name = Arc::clone(name);
            self.set_silence(kind, &name, None);
            self.set_expiry(kind, &name, None);
            self.entries
                .get_mut(kind)
                .and_then(|entries| entries.remove(&name));
        }
    }

    /// What was held only through collections that nobody watches any more.
    fn forget_members(&mut self, kind: &Kind) {
        let entries = self.entries.get(kind).into_iter().flatten();
        let left = entries
            .filter(|(name, entry)| entry.watchers == 0 && !self.collections.holds(kind, name));
        let left: Vec<_> = left.map(|(name, _)| Arc::clone(name)).collect();
        for name in left {
            self.forget(kind, &name);
        }
    }

    /// All that is asked for of an authority.
    pub(super) fn names(&self, authority: AuthorityId) -> impl Iterator<Item = (&Kind, &Arc<str>)> {
        let watched = self.of(authority).filter(|(.., entry)| entry.watchers > 0);
        let names = watched.map(|(kind, name, _)| (kind, name));
        names.chain(self.collections.names(authority))
    }

    /// Whether a name of an authority has no answer yet.
    pub(super) fn has_open(&self, authority: AuthorityId) -> bool {
        let mut of = self.of(authority);
        of.any(|(_, _, entry)| entry.is_open()) || self.collections.has_open(authority)
    }

    fn of(&self, authority: AuthorityId) -> impl Iterator<Item = (&Kind, &Arc<str>, &Entry)> {
        let entries = self.entries.iter().flat_map(|(kind, entries)| {
            entries.iter().map(move |(name, entry)| (kind, name, entry))
        });
        entries.filter(move |(_, _, entry)| entry.authority == authority)
    }

    /// What this server has sent of a kind, and is held.
    pub(super) fn held_from(
        &self,
        server: ServerId,
        kind: &Kind,
    ) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.get(kind).into_iter().flatten();
        let held = entries
            .filter(move |(_, entry)| entry.held.is_some() && entry.senders.contains(&server));
        held.map(|(name, _)| name)
    }

    /// What a new watcher is to be told at once (C-107).
    pub(super) fn current(&self, kind: &Kind, name: &str) -> Vec<Event> {
        if is_of_many(name) {
            let members = self.members(kind, name);
            return members
                .flat_map(|(member, entry)| current(kind, member, entry))
                .chain(self.collections.current(kind, name))
                .collect();
        }
        let entry = self.entry(kind, name);
        entry.map_or_else(Vec::new, |(name, entry)| current(kind, name, entry))
    }

    fn members(&self, kind: &Kind, collection: &str) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let entries = self.entries.get(kind).into_iter().flatten();
        entries.filter(move |(name, _)| collection::has(collection, name))
    }

    pub(super) fn cached(&self, kind: &Kind, name: &str) -> Option<Cached<'_>> {
        self.entry(kind, name).map(|(_, entry)| entry.cached())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Kind, &Arc<str>, Cached<'_>)> {
        self.entries.iter().flat_map(|(kind, entries)| {
            entries
                .iter()
                .map(move |(name, entry)| (kind, name, entry.cached()))
        })
    }

    /// The name as it is kept, and what is held of it: an update that equals it changes nothing (C-86).
    pub(super) fn held(&self, kind: &Kind, name: &str) -> Option<(&Arc<str>, &Held)> {
        let (name, entry) = self.entry(kind, name)?;
        Some((name, entry.held.as_ref()?))
    }

    /// What is held of a name, or of the names that it stands for, as this server sent it: name and version. What its
    /// last word on was a fault is to come again, for were it to go back to what is held, nothing else would clear the
    /// fault (C-111).
    pub(super) fn versions_from(
        &self,
        server: ServerId,
        kind: &Kind,
        name: &str,
    ) -> Vec<(String, String)> {
        let version = |(name, entry): (&Arc<str>, &Entry)| {
            let held = entry.held.as_ref()?;
            let is_current = held.server == server && entry.fault.is_none();
            is_current.then(|| (name.to_string(), held.version.to_string()))
        };
        match is_of_many(name) {
            true => self.members(kind, name).filter_map(version).collect(),
            false => self
                .entry(kind, name)
                .and_then(version)
                .into_iter()
                .collect(),
        }
    }

    /// A server has been asked for these; from now on its silence counts.
    pub(super) fn requested(
        &mut self,
        server: ServerId,
        kind: &Kind,
        names: &[String],
        until: Instant,
    ) {
        for name in names {
            if let Some((name, entry)) = self.entry(kind, name)
                && entry.is_open()
                && entry.silence.is_none()
            {
                let name = Arc::clone(name);
                self.set_silence(kind, &name, Some((server, until)));
            }
        }
    }

    /// A new type reads the kind: it reads what is held, too. What it does not take stays as it is; whoever watches it as
    /// this type is told why there is none.
    pub(super) fn reread(&mut self, kind: &Kind, types: &Types) {
        for entry in self
            .entries
            .get_mut(kind)
            .into_iter()
            .flat_map(BTreeMap::values_mut)
        {
            if let Some(held) = &mut entry.held
                && let Ok(read) = types.read(kind, held.resource.value().clone())
            {
                held.resource = read;
            }
        }
    }

    /// A valid resource that is not the one held. It lives as long as it says.
    pub(super) fn accept(
        &mut self,
        server: ServerId,
        kind: &Kind,
        name: &Arc<str>,
        mut held: Held,
        ttl: Option<Duration>,
    ) {
        if let Some(moved) = held.resource.moved_to(server) {
            held.resource = moved;
        }
        let expiry = ttl.map(|ttl| held.updated + ttl);
        let Some(entry) = self.entry_or_member(kind, name) else {
            return;
        };
        let told = Ok(held.resource.clone());
        entry.held = Some(held);
        entry.add_sender(server);
        entry.settle();
        self.set_silence(kind, name, None);
        self.set_expiry(kind, name, expiry);
        self.tell(changed(kind, name, told));
    }

    /// The resource held came again (C-86, C-111), from this server, in these versions: its own and the API's.
    pub(super) fn confirm(
        &mut self,
        (server, server_uri): (ServerId, &Arc<str>),
        kind: &Kind,
        name: &Arc<str>,
        (version, api): (&Arc<str>, ApiVersion),
        expiry: Option<Instant>,
    ) {
        let Some(entry) = self.entry_mut(kind, name) else {
            return;
        };
        let mut moved = None;
        if let Some(held) = &mut entry.held {
            held.version = Arc::clone(version);
            held.api = api;
            held.server_uri = Arc::clone(server_uri);
            held.server = server;
            moved = held.resource.moved_to(server);
            if let Some(moved) = &moved {
                held.resource = moved.clone();
            }
        }
        entry.add_sender(server);
        let is_settled = entry.settle();
        self.set_silence(kind, name, None);
        self.set_expiry(kind, name, expiry);
        match moved {
            // C-144: the same bytes, and yet another cluster.
            Some(resource) => self.tell(changed(kind, name, Ok(resource))),
            None if is_settled => self.tell(ambient(kind, name, None)),
            None => {}
        }
    }

    /// A sign of life of what is held: it lives on for so long.
    pub(super) fn refresh(&mut self, kind: &Kind, name: &str, expiry: Option<Instant>) {
        if let Some((name, entry)) = self.entry(kind, name)
            && entry.held.is_some()
        {
            let name = Arc::clone(name);
            self.set_expiry(kind, &name, expiry);
        }
    }

    /// Something is wrong with a resource. Watchers are told once.
    pub(super) fn fail(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        fault: Fault,
        error: WatchError,
        loss: Loss,
    ) {
        if is_of_many(name) {
            let event = self.collections.fail(kind, name, error);
            return event.into_iter().for_each(|event| self.tell(event));
        }
        let Some(entry) = self.entry_or_member(kind, name) else {
            return;
        };
        entry.fault = Some(fault);
        if loss == Loss::Drop && entry.held.take().is_some() {
            entry.senders.clear();
            entry.kept = false;
            // What is said to who loses it is news, whatever they were told before.
            entry.error = None;
            self.set_expiry(kind, name, None);
        }
        self.set_silence(kind, name, None);
        self.tell_error(kind, name, error);
        let is_nothing = |(_, entry): (_, &Entry)| entry.watchers == 0 && entry.held.is_none();
        if self.entry(kind, name).is_some_and(is_nothing) {
            self.forget(kind, name);
        }
    }

    /// The server no longer has it, but what it had stays in use (gRFC A53).
    pub(super) fn ignore_deletion(&mut self, kind: &Kind, name: &Arc<str>) {
        let entry = self
            .entry_mut(kind, name)
            .filter(|entry| entry.held.is_some());
        if entry.is_some_and(|entry| !std::mem::replace(&mut entry.kept, true)) {
            self.tell(Event::DeletionIgnored {
                kind: kind.clone(),
                name: Arc::clone(name),
            });
        }
    }

    /// A server has said something of a kind: what was wrong with its collections is over.
    pub(super) fn settle_collections(&mut self, kind: &Kind) {
        for event in self.collections.settle(kind) {
            self.tell(event);
        }
    }

    /// The stream to the server ended: silence on it means nothing any more.
    pub(super) fn handle_closed(&mut self, server: ServerId) {
        for (kind, name) in self.deadlines.silent() {
            let entry = self.entry(&kind, &name);
            if entry
                .is_some_and(|(_, entry)| entry.silence.is_some_and(|(asked, _)| asked == server))
            {
                self.set_silence(&kind, &name, None);
            }
        }
    }

    /// All that is held from the server is as the server has it: what was wrong with the way there is so no more.
    pub(super) fn handle_current(&mut self, server: ServerId) {
        let mut settled = Vec::new();
        for (kind, entries) in &mut self.entries {
            for (name, entry) in entries {
                let is_of = entry
                    .held
                    .as_ref()
                    .is_some_and(|held| held.server == server);
                if is_of && entry.fault.is_none() && entry.error.take().is_some() {
                    settled.push(ambient(kind, name, None));
                }
            }
        }
        settled.into_iter().for_each(|event| self.tell(event));
    }

    /// No server of the authority can be reached: an error for whom nothing is held, a remark for the others (C-91).
    pub(super) fn handle_unreachable(
        &mut self,
        authority: AuthorityId,
        error: impl Fn(&Kind, &str) -> WatchError,
    ) {
        let names = self.names(authority);
        let names = names.map(|(kind, name)| (kind.clone(), Arc::clone(name)));
        for (kind, name) in names.collect::<Vec<_>>() {
            let error = error(&kind, &name);
            if is_of_many(&name) {
                let has_members = self.members(&kind, &name).next().is_some();
                let event = self.collections.lose(&kind, &name, error, has_members);
                event.into_iter().for_each(|event| self.tell(event));
            } else {
                self.tell_error(&kind, &name, error);
            }
        }
    }

    /// What has become due, and the server that it is due to.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Due, ServerId, Kind, Arc<str>)> {
        loop {
            let (due, kind, name) = self.deadlines.pop(now)?;
            let Some(entry) = self.entry_mut(&kind, &name) else {
                continue;
            };
            let server = match due {
                Due::Silence => entry.silence.take().map(|(server, _)| server),
                Due::Expiry => entry
                    .expiry
                    .take()
                    .and(entry.held.as_ref())
                    .map(|held| held.server),
            };
            if let Some(server) = server {
                return Some((due, server, kind, name));
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How many events there were.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    fn tell(&mut self, event: Event) {
        self.told += 1;
        self.events.push_back(event);
    }

    /// Tells watchers of an error, once: repeating it says nothing new (C-110).
    fn tell_error(&mut self, kind: &Kind, name: &Arc<str>, error: WatchError) {
        let Some(entry) = self.entry_mut(kind, name) else {
            return;
        };
        if entry.error.as_ref() == Some(&error) {
            return;
        }
        entry.error = Some(error.clone());
        let event = match entry.held.is_some() {
            true => ambient(kind, name, Some(error)),
            false => changed(kind, name, Err(error)),
        };
        self.tell(event);
    }

    fn set_silence(&mut self, kind: &Kind, name: &Arc<str>, new: Option<(ServerId, Instant)>) {
        let Some(entry) = self.entries.get_mut(kind).and_then(|of| of.get_mut(name)) else {
            return;
        };
        let (old, at) = (entry.silence, |silence: Option<(_, Instant)>| {
            silence.map(|(_, at)| at)
        });
        entry.silence = new;
        self.deadlines
            .replace(Due::Silence, kind, name, at(old), at(new));
    }

    fn set_expiry(&mut self, kind: &Kind, name: &Arc<str>, new: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(kind).and_then(|of| of.get_mut(name)) else {
            return;
        };
        let old = std::mem::replace(&mut entry.expiry, new);
        self.deadlines.replace(Due::Expiry, kind, name, old, new);
    }

    fn entry(&self, kind: &Kind, name: &str) -> Option<(&Arc<str>, &Entry)> {
        self.entries.get(kind)?.get_key_value(name)
    }

    fn entry_mut(&mut self, kind: &Kind, name: &str) -> Option<&mut Entry> {
        self.entries.get_mut(kind)?.get_mut(name)
    }

    /// The entry of a name, which begins with its first resource if it is watched only by way of a collection.
    fn entry_or_member(&mut self, kind: &Kind, name: &Arc<str>) -> Option<&mut Entry> {
        let is_new = self.entry(kind, name).is_none();
        let authority = match is_new {
            true => Some(self.collections.authority(kind, name)?),
            false => None,
        };
        let entries = self.entries.entry(kind.clone()).or_default();
        let entry = entries.entry(Arc::clone(name)).or_default();
        if let Some(authority) = authority {
            entry.authority = authority;
        }
        Some(entry)
    }
}

fn current(kind: &Kind, name: &Arc<str>, entry: &Entry) -> Vec<Event> {
    let told = match (&entry.held, &entry.error) {
        (Some(held), _) => Ok(held.resource.clone()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => return Vec::new(),
    };
    let mut events = vec![changed(kind, name, told)];
    if let (Some(_), Some(error)) = (&entry.held, &entry.error) {
        events.push(ambient(kind, name, Some(error.clone())));
    }
    events
}

fn changed(kind: &Kind, name: &Arc<str>, resource: Result<Resource, WatchError>) -> Event {
    Event::Changed {
        kind: kind.clone(),
        name: Arc::clone(name),
        resource,
    }
}

fn ambient(kind: &Kind, name: &Arc<str>, error: Option<WatchError>) -> Event {
    Event::Ambient {
        kind: kind.clone(),
        name: Arc::clone(name),
        error,
    }
}
