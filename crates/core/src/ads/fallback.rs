//! Which of an authority's servers are asked (gRFC A71).
//!
//! ```text
//!  servers   P ─── M ─── F           the most wanted first
//!  asked     P                        all well
//!            P ──► M                  P failed, and a name has no answer yet
//!            P ─── M ──► F            M failed, too
//!            P ─── M                  M answered: F is let go
//!            P                        P answered: M is let go
//! ```
//! The last one asked is the authority's word; those before it are the more wanted ones, which go on trying, each at
//! its own pace, and are asked for every name, so that they can answer when they are back (C-155, C-156). An answer
//! counts, a connection does not (C-157). What is held stays in use until another server replaces it; whose word was
//! replaced is asked as if for the first time, so that there is an answer although nothing may have changed.

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::cache::Cache;
use super::config::{AuthorityId, ClientConfig, Server, ServerId};
use super::stream::Stream;

/// A server, and what became of it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) server: Server,
    pub(super) stream: Stream,
    /// Why it could not be reached. It has not answered since.
    pub(super) lost: Option<Arc<str>>,
}

/// The servers of one authority.
#[derive(Debug)]
struct Authority {
    asked: Vec<ServerId>,
    /// The less wanted ones, in order.
    spare: VecDeque<ServerId>,
    /// It falls back although it has an answer for every name (gRFC A95).
    eager: bool,
}

/// All servers, and who is asked for what.
#[derive(Debug)]
pub(super) struct Channels {
    channels: Vec<Channel>,
    authorities: Vec<Authority>,
}

impl Channels {
    pub(super) fn new(channels: Vec<Channel>, config: &ClientConfig) -> Self {
        let authority = |(index, servers): (usize, &Vec<ServerId>)| Authority {
            asked: Vec::new(),
            spare: servers.iter().copied().collect(),
            eager: config.eager.contains(&AuthorityId::at(index)),
        };
        let authorities = config.authorities.iter().enumerate();
        Self {
            channels,
            authorities: authorities.map(authority).collect(),
        }
    }

    pub(super) fn get(&self, id: ServerId) -> &Channel {
        &self.channels[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: ServerId) -> &mut Channel {
        &mut self.channels[id.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ServerId, &mut Channel)> {
        let channels = self.channels.iter_mut().enumerate();
        channels.map(|(index, channel)| (ServerId::at(index), channel))
    }

    /// A name that is in the cache from now on.
    pub(super) fn subscribe(
        &mut self,
        cache: &Cache,
        id: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) {
        for server in &self.authorities[id.index()].asked {
            let stream = &mut self.channels[server.index()].stream;
            stream.subscribe(resource_type, Arc::clone(name));
        }
        // C-153: whoever sits on what it has while its server is away does not keep a new name waiting.
        self.fall_back(cache, id);
    }

    /// A name that has left the cache. With its last name, the authority asks nobody any more.
    pub(super) fn unsubscribe(
        &mut self,
        cache: &Cache,
        id: AuthorityId,
        resource_type: &ResourceType,
        name: &str,
    ) {
        let authority = &mut self.authorities[id.index()];
        for server in &authority.asked {
            self.channels[server.index()]
                .stream
                .unsubscribe(resource_type, name);
        }
        if cache.names(id).next().is_none() {
            while let Some(server) = authority.asked.pop() {
                authority.spare.push_front(server);
            }
        }
    }

    /// Asks the next servers while the last one asked is lost and a name has no answer yet (C-148 – C-152), or any name
    /// is watched where reachability alone decides (C-169); those that are known to be lost are passed over (C-162). `false` if the last one asked is lost.
    fn fall_back(&mut self, cache: &Cache, id: AuthorityId) -> bool {
        let authority = &mut self.authorities[id.index()];
        loop {
            if let Some(last) = authority.asked.last()
                && self.channels[last.index()].lost.is_none()
            {
                return true;
            }
            let has_cause = match authority.eager {
                true => cache.names(id).next().is_some(),
                false => cache.has_open(id),
            };
            if !has_cause {
                return false;
            }
            let Some(next) = authority.spare.pop_front() else {
                return false;
            };
            authority.asked.push(next);
            let stream = &mut self.channels[next.index()].stream;
            for (resource_type, name) in cache.names(id) {
                stream.subscribe(resource_type, Arc::clone(name));
            }
        }
    }

    /// A server could not be reached. Returns the authorities that have no other: their watchers are to hear of it,
    /// once all entries have failed and not before (C-154).
    pub(super) fn lose(
        &mut self,
        cache: &Cache,
        server: ServerId,
        cause: &Arc<str>,
    ) -> Vec<AuthorityId> {
        self.get_mut(server).lost = Some(Arc::clone(cause));
        let is_last = |authority: &Authority| authority.asked.last() == Some(&server);
        let mut without = Vec::new();
        for id in (0..self.authorities.len()).map(AuthorityId::at) {
            if is_last(&self.authorities[id.index()]) && !self.fall_back(cache, id) {
                without.push(id);
            }
        }
        without
    }

    /// A server answered: less wanted ones are let go (C-158, C-159).
    pub(super) fn settle_on(&mut self, cache: &Cache, server: ServerId) {
        self.get_mut(server).lost = None;
        for (index, authority) in self.authorities.iter_mut().enumerate() {
            let Some(place) = authority.asked.iter().position(|asked| *asked == server) else {
                continue;
            };
            for let_go in authority.asked.drain(place + 1..).rev() {
                authority.spare.push_front(let_go);
                let channel = &mut self.channels[let_go.index()];
                for (resource_type, name) in cache.names(AuthorityId::at(index)) {
                    channel.stream.unsubscribe(resource_type, name);
                }
                if !channel.stream.is_wanted() {
                    // Others replace what it sent: next time it begins anew.
                    channel.stream.forget_versions();
                    channel.lost = None;
                }
            }
        }
    }

    /// A server's word on a kind was taken: it counts instead of what more wanted ones had sent. gRPC's own clients send those
    /// their versions again (C-163); a server that compares them says nothing then, and the client stays where it is until
    /// something changes there.
    pub(super) fn supersede(&mut self, server: ServerId, resource_type: &ResourceType) {
        for authority in &self.authorities {
            let place = authority.asked.iter().position(|asked| *asked == server);
            for wanted in &authority.asked[..place.unwrap_or(0)] {
                self.channels[wanted.index()]
                    .stream
                    .supersede(resource_type);
            }
        }
    }

    /// Why an authority has no server: the last one asked is lost.
    pub(super) fn lost(&self, id: AuthorityId) -> Option<(ServerId, &Arc<str>)> {
        let last = *self.authorities[id.index()].asked.last()?;
        self.get(last).lost.as_ref().map(|cause| (last, cause))
    }
}
