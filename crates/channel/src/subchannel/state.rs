//! State that a subchannel and its task share, and its watchers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use oxds_client::channelz::{CallCounter, Id};
use oxds_core::lb::Connectivity;
use oxds_net::transport::{DialError, Keepalive};
use smallvec::SmallVec;
use tokio::sync::{Notify, mpsc};

use super::watchers::ReportWatchers;
use crate::metrics::SubchannelMetrics;
use crate::security::Security;
use crate::stream::Connection;

/// The connections of a ready endpoint, oldest first.
pub(crate) type Connections = SmallVec<[Arc<Connection>; 1]>;

/// State of the subchannel's automaton.
#[derive(Clone, Debug)]
pub(crate) enum SubchannelState {
    Idle,
    Connecting,
    Ready(Connections),
    TransientFailure(DialError),
}

impl SubchannelState {
    pub(crate) fn connectivity(&self) -> Connectivity {
        match self {
            Self::Idle => Connectivity::Idle,
            Self::Connecting => Connectivity::Connecting,
            Self::Ready(_) => Connectivity::Ready,
            Self::TransientFailure(_) => Connectivity::TransientFailure,
        }
    }
}

/// Notification that a watched subchannel changed its state. The receiver reads the state itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateChanged {
    /// The token that the watcher gave.
    pub(crate) token: u64,
    pub(crate) address: SocketAddr,
}

/// State of the subchannel, its watchers and the notifications for its task.
pub(super) struct SubchannelShared {
    pub(super) address: SocketAddr,
    pub(super) security: Security,
    pub(super) keepalive: Keepalive,
    pub(super) id: Id,
    pub(super) created: SystemTime,
    /// All RPCs on its connections, including closed connections.
    pub(super) calls: Arc<CallCounter>,
    /// Notified by `Subchannel::connect`.
    pub(super) connect: Notify,
    /// Notified by `Subchannel::grow`: all connections are full.
    pub(super) grow: Notify,
    /// Recorder of its connections, if a channel has one.
    pub(super) metrics: OnceLock<SubchannelMetrics>,
    /// Watchers of load reports, once there was one.
    pub(super) reports: OnceLock<Arc<ReportWatchers>>,
    watched: Mutex<WatchedState>,
}

struct WatchedState {
    state: SubchannelState,
    watchers: Vec<StateWatcher>,
    next_watcher: u64,
}

struct StateWatcher {
    id: u64,
    token: u64,
    changes: mpsc::UnboundedSender<StateChanged>,
}

impl SubchannelShared {
    pub(super) fn new(address: SocketAddr, security: Security, keepalive: Keepalive) -> Self {
        Self {
            address,
            security,
            keepalive,
            id: Id::next(),
            created: SystemTime::now(),
            calls: Arc::default(),
            connect: Notify::new(),
            grow: Notify::new(),
            metrics: OnceLock::new(),
            reports: OnceLock::new(),
            watched: Mutex::new(WatchedState {
                state: SubchannelState::Idle,
                watchers: Vec::new(),
                next_watcher: 0,
            }),
        }
    }

    pub(super) fn state(&self) -> SubchannelState {
        self.lock().state.clone()
    }

    /// Changes the state and notifies the watchers.
    pub(super) fn enter(&self, state: SubchannelState) {
        tracing::debug!(target: "oxds::subchannel", address = %self.address, ?state, "state changed");
        let mut watched = self.lock();
        let before = std::mem::replace(&mut watched.state, state);
        for watcher in &watched.watchers {
            let change = StateChanged {
                token: watcher.token,
                address: self.address,
            };
            // The receiver's channel may be dropped: the other watchers still get the change.
            let _ = watcher.changes.send(change);
        }
        drop(watched);
        if let Some(reports) = self.reports.get() {
            reports.notify();
        }
        // Dropped outside the lock: this may be the last handle to connections.
        drop(before);
    }

    /// Drops the connections without a notification. Each closes when its last RPC ends.
    pub(super) fn release_connections(&self) {
        self.lock().state = SubchannelState::Idle;
    }

    /// Adds a watcher and returns its id.
    pub(super) fn watch(&self, token: u64, changes: mpsc::UnboundedSender<StateChanged>) -> u64 {
        let mut watched = self.lock();
        let id = watched.next_watcher;
        watched.next_watcher += 1;
        watched.watchers.push(StateWatcher { id, token, changes });
        id
    }

    pub(super) fn unwatch(&self, id: u64) {
        self.lock().watchers.retain(|watcher| watcher.id != id);
    }

    fn lock(&self) -> MutexGuard<'_, WatchedState> {
        // No code panics while it holds the lock, and every change of the state is a single step.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
