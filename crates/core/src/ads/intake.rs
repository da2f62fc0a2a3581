//! Effects of a response: its ACK or NACK, and the changes of the cache.

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse};

use super::cache::{CachedResource, Delivery, Expiry, FailedUpdate, UpdateFailure};
use super::client::Client;
use super::config::ErrorEffect;
use super::error::{WatchErrorReason, error, reported};
use super::response::{
    self, InvalidResource, ResponseSummary, ResponseValidator, ValidResource, ValidatedResponse,
};
use crate::server_id::ServerId;
use crate::time::Instant;

/// ACK or NACK of a response.
struct Acknowledgement<'a> {
    version: &'a str,
    nonce: String,
    /// Whether the response is rejected as a whole.
    is_useless: bool,
}

impl Client {
    /// Handles a SotW response. The next request from [`poll_transmit`](Self::poll_transmit) acknowledges it.
    ///
    /// Returns a summary of its content; `None` if the response is ignored: its type was never subscribed, or its
    /// stream has ended.
    pub fn handle_response(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DiscoveryResponse,
    ) -> Option<ResponseSummary> {
        let resource_type = self.known_type(server, &response.type_url)?;
        let version = response.version_info;
        let mut validated = self
            .validator(&resource_type)
            .validate_sotw(&version, response.resources);
        validated.add_errors(response.resource_errors);
        let is_first = self.is_first(server, &resource_type);
        let is_useless = validated.is_useless();
        let acknowledgement = Acknowledgement {
            version: &version,
            nonce: response.nonce,
            is_useless,
        };
        let summary = self.acknowledge(server, &resource_type, acknowledgement, &validated)?;
        self.delete_absent(server, &resource_type, &validated);
        self.apply(now, server, &resource_type, &version, validated);
        if is_first && !is_useless {
            self.expect_members(now, server, &resource_type);
        }
        debug_assert!(self.is_consistent());
        Some(summary)
    }

    /// Handles a delta response. The next request from [`poll_transmit`](Self::poll_transmit) acknowledges it.
    ///
    /// Returns a summary of its content; `None` if the response is ignored: its type was never subscribed, or its
    /// stream has ended.
    pub fn handle_delta_response(
        &mut self,
        now: Instant,
        server: ServerId,
        response: DeltaDiscoveryResponse,
    ) -> Option<ResponseSummary> {
        let resource_type = self.known_type(server, &response.type_url)?;
        let mut validated = self
            .validator(&resource_type)
            .validate_delta(response.resources);
        validated.add_errors(response.resource_errors);
        let version = response.system_version_info;
        let is_first = self.is_first(server, &resource_type);
        let is_useless = validated.is_useless() && response.removed_resources.is_empty();
        let acknowledgement = Acknowledgement {
            version: &version,
            nonce: response.nonce,
            is_useless,
        };
        let summary = self.acknowledge(server, &resource_type, acknowledgement, &validated)?;
        for name in &response.removed_resources {
            let name = Arc::from(self.config.name_syntax.spelling(name));
            self.remove(server, &resource_type, &name);
        }
        self.apply(now, server, &resource_type, &version, validated);
        if is_first && !is_useless {
            self.expect_members(now, server, &resource_type);
        }
        debug_assert!(self.is_consistent());
        Some(summary)
    }

    /// Returns the type of a response, if it was ever subscribed on this stream.
    fn known_type(&mut self, server: ServerId, type_url: &str) -> Option<ResourceType> {
        let stream = &mut self.servers.get_mut(server).stream;
        match ResourceType::from_type_url(type_url) {
            Some((resource_type, _)) if stream.knows(&resource_type) => Some(resource_type),
            // As in gRPC, a response of an unknown type is neither ACKed nor NACKed (C-78). It still shows that the
            // server answers.
            _ => {
                if stream.handle_unknown_type() {
                    self.servers.handle_useless(server);
                }
                None
            }
        }
    }

    fn is_first(&self, server: ServerId, resource_type: &ResourceType) -> bool {
        !self.servers.get(server).stream.is_answered(resource_type)
    }

    fn validator<'a>(&'a self, resource_type: &'a ResourceType) -> ResponseValidator<'a> {
        ResponseValidator {
            resource_type,
            parsers: &self.config.parsers,
            check: self.config.check.as_ref(),
            cache: &self.cache,
            duplicates: self.config.duplicates,
            name_syntax: self.config.name_syntax,
        }
    }

    /// Queues the ACK or NACK. Returns `None` for a late response, whose stream has ended.
    fn acknowledge(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        acknowledgement: Acknowledgement<'_>,
        validated: &ValidatedResponse,
    ) -> Option<ResponseSummary> {
        let Acknowledgement {
            version,
            nonce,
            is_useless,
        } = acknowledgement;
        self.counters.decoded += validated.decoded;
        self.counters.unchanged += validated.unchanged;
        let summary = validated.summary(resource_type);
        let stream = &mut self.servers.get_mut(server).stream;
        let nack = summary.rejection.clone();
        // A late message from a server that was released is ignored (C-160).
        if !stream.handle_response(resource_type, version.to_owned(), nonce, nack) {
            return None;
        }
        // gRFC A71: fallback ends when a resource of the more preferred server is received (C-158).
        if is_useless {
            self.servers.handle_useless(server);
        } else {
            self.servers.handle_answered(&self.cache, server);
            self.servers.supersede(server, resource_type);
        }
        self.cache.handle_collections_answered(resource_type);
        Some(summary)
    }

    fn apply(
        &mut self,
        now: Instant,
        server: ServerId,
        resource_type: &ResourceType,
        version: &str,
        validated: ValidatedResponse,
    ) {
        for valid in validated.valid {
            self.accept(now, server, resource_type, valid);
        }
        let (state, cache) = (self.servers.get(server), &mut self.cache);
        let (from, node_id) = (&state.config, &self.config.node.id);
        for (name, ttl) in validated.heartbeats {
            // gRPC ignores TTLs (C-83), so they are an option of the client.
            let expiry = ttl
                .filter(|_| self.config.resource_ttl)
                .map(|ttl| Expiry::new(now, ttl));
            if state.stream.is_subscribed(resource_type, &name) {
                cache.refresh(resource_type, &name, expiry);
            }
        }
        let servers = &self.servers;
        for InvalidResource { invalid, version } in validated.invalid {
            let Some(name) = &invalid.name else { continue };
            // Of a response that does not end fallback, the watchers of the fallback server's resources get nothing
            // (C-157).
            let authority = cache.authority(resource_type, name);
            if authority.is_some_and(|authority| !servers.is_active(authority, server)) {
                continue;
            }
            let text = format!("is invalid: {}", response::without_name(&invalid));
            let reason = WatchErrorReason::Invalid;
            let error = error(from, node_id, reason, &text, resource_type, name);
            let version = version.to_string();
            let failure = UpdateFailure::Nacked(FailedUpdate { version, at: now });
            let effect = from.effect_of_error(false);
            cache.fail(resource_type, name, failure, error, effect);
        }
        for (name, status) in validated.reported {
            let error = reported(from, node_id, &status, resource_type, &name);
            let version = version.to_owned();
            let failure = UpdateFailure::ReceivedError(FailedUpdate { version, at: now });
            // gRFC A88: a transient error never drops the cached resource.
            let effect = from.effect_of_error(error.reason == WatchErrorReason::Unreachable);
            cache.fail(resource_type, &name, failure, error, effect);
        }
        for name in validated.missing_aliases {
            self.remove(server, resource_type, &name);
        }
    }

    /// Caches a valid resource under each subscribed name: its own and its aliases.
    fn accept(
        &mut self,
        now: Instant,
        server: ServerId,
        resource_type: &ResourceType,
        valid: ValidResource,
    ) {
        let (state, cache) = (self.servers.get(server), &mut self.cache);
        let ValidResource {
            name,
            aliases,
            version,
            api,
            unusual_type_url,
            ttl,
            content,
        } = valid;
        let ttl = ttl.filter(|_| self.config.resource_ttl);
        let Some(resource) = content else {
            // discovery.proto: a resource that was not requested is ignored (C-80).
            if state.stream.is_subscribed(resource_type, &name) {
                let expiry = ttl.map(|ttl| Expiry::new(now, ttl));
                let delivery = Delivery {
                    server,
                    version,
                    api,
                    unusual_type_url,
                };
                cache.confirm(resource_type, &name, delivery, expiry);
            }
            return;
        };
        let names = std::iter::once(name).chain(aliases);
        for name in names.filter(|name| state.stream.is_subscribed(resource_type, name)) {
            let cached = CachedResource {
                resource: resource.clone(),
                version: version.clone(),
                api,
                server,
                updated: now,
            };
            let unusual_type_url = unusual_type_url.clone();
            cache.accept(resource_type, &name, cached, unusual_type_url, ttl);
        }
    }

    /// Deletes the listeners and clusters that a SotW response leaves out.
    fn delete_absent(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        validated: &ValidatedResponse,
    ) {
        // gRFC A27: only for LDS and CDS does absence mean deletion (C-100, C-101). A resource whose name cannot be
        // read may be any of the absent ones. A response that carries only heartbeats is not a full state.
        if !resource_type.all_resources_required_in_sotw()
            || validated.has_nameless()
            || validated.is_heartbeat()
        {
            return;
        }
        let stream = &self.servers.get(server).stream;
        // A name that this server has not sent yet is not deleted: its timer goes on (C-103, C-164).
        let cached = self.cache.names_from(server, resource_type);
        let absent = cached
            .filter(|name| !validated.mentions(name) && stream.is_subscribed(resource_type, name))
            .filter(|name| {
                // Absence counts only where the server is the active one (C-105).
                let authority = self.cache.authority(resource_type, name);
                authority.is_some_and(|authority| self.servers.is_active(authority, server))
            });
        for name in absent.cloned().collect::<Vec<_>>() {
            let text = "does not exist: the server deleted it";
            self.delete(server, resource_type, &name, text);
        }
        let left = self.left_members(server, resource_type);
        for name in left.into_iter().filter(|name| !validated.mentions(name)) {
            let text = "does not exist: only a server sent it that is not used any more";
            self.delete(server, resource_type, &name, text);
        }
    }

    /// Returns the members of collections that a server has sent which is not asked any more, if `server` is the one
    /// that is used now.
    fn left_members(&self, server: ServerId, resource_type: &ResourceType) -> Vec<Arc<str>> {
        let members = self.cache.mere_members(resource_type);
        let left = members.filter(|(_, authority, sender)| {
            self.servers.is_active(*authority, server)
                && !self.servers.is_asked(*authority, *sender)
        });
        left.map(|(name, ..)| Arc::clone(name)).collect()
    }

    /// Starts the resource timeout of members that only a fallback server has sent.
    ///
    /// After the return to the more preferred server (gRFC A71), a collection has its members alone. It may send them
    /// in several responses, so those that it does not send in time do not exist there.
    fn expect_members(&mut self, now: Instant, server: ServerId, resource_type: &ResourceType) {
        let left = self.left_members(server, resource_type);
        let from = &self.servers.get(server).config;
        if from.ignores_deletions() || from.effect_of_deletion() == ErrorEffect::Keep {
            return;
        }
        let until = now + self.config.timeout_of(from);
        for name in left {
            self.cache.expect(server, resource_type, &name, until);
        }
    }

    /// Handles a name that the server explicitly reports as missing: the resource was deleted, or never existed.
    fn remove(&mut self, server: ServerId, resource_type: &ResourceType, name: &Arc<str>) {
        let stream = &self.servers.get(server).stream;
        // DeltaDiscoveryResponse.removed_resources also answers for unknown names, without the 15 s timeout (C-278).
        if stream.is_subscribed(resource_type, name) {
            let text = "does not exist: the server reports that it has no such resource";
            self.delete(server, resource_type, name, text);
        }
    }

    fn delete(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &Arc<str>,
        text: &str,
    ) {
        let (state, cache) = (self.servers.get(server), &mut self.cache);
        let from = &state.config;
        // gRFC A53, `ignore_resource_deletion`: the resource stays in use, and the deletion is logged once (C-106).
        if from.ignores_deletions() && cache.resource(resource_type, name).is_some() {
            return cache.ignore_deletion(resource_type, name);
        }
        let (node_id, reason) = (&self.config.node.id, WatchErrorReason::DoesNotExist);
        let error = error(from, node_id, reason, text, resource_type, name);
        let effect = from.effect_of_deletion();
        let failure = UpdateFailure::DoesNotExist;
        cache.fail(resource_type, name, failure, error, effect);
    }
}
