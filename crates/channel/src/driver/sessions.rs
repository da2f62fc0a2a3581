//! Connections of a leaf that sessions use (gRFC A55, A75).
//!
//! An address gets a connection of its own when a session uses it for the first time: a watch of the subchannel that
//! the policy uses, too. It stays until no session has used it for the idle timeout of the cluster, although the policy
//! releases it: the endpoint drains, or its priority is not active any more.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::policy::{ChildAddress, Demand, PolicyChild};
use oxds_core::time::Instant;
use smallvec::smallvec;

use super::members::{ChildPlace, Members, Scope};
use crate::session::{SessionConnection, SessionTable};

/// Shortest time between two searches for connections that no session uses any more (gRFC A75).
const MIN_SEARCH_PERIOD: Duration = Duration::from_secs(5);

/// The place of all members: they belong to no policy.
const PLACE: ChildPlace = ChildPlace {
    priority: 0,
    child: 0,
};

/// The addresses of one leaf that sessions use.
pub(super) struct Sessions {
    table: Option<Arc<SessionTable>>,
    used: HashMap<SocketAddr, UsedHost>,
    /// One member for each address that is used.
    members: Members,
    idle_timeout: Duration,
    search_at: Option<Instant>,
}

struct UsedHost {
    member: usize,
    connection: Arc<SessionConnection>,
}

impl Sessions {
    /// Makes sessions that are off. `members` is empty.
    pub(super) fn new(members: Members) -> Self {
        Self {
            table: None,
            used: HashMap::new(),
            members,
            idle_timeout: Duration::ZERO,
            search_at: None,
        }
    }

    /// Replaces the table of the addresses; `None` turns sessions off. Addresses that stay keep their connections.
    pub(super) fn configure(
        &mut self,
        now: Instant,
        table: Option<SessionTable>,
        idle_timeout: Duration,
    ) {
        if self.idle_timeout != idle_timeout {
            self.idle_timeout = idle_timeout;
            self.search_at = None;
        }
        let count = self.used.len();
        self.used.retain(|address, used| {
            let host = table.as_ref().and_then(|table| table.hosts.get(address));
            let host = host.filter(|host| host.is_allowed());
            if let Some(host) = host {
                host.set_connection(Some(&used.connection));
            }
            host.is_some()
        });
        self.table = table.map(Arc::new);
        if self.used.len() != count {
            self.release_unused();
        }
        self.plan_search(now);
    }

    pub(super) fn table(&self) -> Option<&Arc<SessionTable>> {
        self.table.as_ref()
    }

    /// Sets which endpoints are ejected, by their first addresses.
    pub(super) fn set_ejections(&self, is_ejected: impl Fn(SocketAddr) -> bool) {
        let hosts = self.table.iter().flat_map(|table| table.hosts.values());
        for host in hosts {
            host.set_ejected(is_ejected(host.endpoint()));
        }
    }

    /// Connects an address that a session uses.
    pub(super) fn connect(&mut self, now: Instant, scope: Scope<'_>, address: SocketAddr) {
        let table = self.table.clone();
        // The address may be removed before the request is read.
        let host = table.as_ref().and_then(|table| table.hosts.get(&address));
        let Some(host) = host else { return };
        if !self.used.contains_key(&address) {
            let only = ChildAddress {
                endpoint: 0,
                address,
            };
            let child = PolicyChild {
                addresses: smallvec![only],
            };
            let addresses = std::slice::from_ref(host.address());
            let demand = Demand::OnPick;
            let added = self
                .members
                .add(now, scope, &child, addresses, PLACE, demand);
            if let Some(member) = added {
                let connection = SessionConnection::new(member.cell, member.state, now);
                let used = UsedHost {
                    member: member.id,
                    connection: Arc::new(connection),
                };
                self.used.insert(address, used);
                self.plan_search(now);
            }
        }
        if let Some(used) = self.used.get(&address) {
            if let Some((_, state)) = self.members.connect(now, used.member) {
                used.connection.set_state(state);
            }
            host.set_connection(Some(&used.connection));
        }
    }

    /// Handles a changed connectivity of an address. Returns whether a session uses it.
    pub(super) fn refresh(&mut self, now: Instant, address: SocketAddr) -> bool {
        let Some(used) = self.used.get(&address) else {
            return false;
        };
        for (_, state) in self.members.refresh(now, address) {
            used.connection.set_state(state);
        }
        true
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.search_at
    }

    /// Releases the connections that no session has used for the idle timeout.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.search_at.is_none_or(|at| now < at) {
            return;
        }
        let idle_timeout = self.idle_timeout;
        let hosts = self.table.as_ref().map(|table| &table.hosts);
        self.used.retain(|address, used| {
            let keep = now < used.connection.last_used() + idle_timeout;
            if !keep && let Some(host) = hosts.and_then(|hosts| hosts.get(address)) {
                host.set_connection(None);
            }
            keep
        });
        self.release_unused();
        self.search_at = None;
        self.plan_search(now);
    }

    /// Plans the next search for the time at which the first connection can be unused.
    fn plan_search(&mut self, now: Instant) {
        if self.search_at.is_some() {
            return;
        }
        let used = self.used.values();
        let ends = used.map(|used| used.connection.last_used() + self.idle_timeout);
        self.search_at = ends.min().map(|end| end.max(now + MIN_SEARCH_PERIOD));
    }

    fn release_unused(&mut self) {
        let used = self.used.values().map(|used| used.member);
        self.members.retain(used);
    }
}
