//! What is held of each watched resource, and what its watchers have been told.
//!
//! ```text
//!                 ┌──────────── valid ────────────┐
//!                 ▼                               │
//!  Requested ─ valid ─► Acked ─ invalid ─► Nacked (data kept)
//!   │  │  │               │ deleted
//!   │  │  └─ invalid ─► Nacked (no data)
//!   │  └─ 15 s of silence ─► DoesNotExist ─ valid ─► Acked
//!   └─ server lost: an error, and still Requested
//! ```
//! An error that the server sends for a resource is to it what an invalid update is (`ReceivedError` for `Nacked`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_types::{ApiVersion, Kind};

use super::config::{AuthorityId, ServerId};
use super::{Event, Reason, WatchError};
use crate::resource::Resource;
use crate::time::Instant;

/// The state of a watched resource: `envoy.admin.v3.ClientResourceStatus` (gRFC A40, A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// Asked for; no answer yet.
    Requested,
    /// There is none.
    DoesNotExist,
    /// Held, and up to date.
    Acked,
    /// The last update was rejected; what came before it, if anything, is held.
    Nacked,
    /// The server answered with an error of its own; what came before it, if anything, is held.
    ReceivedError,
}

/// A watched resource, for who wants to look (CSDS).
#[derive(Debug, Clone)]
pub struct Cached<'a> {
    /// Its state.
    pub state: CacheState,
    /// What is held.
    pub held: Option<&'a Held>,
    /// What was wrong with the last update.
    pub error: Option<&'a WatchError>,
    /// The last update, if nothing came of it.
    pub attempt: Option<&'a Attempt>,
}

/// An update that was rejected, or that was an error of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The version of its response.
    pub version: String,
    /// When it came.
    pub at: Instant,
}

/// A resource that was accepted.
#[derive(Debug, Clone)]
pub struct Held {
    /// Its bytes, as they came.
    pub value: Bytes,
    /// Its view.
    pub resource: Resource,
    /// Its version: its own where differences are asked for, else that of the response that brought it.
    pub version: String,
    /// The version of the API whose type URL it came with (C-55).
    pub api: ApiVersion,
    /// The server that sent it last.
    pub server_uri: Arc<str>,
    /// The same, among the client's servers.
    pub server: ServerId,
    /// When it came.
    pub updated: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<Kind, BTreeMap<Arc<str>, Entry>>,
    events: VecDeque<Event>,
}

#[derive(Debug, Default)]
struct Entry {
    authority: AuthorityId,
    watchers: usize,
    held: Option<Held>,
    /// The servers that have sent it: an absence says something there, and nowhere else (DEC-7).
    senders: BTreeSet<ServerId>,
    /// There is none, or it was rejected, or the server is lost; the last of these.
    error: Option<WatchError>,
    /// The last answer was no resource that could be used.
    fault: Option<(Fault, Attempt)>,
    /// When whose silence is an answer. Runs while a live stream has asked (gRFC A57).
    silence: Option<(ServerId, Instant)>,
    /// The deletion was ignored (gRFC A53).
    kept: bool,
}

/// What was wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// We rejected the resource.
    Rejected,
    /// The server sent an error instead of it.
    Reported,
}

impl Cache {
    /// Adds a watcher. `true` if it is the first.
    pub(super) fn watch(&mut self, authority: AuthorityId, kind: &Kind, name: &Arc<str>) -> bool {
        let entries = self.entries.entry(kind.clone()).or_default();
        let entry = entries.entry(Arc::clone(name)).or_default();
        entry.authority = authority;
        entry.watchers += 1;
        entry.watchers == 1
    }

    /// Removes a watcher. If it was the last, the entry is gone (C-116): its authority is returned.
    pub(super) fn unwatch(&mut self, kind: &Kind, name: &str) -> Option<AuthorityId> {
        let entries = self.entries.get_mut(kind)?;
        let entry = entries.get_mut(name)?;
        entry.watchers -= 1;
        if entry.watchers > 0 {
            return None;
        }
        entries.remove(name).map(|entry| entry.authority)
    }

    /// All that is watched of an authority.
    pub(super) fn names(&self, authority: AuthorityId) -> impl Iterator<Item = (&Kind, &Arc<str>)> {
        self.of(authority).map(|(kind, name, _)| (kind, name))
    }

    /// Whether a name of an authority has no answer yet.
    pub(super) fn has_open(&self, authority: AuthorityId) -> bool {
        self.of(authority).any(|(_, _, entry)| entry.is_open())
    }

    fn of(&self, authority: AuthorityId) -> impl Iterator<Item = (&Kind, &Arc<str>, &Entry)> {
        let entries = self.entries.iter().flat_map(|(kind, entries)| {
            entries.iter().map(move |(name, entry)| (kind, name, entry))
        });
        entries.filter(move |(_, _, entry)| entry.authority == authority)
    }

    /// Whether a resource is held that this server has sent before.
    pub(super) fn is_held_from(&self, server: ServerId, kind: &Kind, name: &str) -> bool {
        self.entry(kind, name)
            .is_some_and(|(_, entry)| entry.held.is_some() && entry.senders.contains(&server))
    }

    /// What a new watcher is to be told at once (C-107).
    pub(super) fn current(&self, kind: &Kind, name: &str) -> Vec<Event> {
        let Some((name, entry)) = self.entry(kind, name) else {
            return Vec::new();
        };
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

    /// The bytes held of a resource: an update that equals them changes nothing (C-86).
    pub(super) fn value(&self, kind: &Kind, name: &str) -> Option<&Bytes> {
        let (_, entry) = self.entry(kind, name)?;
        entry.held.as_ref().map(|held| &held.value)
    }

    /// The version of what is held as this server sent it, if its last word on it was no fault: otherwise it is to send
    /// it again, for were it to go back to what is held, nothing else would clear the fault (C-111).
    pub(super) fn version_from(&self, server: ServerId, kind: &Kind, name: &str) -> Option<String> {
        let (_, entry) = self.entry(kind, name)?;
        let held = entry.held.as_ref()?;
        let is_current = held.server == server && entry.fault.is_none();
        is_current.then(|| held.version.clone())
    }

    /// A server has been asked for these; from now on its silence counts.
    pub(super) fn requested(
        &mut self,
        server: ServerId,
        kind: &Kind,
        names: &[String],
        now: Instant,
        patience: Duration,
    ) {
        for name in names {
            if let Some(entry) = self.entry_mut(kind, name)
                && entry.is_open()
                && entry.silence.is_none()
            {
                entry.silence = Some((server, now + patience));
            }
        }
    }

    /// A valid resource that is not the one held.
    pub(super) fn accept(&mut self, server: ServerId, kind: &Kind, name: &Arc<str>, held: Held) {
        let Some(entry) = self.entry_mut(kind, name) else {
            return;
        };
        let mut held = held;
        if let Some(moved) = held.resource.moved_to(server) {
            held.resource = moved;
        }
        let told = Ok(held.resource.clone());
        entry.held = Some(held);
        entry.senders.insert(server);
        entry.settle();
        self.events.push_back(changed(kind, name, told));
    }

    /// The resource held came again (C-86, C-111), from this server, in these versions: its own and the API's.
    pub(super) fn confirm(
        &mut self,
        (server, server_uri): (ServerId, &Arc<str>),
        kind: &Kind,
        name: &Arc<str>,
        (version, api): (&str, ApiVersion),
    ) {
        let Some(entry) = self.entry_mut(kind, name) else {
            return;
        };
        let mut moved = None;
        if let Some(held) = &mut entry.held {
            version.clone_into(&mut held.version);
            held.api = api;
            held.server_uri = Arc::clone(server_uri);
            held.server = server;
            moved = held.resource.moved_to(server);
            if let Some(moved) = &moved {
                held.resource = moved.clone();
            }
        }
        entry.senders.insert(server);
        let is_settled = entry.settle();
        match moved {
            // C-144: the same bytes, and yet another cluster.
            Some(resource) => self.events.push_back(changed(kind, name, Ok(resource))),
            None if is_settled => self.events.push_back(ambient(kind, name, None)),
            None => {}
        }
    }

    /// An invalid update (gRFC A46): what is held stays in use.
    pub(super) fn reject(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        error: WatchError,
        attempt: Attempt,
    ) {
        self.handle_fault((Fault::Rejected, attempt), kind, name, error);
    }

    /// The server sent an error instead of the resource (gRFC A88): what is held stays in use.
    pub(super) fn handle_reported(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        error: WatchError,
        attempt: Attempt,
    ) {
        self.handle_fault((Fault::Reported, attempt), kind, name, error);
    }

    fn handle_fault(
        &mut self,
        fault: (Fault, Attempt),
        kind: &Kind,
        name: &Arc<str>,
        error: WatchError,
    ) {
        if let Some(entry) = self.entry_mut(kind, name) {
            entry.fault = Some(fault);
            entry.silence = None;
            self.fail(kind, name, error);
        }
    }

    /// The server no longer has it. `true` if the deletion is new.
    pub(super) fn delete(&mut self, kind: &Kind, name: &Arc<str>, error: WatchError) -> bool {
        let Some(entry) = self.entry_mut(kind, name) else {
            return false;
        };
        if entry.held.take().is_none() {
            return false;
        }
        entry.senders.clear();
        entry.settle();
        self.fail(kind, name, error);
        true
    }

    /// The server says that there is none, whether something is held or not (C-278).
    pub(super) fn handle_none(&mut self, kind: &Kind, name: &Arc<str>, error: WatchError) {
        if !self.delete(kind, name, error.clone())
            && let Some(entry) = self.entry_mut(kind, name)
        {
            entry.silence = None;
            entry.fault = None;
            self.fail(kind, name, error);
        }
    }

    /// The server no longer has it, but what it had stays in use (gRFC A53).
    pub(super) fn ignore_deletion(&mut self, kind: &Kind, name: &Arc<str>) {
        let entry = self
            .entry_mut(kind, name)
            .filter(|entry| entry.held.is_some());
        if entry.is_some_and(|entry| !std::mem::replace(&mut entry.kept, true)) {
            self.events.push_back(Event::DeletionIgnored {
                kind: kind.clone(),
                name: Arc::clone(name),
            });
        }
    }

    /// The stream to the server ended: silence on it means nothing any more.
    pub(super) fn handle_closed(&mut self, server: ServerId) {
        for entry in self.entries.values_mut().flat_map(BTreeMap::values_mut) {
            entry.silence = entry.silence.filter(|(asked, _)| *asked != server);
        }
    }

    /// All that is held from the server is as the server has it: what was wrong with the way there is so no more.
    pub(super) fn handle_current(&mut self, server: ServerId) {
        for (kind, entries) in &mut self.entries {
            for (name, entry) in entries {
                let is_of = entry
                    .held
                    .as_ref()
                    .is_some_and(|held| held.server == server);
                if is_of && entry.fault.is_none() && entry.error.take().is_some() {
                    self.events.push_back(ambient(kind, name, None));
                }
            }
        }
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
            self.fail(&kind, &name, error);
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        error: impl Fn(ServerId, &Kind, &str) -> WatchError,
    ) {
        let mut silent = Vec::new();
        for (kind, entries) in &mut self.entries {
            for (name, entry) in entries {
                if let Some((server, _)) = entry.silence.take_if(|(_, at)| *at <= now) {
                    silent.push((server, kind.clone(), Arc::clone(name)));
                }
            }
        }
        for (server, kind, name) in silent {
            let error = error(server, &kind, &name);
            self.fail(&kind, &name, error);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let entries = self.entries.values().flat_map(BTreeMap::values);
        entries
            .filter_map(|entry| entry.silence.map(|(_, at)| at))
            .min()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Tells watchers of an error, once: repeating it says nothing new (C-110).
    fn fail(&mut self, kind: &Kind, name: &Arc<str>, error: WatchError) {
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
        self.events.push_back(event);
    }

    fn entry(&self, kind: &Kind, name: &str) -> Option<(&Arc<str>, &Entry)> {
        self.entries.get(kind)?.get_key_value(name)
    }

    fn entry_mut(&mut self, kind: &Kind, name: &str) -> Option<&mut Entry> {
        self.entries.get_mut(kind)?.get_mut(name)
    }
}

impl Entry {
    /// No server has answered for it yet.
    fn is_open(&self) -> bool {
        self.held.is_none() && self.state() == CacheState::Requested
    }

    /// An answer came: nothing is wrong any more. `true` if something was.
    fn settle(&mut self) -> bool {
        self.silence = None;
        self.fault = None;
        self.kept = false;
        self.error.take().is_some()
    }

    fn state(&self) -> CacheState {
        let fault = self.fault.as_ref().map(|(fault, _)| fault);
        match (fault, &self.held, &self.error) {
            (Some(Fault::Rejected), ..) => CacheState::Nacked,
            (Some(Fault::Reported), ..) => CacheState::ReceivedError,
            (None, Some(_), _) => CacheState::Acked,
            (None, None, Some(error)) if error.reason == Reason::DoesNotExist => {
                CacheState::DoesNotExist
            }
            (None, None, _) => CacheState::Requested,
        }
    }

    fn cached(&self) -> Cached<'_> {
        Cached {
            state: self.state(),
            held: self.held.as_ref(),
            error: self.error.as_ref(),
            attempt: self.fault.as_ref().map(|(_, attempt)| attempt),
        }
    }
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
