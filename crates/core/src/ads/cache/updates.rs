//! Updates of the cache: what servers send, report or delete.

use std::sync::Arc;
use std::time::Duration;

use oxds_types::ResourceType;
use oxds_types::name::selects_many;

use super::entry::{Entry, Expiry, UpdateFailure};
use super::{Cache, CachedResource, Delivery};
use crate::ads::authority_id::AuthorityId;
use crate::ads::config::ErrorEffect;
use crate::ads::error::WatchError;
use crate::ads::event::ClientEvent;
use crate::server_id::ServerId;
use crate::time::Instant;

impl Cache {
    /// Caches a valid resource whose bytes are not those in the cache.
    pub(crate) fn accept(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        mut cached: CachedResource,
        unusual_type_url: Option<Arc<str>>,
        ttl: Option<Duration>,
    ) {
        cached.move_to_sender(&self.trusted);
        let expiry = ttl.map(|ttl| Expiry::new(cached.updated, ttl));
        let authority = || self.collections.authority(resource_type, name);
        let Some(entry) = self.entries.get_or_insert(resource_type, name, authority) else {
            return;
        };
        let resource = Ok(cached.resource.clone());
        if entry.take_ignored_deletion() {
            self.events
                .push(ClientEvent::deletion_over(resource_type, name, true));
        }
        entry.accept(cached);
        entry.set_unusual_type_url(unusual_type_url);
        // gRFC A88: any answer, valid or not, stops the resource timeout (C-95).
        self.timers.set_timeout(resource_type, name, entry, None);
        self.timers.set_expiry(resource_type, name, entry, expiry);
        let event = ClientEvent::changed(resource_type, name, resource);
        self.events.push(event);
    }

    /// Records that the cached resource was sent again.
    pub(crate) fn confirm(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        delivery: Delivery,
        expiry: Option<Expiry>,
    ) {
        let Some(entry) = self.entries.get_mut(resource_type, name) else {
            return;
        };
        if entry.take_ignored_deletion() {
            self.events
                .push(ClientEvent::deletion_over(resource_type, name, true));
        }
        let mut moved = None;
        // The same bytes after a NACK clear the failure (gRFC A88, C-111).
        let had_error = entry.confirm(|cached| {
            cached.version = delivery.version;
            cached.api = delivery.api;
            cached.server = delivery.server;
            let is_changed = cached.move_to_sender(&self.trusted);
            moved = is_changed.then(|| cached.resource.clone());
        });
        entry.set_unusual_type_url(delivery.unusual_type_url);
        self.timers.set_timeout(resource_type, name, entry, None);
        self.timers.set_expiry(resource_type, name, entry, expiry);
        match moved {
            // gRFC A71: a cluster reports its load to the server that sent it, so equal bytes from another server are a
            // different cluster (C-144). gRFC A81: the trust in the server counts for its routes (C-195).
            Some(resource) => {
                let event = ClientEvent::changed(resource_type, name, Ok(resource));
                self.events.push(event);
            }
            None if had_error => {
                let event = ClientEvent::ambient(resource_type, name, None);
                self.events.push(event);
            }
            None => {}
        }
    }

    /// Applies a heartbeat: the cached resource gets a new end of its TTL, or none.
    pub(crate) fn refresh(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        expiry: Option<Expiry>,
    ) {
        let entry = self.entries.get_mut(resource_type, name);
        if let Some(entry) = entry.filter(|entry| entry.resource().is_some()) {
            self.timers.set_expiry(resource_type, name, entry, expiry);
        }
    }

    /// Records a failed update. Watchers get the error, unless they have the same one already.
    pub(crate) fn fail(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        failure: UpdateFailure,
        error: WatchError,
        effect: ErrorEffect,
    ) {
        if selects_many(name) {
            let event = self.collections.fail(resource_type, name, error, false);
            return self.events.extend(event);
        }
        let authority = || self.collections.authority(resource_type, name);
        let Some(entry) = self.entries.get_or_insert(resource_type, name, authority) else {
            return;
        };
        entry.fail(failure);
        if effect == ErrorEffect::Drop && entry.drop_resource() {
            self.timers.set_expiry(resource_type, name, entry, None);
        }
        self.timers.set_timeout(resource_type, name, entry, None);
        let is_unused = entry.watchers == 0 && entry.resource().is_none();
        self.push_error(resource_type, name, error);
        if is_unused {
            self.remove_entry(resource_type, name);
        }
    }

    /// Records a deletion that is ignored: the cached resource stays in use (gRFC A53).
    pub(crate) fn ignore_deletion(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        if self
            .entries
            .get_mut(resource_type, name)
            .is_some_and(Entry::ignore_deletion)
        {
            self.events.push(ClientEvent::DeletionIgnored {
                resource_type: resource_type.clone(),
                name: Arc::clone(name),
            });
        }
    }

    /// Records a response of a type: its collections are answered, and their errors are over.
    pub(crate) fn handle_collections_answered(&mut self, resource_type: &ResourceType) {
        let events = self.collections.handle_answered(resource_type);
        self.events.extend(events);
    }

    /// Records that names were requested on a live stream: their resource timeout runs until `until`.
    pub(crate) fn requested(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        names: &[String],
        until: Instant,
    ) {
        for name in names {
            let found = self.entries.get(resource_type, name);
            let waiting =
                found.filter(|(_, entry)| entry.is_unanswered() && entry.timeout().is_none());
            let Some((name, _)) = waiting else { continue };
            let name = Arc::clone(name);
            if let Some(entry) = self.entries.get_mut(resource_type, &name) {
                let timeout = Some((server, until));
                self.timers
                    .set_timeout(resource_type, &name, entry, timeout);
            }
        }
    }

    /// Starts the resource timeout of a cached resource that this server is about to send, or does not have.
    pub(crate) fn expect(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &Arc<str>,
        until: Instant,
    ) {
        let entry = self.entries.get_mut(resource_type, name);
        if let Some(entry) = entry.filter(|entry| entry.timeout().is_none()) {
            let timeout = Some((server, until));
            self.timers.set_timeout(resource_type, name, entry, timeout);
        }
    }

    /// Handles the end of a stream: resource timeouts of its server stop (gRFC A57, C-95).
    pub(crate) fn handle_closed(&mut self, server: ServerId) {
        for (resource_type, name) in self.timers.running_timeouts() {
            if let Some(entry) = self.entries.get_mut(&resource_type, &name)
                && entry.timeout().is_some_and(|(asked, _)| asked == server)
            {
                self.timers.set_timeout(&resource_type, &name, entry, None);
            }
        }
    }

    /// Records that all resources of the server are current: connectivity errors of their watchers are over.
    pub(crate) fn handle_current(&mut self, server: ServerId) {
        for (resource_type, name, entry) in self.entries.iter_mut() {
            let is_from = entry
                .resource()
                .is_some_and(|cached| cached.server == server);
            if is_from && entry.failure().is_none() && entry.clear_error() {
                let event = ClientEvent::ambient(resource_type, name, None);
                self.events.push(event);
            }
        }
    }

    /// Handles the loss of all servers of an authority.
    ///
    /// gRFC A57, A88: watchers without a cached resource get an error, the others an ambient error (C-91).
    pub(crate) fn handle_unreachable(
        &mut self,
        authority: AuthorityId,
        error: impl Fn(&ResourceType, &str) -> WatchError,
    ) {
        let names = self.names(authority);
        let names = names.map(|(resource_type, name)| (resource_type.clone(), Arc::clone(name)));
        for (resource_type, name) in names.collect::<Vec<_>>() {
            let error = error(&resource_type, &name);
            if selects_many(&name) {
                let has_members = self.members(&resource_type, &name).next().is_some();
                let event = self
                    .collections
                    .fail(&resource_type, &name, error, has_members);
                self.events.extend(event);
            } else {
                self.push_error(&resource_type, &name, error);
            }
        }
    }

    /// Pushes the event for an error, unless watchers have the same error already (C-110).
    fn push_error(&mut self, resource_type: &ResourceType, name: &Arc<str>, error: WatchError) {
        let Some(entry) = self.entries.get_mut(resource_type, name) else {
            return;
        };
        if entry.set_error(&error) {
            self.events.push(if entry.resource().is_some() {
                ClientEvent::ambient(resource_type, name, Some(error))
            } else {
                ClientEvent::changed(resource_type, name, Err(error))
            });
        }
    }
}
