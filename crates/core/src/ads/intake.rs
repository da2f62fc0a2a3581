//! What comes from servers: judged, answered, and put into the cache.

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};

use super::cache::{CachedResource, Expiry, FailedUpdate, Fault, Loss};
use super::config::ServerId;
use super::error::{error, reported};
use super::response::{self, Accepted, Judge, Judged, Rejected};
use super::{Client, ResponseSummary, WatchErrorReason};
use crate::time::Instant;

impl Client {
    /// A response came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    ///
    /// Returns what was in it, unless it is not ours to judge.
    pub fn handle_response(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DiscoveryResponse,
    ) -> Option<ResponseSummary> {
        let resource_type = self.known_type(server, &response.type_url)?;
        let version = response.version_info;
        let mut judged = self
            .judge(&resource_type)
            .full_state(&version, response.resources);
        judged.report(response.resource_errors);
        let updates = self.answer(server, &resource_type, &version, response.nonce, &judged)?;
        self.delete_absent(server, &resource_type, &judged);
        self.apply(now, server, &resource_type, &version, judged);
        Some(updates)
    }

    /// A difference came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    ///
    /// Returns what was in it, unless it is not ours to judge.
    pub fn handle_delta_response(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DeltaDiscoveryResponse,
    ) -> Option<ResponseSummary> {
        let resource_type = self.known_type(server, &response.type_url)?;
        let mut judged = self.judge(&resource_type).difference(response.resources);
        judged.report(response.resource_errors);
        let version = response.system_version_info;
        let updates = self.answer(server, &resource_type, &version, response.nonce, &judged)?;
        for name in &response.removed_resources {
            let name = Arc::from(self.config.names.spelling(name));
            self.remove(server, &resource_type, &name);
        }
        self.apply(now, server, &resource_type, &version, judged);
        Some(updates)
    }

    /// The kind of a response, if it was ever subscribed to.
    fn known_type(&mut self, server: ServerId, type_url: &str) -> Option<ResourceType> {
        let stream = &mut self.channels.get_mut(server).stream;
        match ResourceType::from_type_url(type_url) {
            Some((resource_type, _)) if stream.knows(&resource_type) => Some(resource_type),
            // C-78: neither an ACK nor a NACK would be right.
            _ => {
                if stream.handle_unknown_type() {
                    self.channels.settle_on(&self.cache, server);
                }
                None
            }
        }
    }

    fn judge<'a>(&'a self, resource_type: &'a ResourceType) -> Judge<'a> {
        Judge {
            resource_type,
            types: &self.config.types,
            cache: &self.cache,
            duplicates: self.config.duplicates,
            names: self.config.names,
        }
    }

    /// Acknowledges or rejects. `None` if the response is a late one, which says nothing (C-160).
    fn answer(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        version: &str,
        nonce: String,
        judged: &Judged,
    ) -> Option<ResponseSummary> {
        self.counters.decoded += judged.decoded;
        self.counters.unchanged += judged.unchanged;
        let updates = ResponseSummary::of(resource_type, judged);
        let stream = &mut self.channels.get_mut(server).stream;
        let nack = updates.rejection.clone();
        if !stream.handle_response(resource_type, version.to_owned(), nonce, nack) {
            return None;
        }
        self.channels.settle_on(&self.cache, server);
        self.channels.supersede(server, resource_type);
        self.cache.settle_collections(resource_type);
        Some(updates)
    }

    fn apply(
        &mut self,
        now: Instant,
        server: ServerId,
        resource_type: &ResourceType,
        version: &str,
        judged: Judged,
    ) {
        for accepted in judged.accepted {
            self.accept(now, server, resource_type, accepted);
        }
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let (from, node_id) = (&channel.server, &self.config.node.id);
        for (name, ttl) in judged.heartbeats {
            let expiry = ttl
                .filter(|_| self.config.resource_ttl)
                .map(|ttl| Expiry::new(now, ttl));
            if channel.stream.is_subscribed(resource_type, &name) {
                cache.refresh(resource_type, &name, expiry);
            }
        }
        for Rejected { invalid, version } in judged.rejected {
            let Some(name) = &invalid.name else { continue };
            let text = format!("is invalid: {}", response::without_name(&invalid));
            let error = error(
                from,
                node_id,
                WatchErrorReason::Invalid,
                &text,
                resource_type,
                name,
            );
            let version = version.to_string();
            let fault = Fault::Rejected(FailedUpdate { version, at: now });
            cache.fail(resource_type, name, fault, error, from.loss_by_error(false));
        }
        for (name, status) in judged.reported {
            let error = reported(from, node_id, &status, resource_type, &name);
            let version = version.to_owned();
            let fault = Fault::Reported(FailedUpdate { version, at: now });
            let loss = from.loss_by_error(error.reason == WatchErrorReason::Unreachable);
            cache.fail(resource_type, &name, fault, error, loss);
        }
        let nobody_has = judged.nothing_by_alias;
        for name in nobody_has {
            self.remove(server, resource_type, &name);
        }
    }

    /// A valid resource, under each of its names that was asked for.
    fn accept(
        &mut self,
        now: Instant,
        server: ServerId,
        resource_type: &ResourceType,
        accepted: Accepted,
    ) {
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let Accepted {
            name,
            aliases,
            version,
            api,
            ttl,
            content,
        } = accepted;
        let ttl = ttl.filter(|_| self.config.resource_ttl);
        let Some(resource) = content else {
            // C-80: what was not asked for is not kept.
            if channel.stream.is_subscribed(resource_type, &name) {
                let expiry = ttl.map(|ttl| Expiry::new(now, ttl));
                cache.confirm(server, resource_type, &name, (version, api), expiry);
            }
            return;
        };
        let names = std::iter::once(name).chain(aliases);
        for name in names.filter(|name| channel.stream.is_subscribed(resource_type, name)) {
            let held = CachedResource {
                resource: resource.clone(),
                version: version.clone(),
                api,
                server,
                updated: now,
            };
            cache.accept(resource_type, &name, held, ttl);
        }
    }

    /// Listeners and clusters that a response leaves out are gone (xDS protocol, "Deleting resources"): those that
    /// this server has sent before, and no others (C-103, DEC-7).
    fn delete_absent(&mut self, server: ServerId, resource_type: &ResourceType, judged: &Judged) {
        // A resource whose name cannot be read may be any of them. Signs of life alone are no state.
        if !resource_type.all_resources_required_in_sotw()
            || judged.has_nameless()
            || judged.is_heartbeat()
        {
            return;
        }
        let stream = &self.channels.get(server).stream;
        let held = self.cache.held_from(server, resource_type);
        let absent =
            held.filter(|name| !judged.names(name) && stream.is_subscribed(resource_type, name));
        for name in absent.cloned().collect::<Vec<_>>() {
            self.delete(
                server,
                resource_type,
                &name,
                "does not exist: the server deleted it",
            );
        }
    }

    /// The server says that there is no such resource: it was deleted, or never was (C-278).
    fn remove(&mut self, server: ServerId, resource_type: &ResourceType, name: &Arc<str>) {
        if self
            .channels
            .get(server)
            .stream
            .is_subscribed(resource_type, name)
        {
            self.delete(
                server,
                resource_type,
                name,
                "does not exist: the server says so",
            );
        }
    }

    fn delete(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &Arc<str>,
        text: &str,
    ) {
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let from = &channel.server;
        if from.ignores_deletions() && cache.held(resource_type, name).is_some() {
            return cache.ignore_deletion(resource_type, name);
        }
        let node_id = &self.config.node.id;
        let error = error(
            from,
            node_id,
            WatchErrorReason::DoesNotExist,
            text,
            resource_type,
            name,
        );
        let loss: Loss = from.loss_by_deletion();
        cache.fail(resource_type, name, Fault::Absent, error, loss);
    }
}
