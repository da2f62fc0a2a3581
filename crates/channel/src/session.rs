//! Sessions, as RPCs see them (gRFC A55, A60, A75): the session of a call, and the endpoints to which sessions return.
//!
//! ```text
//!  SessionTable ── address ──► SessionHost ──► SessionConnection: made at the first use by a session, kept until no
//!                                              session has used it for the idle timeout of the cluster
//! ```
//!
//! Endpoints of every priority are in the table, and draining ones. A session connection watches the subchannel of the
//! address, so that it shares the connections of the policy, and keeps them when the policy releases them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use oxds_core::lb::{
    Connectivity, HostChoice, HostState, SessionConfig, SessionTarget, choose_host,
};
use oxds_core::time::Instant;

use crate::connection_request::{ConnectionRequester, RequestedEndpoint};
use crate::endpoint::{ChildCell, PickAddress, PickedConnection};
use crate::epoch::Epoch;
use crate::subchannel::Subchannel;

/// Session of one RPC.
#[derive(Debug)]
pub(crate) struct CallSession {
    config: Arc<SessionConfig>,
    /// Target that the cookie of the request names.
    pub(crate) target: SessionTarget,
}

/// Cookie for a response, and the session that it belongs to.
#[derive(Debug)]
pub(crate) struct SessionCookie {
    pub(crate) config: Arc<SessionConfig>,
    pub(crate) value: HeaderValue,
}

/// Endpoints of a leaf, by each of their addresses.
#[derive(Debug)]
pub(crate) struct SessionTable {
    pub(crate) hosts: HashMap<SocketAddr, SessionHost>,
    pub(crate) requester: ConnectionRequester,
    pub(crate) epoch: Epoch,
}

/// An address of an endpoint.
#[derive(Debug)]
pub(crate) struct SessionHost {
    address: PickAddress,
    /// Addresses of its endpoint, in the order of the assignment; empty if this one is all.
    all: Box<[SocketAddr]>,
    /// Whether its health allows sessions to return to it.
    is_allowed: bool,
    is_ejected: AtomicBool,
    /// An RPC has asked the driver for a connection.
    is_requested: AtomicBool,
    connection: ArcSwapOption<SessionConnection>,
}

/// Connections to an address that sessions use.
#[derive(Debug)]
pub(crate) struct SessionConnection {
    cell: Arc<ChildCell>,
    state: AtomicU8,
    /// Milliseconds from the epoch to the last use.
    last_used: AtomicU64,
}

/// Result of [`SessionTable::pick`].
pub(crate) enum SessionPick {
    Complete(PickedConnection),
    Queue,
    /// The policy picks.
    Delegate,
}

impl CallSession {
    /// Returns the session of a request; `None` if requests with this path have none.
    pub(crate) fn of(config: &Arc<SessionConfig>, path: &str, headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).iter();
        config.applies_to(path).then(|| Self {
            config: Arc::clone(config),
            target: config.read(cookies.map(HeaderValue::as_bytes)),
        })
    }

    /// Returns the cookie for the response of a target; `None` if the request had the same.
    pub(crate) fn cookie(&self, actual: &SessionTarget) -> Option<SessionCookie> {
        // gRFC A55: the cookie changes only with the endpoint or the cluster.
        if self.target == *actual {
            return None;
        }
        Some(SessionCookie {
            config: Arc::clone(&self.config),
            value: HeaderValue::try_from(self.config.set_cookie(actual)).ok()?,
        })
    }
}

impl SessionTable {
    /// Picks an address of a session, in the order of the addresses of its cookie.
    pub(crate) fn pick(&self, addresses: &[SocketAddr]) -> SessionPick {
        let host = |address: &SocketAddr| self.hosts.get(address);
        let states = addresses.iter().map(|address| {
            let host = host(address).filter(|host| host.is_usable());
            host.map_or(HostState::Unusable, SessionHost::state)
        });
        match choose_host(states) {
            HostChoice::Use(index) => {
                let host = addresses.get(index).and_then(host);
                // A connection that was lost a moment ago: the driver is about to know it.
                host.and_then(|host| host.begin(self.epoch.now()))
                    .map_or(SessionPick::Queue, SessionPick::Complete)
            }
            HostChoice::Connect(index) => {
                if let Some(address) = addresses.get(index) {
                    self.want(*address);
                }
                SessionPick::Queue
            }
            HostChoice::Wait => SessionPick::Queue,
            HostChoice::Delegate => SessionPick::Delegate,
        }
    }

    /// Records that a session uses an address: its next RPC may return to it.
    pub(crate) fn record_use(&self, address: SocketAddr) {
        let host = self.hosts.get(&address).filter(|host| host.is_allowed);
        match host.map(|host| host.connection.load()).as_deref() {
            Some(Some(connection)) => connection.record_use(self.epoch.now()),
            Some(None) => self.want(address),
            None => {}
        }
    }

    /// Returns the target of a session in the cluster `cluster` that an address serves.
    pub(crate) fn target(&self, address: SocketAddr, cluster: &str) -> SessionTarget {
        let all = self.hosts.get(&address).map_or(&[][..], |host| &host.all);
        // As in C-core: the address in use is the first.
        let others = all.iter().copied().filter(|other| *other != address);
        SessionTarget::new(std::iter::once(address).chain(others), cluster)
    }

    /// Returns the subchannel of an address that sessions use.
    pub(crate) fn subchannel(&self, address: SocketAddr) -> Option<Arc<Subchannel>> {
        let connection = self.hosts.get(&address)?.connection.load();
        connection.as_ref()?.cell.subchannel(0)
    }

    /// Asks the driver for a connection, once until it is handled.
    fn want(&self, address: SocketAddr) {
        let host = self.hosts.get(&address);
        if host.is_some_and(|host| !host.is_requested.swap(true, Ordering::Relaxed)) {
            self.requester.send(RequestedEndpoint::Session(address));
        }
    }
}

impl SessionHost {
    /// Makes a host without a connection. `all` has the addresses of its endpoint.
    pub(crate) fn new(address: PickAddress, all: Box<[SocketAddr]>, is_allowed: bool) -> Self {
        Self {
            address,
            all,
            is_allowed,
            is_ejected: AtomicBool::new(false),
            is_requested: AtomicBool::new(false),
            connection: ArcSwapOption::empty(),
        }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> &PickAddress {
        &self.address
    }

    /// Returns the first address of its endpoint.
    pub(crate) fn endpoint(&self) -> SocketAddr {
        let first = self.all.first().copied();
        first.unwrap_or(self.address.picked.address)
    }

    pub(crate) fn set_ejected(&self, is_ejected: bool) {
        self.is_ejected.store(is_ejected, Ordering::Relaxed);
    }

    /// Sets the connection, and clears the request for one.
    pub(crate) fn set_connection(&self, connection: Option<&Arc<SessionConnection>>) {
        self.connection.store(connection.cloned());
        self.is_requested.store(false, Ordering::Relaxed);
    }

    fn is_usable(&self) -> bool {
        // gRFC A50: an ejected endpoint counts as failed.
        self.is_allowed && !self.is_ejected.load(Ordering::Relaxed)
    }

    fn state(&self) -> HostState {
        match self.connection.load().as_ref() {
            Some(connection) => HostState::Connection(connection.state()),
            None => HostState::Unconnected,
        }
    }

    fn begin(&self, now: Instant) -> Option<PickedConnection> {
        let connection = self.connection.load();
        let connection = connection.as_ref()?;
        let ready = connection.cell.ready();
        let picked = self.address.begin(ready.as_ref()?.connection()?);
        connection.record_use(now);
        Some(picked)
    }
}

impl SessionConnection {
    /// Makes the connections of an address, which is used now.
    pub(crate) fn new(cell: Arc<ChildCell>, state: Connectivity, now: Instant) -> Self {
        let connection = Self {
            cell,
            state: AtomicU8::new(0),
            last_used: AtomicU64::new(0),
        };
        connection.set_state(state);
        connection.record_use(now);
        connection
    }

    pub(crate) fn set_state(&self, state: Connectivity) {
        let number = match state {
            Connectivity::Idle => 0,
            Connectivity::Connecting => 1,
            Connectivity::Ready => 2,
            Connectivity::TransientFailure => 3,
        };
        self.state.store(number, Ordering::Release);
    }

    fn state(&self) -> Connectivity {
        match self.state.load(Ordering::Acquire) {
            0 => Connectivity::Idle,
            1 => Connectivity::Connecting,
            2 => Connectivity::Ready,
            _ => Connectivity::TransientFailure,
        }
    }

    pub(crate) fn last_used(&self) -> Instant {
        Instant::from_epoch(Duration::from_millis(
            self.last_used.load(Ordering::Relaxed),
        ))
    }

    fn record_use(&self, now: Instant) {
        let millis = u64::try_from(now.since_epoch().as_millis()).unwrap_or(u64::MAX);
        self.last_used.store(millis, Ordering::Relaxed);
    }
}
