//! What comes from servers: judged, answered, and put into the cache.

use std::sync::Arc;

use oxds_types::Kind;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};

use super::cache::{Attempt, Fault, Held, Loss};
use super::config::ServerId;
use super::error::{error, reported};
use super::response::{self, Accepted, Judge, Judged, Rejected};
use super::{Client, Reason, Updates};
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
    ) -> Option<Updates> {
        let kind = self.known_kind(server, &response.type_url)?;
        let version = response.version_info;
        let mut judged = self.judge(&kind).full_state(&version, response.resources);
        judged.report(response.resource_errors);
        let updates = self.answer(server, &kind, &version, response.nonce, &judged)?;
        self.delete_absent(server, &kind, &judged);
        self.apply(now, server, &kind, &version, judged);
        Some(updates)
    }

    /// A difference came. It is answered by the next request that [`poll_transmit`](Self::poll_transmit) gives.
    ///
    /// Returns what was in it, unless it is not ours to judge.
    pub fn handle_difference(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DeltaDiscoveryResponse,
    ) -> Option<Updates> {
        let kind = self.known_kind(server, &response.type_url)?;
        let mut judged = self.judge(&kind).difference(response.resources);
        judged.report(response.resource_errors);
        let version = response.system_version_info;
        let updates = self.answer(server, &kind, &version, response.nonce, &judged)?;
        for name in &response.removed_resources {
            let name = Arc::from(self.config.names.spelling(name));
            self.remove(server, &kind, &name);
        }
        self.apply(now, server, &kind, &version, judged);
        Some(updates)
    }

    /// The kind of a response, if it was ever subscribed to.
    fn known_kind(&mut self, server: ServerId, type_url: &str) -> Option<Kind> {
        let stream = &mut self.channels.get_mut(server).stream;
        match Kind::from_type_url(type_url) {
            Some((kind, _)) if stream.knows(&kind) => Some(kind),
            // C-78: neither an ACK nor a NACK would be right.
            _ => {
                if stream.handle_unknown_kind() {
                    self.channels.settle_on(&self.cache, server);
                }
                None
            }
        }
    }

    fn judge<'a>(&'a self, kind: &'a Kind) -> Judge<'a> {
        Judge {
            kind,
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
        kind: &Kind,
        version: &str,
        nonce: String,
        judged: &Judged,
    ) -> Option<Updates> {
        self.counters.decoded += judged.decoded;
        self.counters.unchanged += judged.unchanged;
        let updates = Updates::of(kind, judged);
        let stream = &mut self.channels.get_mut(server).stream;
        let nack = updates.rejection.clone();
        if !stream.handle_response(kind, version.to_owned(), nonce, nack) {
            return None;
        }
        self.channels.settle_on(&self.cache, server);
        self.channels.supersede(server, kind);
        self.cache.settle_collections(kind);
        Some(updates)
    }

    fn apply(
        &mut self,
        now: Instant,
        server: ServerId,
        kind: &Kind,
        version: &str,
        judged: Judged,
    ) {
        for accepted in judged.accepted {
            self.accept(now, server, kind, accepted);
        }
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let (from, node_id) = (&channel.server, &self.config.node.id);
        for (name, ttl) in judged.heartbeats {
            let expiry = ttl
                .filter(|_| self.config.resource_ttl)
                .map(|ttl| now + ttl);
            if channel.stream.is_subscribed(kind, &name) {
                cache.refresh(kind, &name, expiry);
            }
        }
        for Rejected { invalid, version } in judged.rejected {
            let Some(name) = &invalid.name else { continue };
            let text = format!("is invalid: {}", response::without_name(&invalid));
            let error = error(from, node_id, Reason::Invalid, &text, kind, name);
            let version = version.to_string();
            let fault = Fault::Rejected(Attempt { version, at: now });
            cache.fail(kind, name, fault, error, from.loss_by_error(false));
        }
        for (name, status) in judged.reported {
            let error = reported(from, node_id, &status, kind, &name);
            let version = version.to_owned();
            let fault = Fault::Reported(Attempt { version, at: now });
            let loss = from.loss_by_error(error.reason == Reason::Unreachable);
            cache.fail(kind, &name, fault, error, loss);
        }
        let nobody_has = judged.nothing_by_alias;
        for name in nobody_has {
            self.remove(server, kind, &name);
        }
    }

    /// A valid resource, under each of its names that was asked for.
    fn accept(&mut self, now: Instant, server: ServerId, kind: &Kind, accepted: Accepted) {
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
            if channel.stream.is_subscribed(kind, &name) {
                let expiry = ttl.map(|ttl| now + ttl);
                cache.confirm(server, kind, &name, (version, api), expiry);
            }
            return;
        };
        let names = std::iter::once(name).chain(aliases);
        for name in names.filter(|name| channel.stream.is_subscribed(kind, name)) {
            let held = Held {
                resource: resource.clone(),
                version: version.clone(),
                api,
                server,
                updated: now,
            };
            cache.accept(kind, &name, held, ttl);
        }
    }

    /// Listeners and clusters that a response leaves out are gone (xDS protocol, "Deleting resources"): those that
    /// this server has sent before, and no others (C-103, DEC-7).
    fn delete_absent(&mut self, server: ServerId, kind: &Kind, judged: &Judged) {
        // A resource whose name cannot be read may be any of them. Signs of life alone are no state.
        if !kind.is_full_state() || judged.has_nameless() || judged.is_heartbeat() {
            return;
        }
        let stream = &self.channels.get(server).stream;
        let held = self.cache.held_from(server, kind);
        let absent = held.filter(|name| !judged.names(name) && stream.is_subscribed(kind, name));
        for name in absent.cloned().collect::<Vec<_>>() {
            self.delete(server, kind, &name, "does not exist: the server deleted it");
        }
    }

    /// The server says that there is no such resource: it was deleted, or never was (C-278).
    fn remove(&mut self, server: ServerId, kind: &Kind, name: &Arc<str>) {
        if self.channels.get(server).stream.is_subscribed(kind, name) {
            self.delete(server, kind, name, "does not exist: the server says so");
        }
    }

    fn delete(&mut self, server: ServerId, kind: &Kind, name: &Arc<str>, text: &str) {
        let (channel, cache) = (self.channels.get(server), &mut self.cache);
        let from = &channel.server;
        if from.ignores_deletions() && cache.held(kind, name).is_some() {
            return cache.ignore_deletion(kind, name);
        }
        let node_id = &self.config.node.id;
        let error = error(from, node_id, Reason::DoesNotExist, text, kind, name);
        let loss: Loss = from.loss_by_deletion();
        cache.fail(kind, name, Fault::Absent, error, loss);
    }
}
