//! What servers say of resources.

use std::sync::Arc;
use std::time::Duration;

use oxds_types::{ApiVersion, Kind};

use super::entry::{Entry, Fault};
use super::outbox::{ambient, changed};
use super::{Cache, Held, Loss, VersionText};
use crate::ads::config::ServerId;
use crate::ads::{Event, WatchError};
use crate::subscription::is_of_many;
use crate::time::Instant;

impl Cache {
    /// A valid resource that is not the one held. It lives as long as it says.
    pub(in crate::ads) fn accept(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        mut held: Held,
        ttl: Option<Duration>,
    ) {
        if let Some(moved) = held.resource.moved_to(held.server) {
            held.resource = moved;
        }
        let expiry = ttl.map(|ttl| held.updated + ttl);
        let authority = || self.collections.authority(kind, name);
        let Some(entry) = self.entries.get_or_begin(kind, name, authority) else {
            return;
        };
        let told = Ok(held.resource.clone());
        entry.accept(held);
        self.deadlines.set_silence(kind, name, entry, None);
        self.deadlines.set_expiry(kind, name, entry, expiry);
        self.outbox.tell(changed(kind, name, told));
    }

    /// The resource held came again (C-86, C-111), from this server, in these versions: its own and the API's.
    pub(in crate::ads) fn confirm(
        &mut self,
        server: ServerId,
        kind: &Kind,
        name: &Arc<str>,
        (version, api): (VersionText, ApiVersion),
        expiry: Option<Instant>,
    ) {
        let Some(entry) = self.entries.get_mut(kind, name) else {
            return;
        };
        let mut moved = None;
        let is_settled = entry.confirm(|held| {
            held.version = version;
            held.api = api;
            held.server = server;
            moved = held.resource.moved_to(server);
            if let Some(moved) = &moved {
                held.resource = moved.clone();
            }
        });
        self.deadlines.set_silence(kind, name, entry, None);
        self.deadlines.set_expiry(kind, name, entry, expiry);
        match moved {
            // C-144: the same bytes, and yet another cluster.
            Some(resource) => self.outbox.tell(changed(kind, name, Ok(resource))),
            None if is_settled => self.outbox.tell(ambient(kind, name, None)),
            None => {}
        }
    }

    /// A sign of life of what is held: it lives on for so long.
    pub(in crate::ads) fn refresh(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        expiry: Option<Instant>,
    ) {
        let entry = self.entries.get_mut(kind, name);
        if let Some(entry) = entry.filter(|entry| entry.held().is_some()) {
            self.deadlines.set_expiry(kind, name, entry, expiry);
        }
    }

    /// Something is wrong with a resource. Watchers are told once.
    pub(in crate::ads) fn fail(
        &mut self,
        kind: &Kind,
        name: &Arc<str>,
        fault: Fault,
        error: WatchError,
        loss: Loss,
    ) {
        if is_of_many(name) {
            let event = self.collections.fail(kind, name, error);
            return self.outbox.tell_all(event);
        }
        let authority = || self.collections.authority(kind, name);
        let Some(entry) = self.entries.get_or_begin(kind, name, authority) else {
            return;
        };
        entry.fail(fault);
        if loss == Loss::Drop && entry.lose() {
            self.deadlines.set_expiry(kind, name, entry, None);
        }
        self.deadlines.set_silence(kind, name, entry, None);
        let is_nothing = entry.watchers == 0 && entry.held().is_none();
        self.outbox.tell_all(tell_error(kind, name, entry, error));
        if is_nothing {
            self.forget(kind, name);
        }
    }

    /// The server no longer has it, but what it had stays in use (gRFC A53).
    pub(in crate::ads) fn ignore_deletion(&mut self, kind: &Kind, name: &Arc<str>) {
        if self.entries.get_mut(kind, name).is_some_and(Entry::keep) {
            self.outbox.tell(Event::DeletionIgnored {
                kind: kind.clone(),
                name: Arc::clone(name),
            });
        }
    }

    /// A server has said something of a kind: what was wrong with its collections is over.
    pub(in crate::ads) fn settle_collections(&mut self, kind: &Kind) {
        let settled = self.collections.settle(kind);
        self.outbox.tell_all(settled);
    }
}

/// What watchers are told of an error, once: repeating it says nothing new (C-110).
pub(super) fn tell_error(
    kind: &Kind,
    name: &Arc<str>,
    entry: &mut Entry,
    error: WatchError,
) -> Option<Event> {
    if !entry.tell(&error) {
        return None;
    }
    Some(match entry.held().is_some() {
        true => ambient(kind, name, Some(error)),
        false => changed(kind, name, Err(error)),
    })
}
