//! Selection of the servers that an authority asks (gRFC A71).
//!
//! ```text
//!  servers   P ─── M ─── F           in order of priority
//!  asked     P                        P answers
//!            P ──► M                  P failed, and a name has no answer yet: fall back
//!            P ─── M ──► F            M failed, too
//!            P ─── M                  M answered: F is released
//!            P                        P answered: M is released
//! ```
//! The last server asked is the active one. The servers before it have a higher priority: they keep reconnecting, each
//! with its own backoff, and have every subscription, so that they can answer as soon as they are back (C-155, C-156).
//! A server becomes active by a response with a usable resource, not by a connection (C-157). Cached resources stay in
//! use until another server replaces them. A server whose resources were replaced gets requests without a version, so
//! that it answers even if nothing changed there (C-163).

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::authority_id::AuthorityId;
use super::cache::Cache;
use super::config::{ClientConfig, Server};
use super::stream::AdsStream;
use crate::sample::SAMPLE;
use crate::server_id::ServerId;

/// One server of the configuration: its stream, and whether it is reachable.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) config: Server,
    pub(super) stream: AdsStream,
    /// Why the server is unreachable; `None` after its next response.
    pub(super) unreachable: Option<Arc<str>>,
}

/// Servers of one authority.
#[derive(Debug)]
struct Authority {
    /// Servers that have the authority's subscriptions, in order of priority. The last one is active.
    asked: Vec<ServerId>,
    /// Servers of lower priority, in order.
    spare: VecDeque<ServerId>,
    /// Whether it falls back even if every name has an answer (gRFC A95).
    reachability_only: bool,
}

/// All servers, and which of them each authority asks.
#[derive(Debug)]
pub(super) struct Servers {
    servers: Vec<ServerState>,
    authorities: Vec<Authority>,
}

impl Servers {
    pub(super) fn new(servers: Vec<ServerState>, config: &ClientConfig) -> Self {
        let authority = |(index, servers): (usize, &Vec<ServerId>)| Authority {
            asked: Vec::new(),
            spare: servers.iter().copied().collect(),
            reachability_only: config.reachability_only.contains(&AuthorityId::at(index)),
        };
        let authorities = config.authorities.iter().enumerate();
        Self {
            servers,
            authorities: authorities.map(authority).collect(),
        }
    }

    pub(super) fn get(&self, id: ServerId) -> &ServerState {
        &self.servers[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: ServerId) -> &mut ServerState {
        &mut self.servers[id.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ServerState> {
        self.servers.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ServerId, &mut ServerState)> {
        let servers = self.servers.iter_mut().enumerate();
        servers.map(|(index, server)| (ServerId::at(index), server))
    }

    /// Whether the invariants hold; for debug assertions.
    pub(super) fn is_consistent(&self, cache: &Cache, config: &ClientConfig) -> bool {
        // Asked and spare servers are all servers of the authority, in their order.
        let mut authorities = self.authorities.iter().zip(&config.authorities);
        let is_ordered = authorities
            .all(|(authority, servers)| authority.asked.iter().chain(&authority.spare).eq(servers));
        // A server that an authority asks has all names of the authority, and no server has others.
        let mut names = cache.subscribed().take(SAMPLE);
        let is_subscribed = names.all(|(id, resource_type, name)| {
            let mut asked = self.authorities[id.index()].asked.iter();
            asked.all(|server| self.get(*server).stream.has_name(resource_type, name))
        });
        let has_reason = |server: ServerId, resource_type: &ResourceType, name: &str| {
            let id = cache.subscriber(resource_type, name);
            id.is_some_and(|id| self.is_asked(id, server))
        };
        let mut servers = self.servers.iter().enumerate();
        let has_no_others = servers.all(|(index, state)| {
            let mut names = state.stream.subscriptions().take(SAMPLE);
            names.all(|(resource_type, name)| has_reason(ServerId::at(index), resource_type, name))
        });
        let mut streams = self.servers.iter().map(|state| &state.stream);
        is_ordered && is_subscribed && has_no_others && streams.all(AdsStream::is_consistent)
    }

    /// Subscribes a name that is new in the cache.
    pub(super) fn subscribe(
        &mut self,
        cache: &Cache,
        id: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) {
        // gRFC A71: higher priorities get every subscription, so that they can answer when they are back (C-156).
        for server in &self.authorities[id.index()].asked {
            let stream = &mut self.servers[server.index()].stream;
            stream.subscribe(resource_type, Arc::clone(name));
        }
        // A new name makes the authority fall back at once if its server is already unreachable (C-153).
        self.fall_back(cache, id);
    }

    /// Unsubscribes a name that left the cache. An authority without names releases all its servers.
    pub(super) fn unsubscribe(
        &mut self,
        cache: &Cache,
        id: AuthorityId,
        resource_type: &ResourceType,
        name: &str,
    ) {
        let authority = &mut self.authorities[id.index()];
        for server in &authority.asked {
            self.servers[server.index()]
                .stream
                .unsubscribe(resource_type, name);
        }
        if cache.names(id).next().is_none() {
            while let Some(server) = authority.asked.pop() {
                authority.spare.push_front(server);
            }
        }
    }

    /// Asks servers of lower priority until one of them is not known to be unreachable. Returns `false` without such a
    /// server, or without a reason to fall back.
    fn fall_back(&mut self, cache: &Cache, id: AuthorityId) -> bool {
        let authority = &mut self.authorities[id.index()];
        loop {
            // gRFC A71: a server that another authority already found unreachable is skipped (C-162).
            if let Some(last) = authority.asked.last()
                && self.servers[last.index()].unreachable.is_none()
            {
                return true;
            }
            let must_fall_back = if authority.reachability_only {
                // gRFC A95, `fallback_on_reachability_only`: cached resources do not delay the fallback (C-169).
                cache.names(id).next().is_some()
            } else {
                // gRFC A71: fall back only if at least one watched resource is not cached (C-148 – C-151).
                cache.has_unanswered(id)
            };
            if !must_fall_back {
                return false;
            }
            let Some(next) = authority.spare.pop_front() else {
                return false;
            };
            authority.asked.push(next);
            let stream = &mut self.servers[next.index()].stream;
            for (resource_type, name) in cache.names(id) {
                stream.subscribe(resource_type, Arc::clone(name));
            }
        }
    }

    /// Marks a server as unreachable, and falls back. Returns the authorities that have no other server left.
    pub(super) fn handle_unreachable(
        &mut self,
        cache: &Cache,
        server: ServerId,
        cause: &Arc<str>,
    ) -> Vec<AuthorityId> {
        self.get_mut(server).unreachable = Some(Arc::clone(cause));
        // gRFC A71: each authority falls back on its own (C-161).
        let is_active = |authority: &Authority| authority.asked.last() == Some(&server);
        let mut exhausted = Vec::new();
        for id in (0..self.authorities.len()).map(AuthorityId::at) {
            if is_active(&self.authorities[id.index()]) && !self.fall_back(cache, id) {
                // gRFC A71: watchers get the error once the last server has failed, not before (C-154).
                exhausted.push(id);
            }
        }
        exhausted
    }

    /// Handles a response without any resource that can be used. The server is reachable, but fallback goes on: gRFC
    /// A71 ends it when a resource is received.
    pub(super) fn handle_useless(&mut self, server: ServerId) {
        self.get_mut(server).unreachable = None;
    }

    /// Returns whether an authority uses the resources of this server.
    pub(super) fn is_active(&self, id: AuthorityId, server: ServerId) -> bool {
        self.authorities[id.index()].asked.last() == Some(&server)
    }

    /// Returns whether an authority asks this server.
    pub(super) fn is_asked(&self, id: AuthorityId, server: ServerId) -> bool {
        self.authorities[id.index()].asked.contains(&server)
    }

    /// Makes a server that answered the active one, and releases all servers of lower priority.
    pub(super) fn handle_answered(&mut self, cache: &Cache, server: ServerId) {
        self.get_mut(server).unreachable = None;
        for (index, authority) in self.authorities.iter_mut().enumerate() {
            let Some(position) = authority.asked.iter().position(|asked| *asked == server) else {
                continue;
            };
            // gRFC A71: when a server of higher priority answers, lower ones are unsubscribed and closed (C-158,
            // C-159).
            for released in authority.asked.drain(position + 1..).rev() {
                authority.spare.push_front(released);
                let server = &mut self.servers[released.index()];
                for (resource_type, name) in cache.names(AuthorityId::at(index)) {
                    server.stream.unsubscribe(resource_type, name);
                }
                if !server.stream.is_wanted() {
                    server.unreachable = None;
                }
            }
        }
    }

    /// Marks the resources of a type from servers of higher priority as replaced by those of `server`.
    ///
    /// gRPC's own clients send their old version when they return (C-163). A server that compares versions then sends
    /// nothing, and the client keeps the resources of the fallback server until something changes. Here, the server
    /// gets no version and must send everything again.
    pub(super) fn supersede(&mut self, server: ServerId, resource_type: &ResourceType) {
        for authority in &self.authorities {
            let position = authority.asked.iter().position(|asked| *asked == server);
            for higher in &authority.asked[..position.unwrap_or(0)] {
                self.servers[higher.index()].stream.supersede(resource_type);
            }
        }
    }

    /// Returns the active server of an authority and the cause, if that server is unreachable.
    pub(super) fn unreachable(&self, id: AuthorityId) -> Option<(ServerId, &Arc<str>)> {
        let last = *self.authorities[id.index()].asked.last()?;
        self.get(last)
            .unreachable
            .as_ref()
            .map(|cause| (last, cause))
    }
}
