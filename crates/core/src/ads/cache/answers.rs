//! What servers say of resources.

use std::sync::Arc;
use std::time::Duration;

use oxds_types::name::selects_many;
use oxds_types::{ApiVersion, ResourceType};

use super::entry::{Entry, Expiry, Fault};
use super::outbox::{ambient, changed};
use super::{Cache, CachedResource, Loss, VersionText};
use crate::ads::config::ServerId;
use crate::ads::{ClientEvent, WatchError};

impl Cache {
    /// A valid resource that is not the one held. It lives as long as it says.
    pub(in crate::ads) fn accept(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        mut held: CachedResource,
        ttl: Option<Duration>,
    ) {
        if let Some(moved) = held.resource.moved_to(held.server) {
            held.resource = moved;
        }
        let expiry = ttl.map(|ttl| Expiry::new(held.updated, ttl));
        let authority = || self.collections.authority(resource_type, name);
        let Some(entry) = self.entries.get_or_begin(resource_type, name, authority) else {
            return;
        };
        let told = Ok(held.resource.clone());
        entry.accept(held);
        self.deadlines.set_silence(resource_type, name, entry, None);
        self.deadlines
            .set_expiry(resource_type, name, entry, expiry);
        self.outbox.tell(changed(resource_type, name, told));
    }

    /// The resource held came again (C-86, C-111), from this server, in these versions: its own and the API's.
    pub(in crate::ads) fn confirm(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &Arc<str>,
        (version, api): (VersionText, ApiVersion),
        expiry: Option<Expiry>,
    ) {
        let Some(entry) = self.entries.get_mut(resource_type, name) else {
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
        self.deadlines.set_silence(resource_type, name, entry, None);
        self.deadlines
            .set_expiry(resource_type, name, entry, expiry);
        match moved {
            // C-144: the same bytes, and yet another cluster.
            Some(resource) => self.outbox.tell(changed(resource_type, name, Ok(resource))),
            None if is_settled => self.outbox.tell(ambient(resource_type, name, None)),
            None => {}
        }
    }

    /// A sign of life of what is held: it lives on for so long.
    pub(in crate::ads) fn refresh(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        expiry: Option<Expiry>,
    ) {
        let entry = self.entries.get_mut(resource_type, name);
        if let Some(entry) = entry.filter(|entry| entry.held().is_some()) {
            self.deadlines
                .set_expiry(resource_type, name, entry, expiry);
        }
    }

    /// Something is wrong with a resource. Watchers are told once.
    pub(in crate::ads) fn fail(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        fault: Fault,
        error: WatchError,
        loss: Loss,
    ) {
        if selects_many(name) {
            let event = self.collections.fail(resource_type, name, error);
            return self.outbox.tell_all(event);
        }
        let authority = || self.collections.authority(resource_type, name);
        let Some(entry) = self.entries.get_or_begin(resource_type, name, authority) else {
            return;
        };
        entry.fail(fault);
        if loss == Loss::Drop && entry.lose() {
            self.deadlines.set_expiry(resource_type, name, entry, None);
        }
        self.deadlines.set_silence(resource_type, name, entry, None);
        let is_nothing = entry.watchers == 0 && entry.held().is_none();
        self.outbox
            .tell_all(tell_error(resource_type, name, entry, error));
        if is_nothing {
            self.forget(resource_type, name);
        }
    }

    /// The server no longer has it, but what it had stays in use (gRFC A53).
    pub(in crate::ads) fn ignore_deletion(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) {
        if self
            .entries
            .get_mut(resource_type, name)
            .is_some_and(Entry::keep)
        {
            self.outbox.tell(ClientEvent::DeletionIgnored {
                resource_type: resource_type.clone(),
                name: Arc::clone(name),
            });
        }
    }

    /// A server has said something of a kind: what was wrong with its collections is over.
    pub(in crate::ads) fn settle_collections(&mut self, resource_type: &ResourceType) {
        let settled = self.collections.settle(resource_type);
        self.outbox.tell_all(settled);
    }
}

/// What watchers are told of an error, once: repeating it says nothing new (C-110).
pub(super) fn tell_error(
    resource_type: &ResourceType,
    name: &Arc<str>,
    entry: &mut Entry,
    error: WatchError,
) -> Option<ClientEvent> {
    if !entry.tell(&error) {
        return None;
    }
    Some(match entry.held().is_some() {
        true => ambient(resource_type, name, Some(error)),
        false => changed(resource_type, name, Err(error)),
    })
}
