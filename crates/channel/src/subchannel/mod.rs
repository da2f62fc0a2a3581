//! Subchannels: one endpoint address, and the connections to it.
//!
//! ```text
//!            connect()                    server preface
//!  ┌──────┐ ─────────▶ ┌────────────┐ ─────────────────▶ ┌───────┐
//!  │ Idle │            │ Connecting │                    │ Ready │──┐ a stream more than
//!  └──────┘            └────────────┘                    └───────┘◀─┘ MAX_CONCURRENT_STREAMS:
//!    ▲  ▲                    │ refused, timed out            │        one more connection
//!    │  │ backoff    ┌───────▼──────────┐                    │
//!    │  └─────────── │ TransientFailure │                    │ GOAWAY, closed, keepalive
//!    │     over      └──────────────────┘                    │ timed out (all of them)
//!    └───────────────────────────────────────────────────────┘
//! ```
//!
//! The channel decides when an idle subchannel connects (round robin: at once). A connection that
//! died young is dialled again at once the first time, then with backoff, so that a backend that
//! accepts and hangs up causes no hot loop.
//!
//! Dropping the [`Subchannel`] ends its task; the socket closes when the last RPC on it is over.

mod channelz;
mod connection;
mod task;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use oxds_client::channelz::{CallCounter, Id};
use oxds_client::transport::{DialError, Keepalive};
use oxds_core::lb::Connectivity;
use smallvec::SmallVec;
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use connection::{Connection, InFlight};

/// The connections of a ready endpoint, oldest first.
pub(crate) type Connections = SmallVec<[Arc<Connection>; 1]>;

/// Where an endpoint stands.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Idle,
    Connecting,
    Ready(Connections),
    TransientFailure(DialError),
}

impl State {
    pub(crate) fn connectivity(&self) -> Connectivity {
        match self {
            Self::Idle => Connectivity::Idle,
            Self::Connecting => Connectivity::Connecting,
            Self::Ready(_) => Connectivity::Ready,
            Self::TransientFailure(_) => Connectivity::TransientFailure,
        }
    }
}

/// One endpoint. Shared between the channels of a pool.
pub(crate) struct Subchannel {
    shared: Arc<Shared>,
    _stop: oneshot::Sender<Infallible>,
}

/// What the subchannel and its task share.
struct Shared {
    address: SocketAddr,
    keepalive: Keepalive,
    id: Id,
    made: SystemTime,
    /// All RPCs on its connections, those that are gone included.
    calls: Arc<CallCounter>,
    inner: Mutex<Inner>,
    /// `connect()` was called.
    connect: Notify,
    /// All connections are full.
    grow: Notify,
}

struct Inner {
    state: State,
    watchers: Vec<Watcher>,
    next_watcher: u64,
}

struct Watcher {
    id: u64,
    token: u64,
    changes: mpsc::UnboundedSender<Change>,
}

/// The state of a watched subchannel changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Given by the watcher.
    pub(crate) token: u64,
    pub(crate) address: SocketAddr,
}

/// Ends a watch when dropped.
pub(crate) struct Watch {
    id: u64,
    subchannel: Arc<Subchannel>,
}

impl Subchannel {
    /// An idle subchannel with its task. Needs a tokio runtime.
    pub(crate) fn spawn(address: SocketAddr, keepalive: Keepalive) -> Arc<Self> {
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(Shared {
            address,
            keepalive,
            id: Id::next(),
            made: SystemTime::now(),
            calls: Arc::default(),
            inner: Mutex::new(Inner {
                state: State::Idle,
                watchers: Vec::new(),
                next_watcher: 0,
            }),
            connect: Notify::new(),
            grow: Notify::new(),
        });
        tokio::spawn(task::run(Arc::clone(&shared), stopped));
        Arc::new(Self {
            shared,
            _stop: stop,
        })
    }

    pub(crate) fn state(&self) -> State {
        self.shared.lock().state.clone()
    }

    /// Leaves `Idle`; in any other state without effect.
    pub(crate) fn connect(&self) {
        self.shared.connect.notify_one();
    }

    /// All connections are full: asks for one more.
    pub(crate) fn grow(&self) {
        self.shared.grow.notify_one();
    }

    /// Sends a [`Change`] with `token` on `changes` after each change of state.
    pub(crate) fn watch(
        self: &Arc<Self>,
        token: u64,
        changes: mpsc::UnboundedSender<Change>,
    ) -> Watch {
        let mut inner = self.shared.lock();
        let id = inner.next_watcher;
        inner.next_watcher += 1;
        inner.watchers.push(Watcher { id, token, changes });
        Watch {
            id,
            subchannel: Arc::clone(self),
        }
    }
}

impl Watch {
    pub(crate) fn subchannel(&self) -> &Arc<Subchannel> {
        &self.subchannel
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.subchannel
            .shared
            .lock()
            .watchers
            .retain(|watcher| watcher.id != self.id);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while holding it; if it did, the state would still be a whole one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, state: State) {
        tracing::debug!(target: "oxds::subchannel", address = %self.address, ?state, "state");
        let mut inner = self.lock();
        let before = std::mem::replace(&mut inner.state, state);
        for watcher in &inner.watchers {
            let change = Change {
                token: watcher.token,
                address: self.address,
            };
            // A channel that is gone is no reason to stop telling the others.
            let _ = watcher.changes.send(change);
        }
        drop(inner);
        // Outside the lock: this may be the last handle to connections.
        drop(before);
    }
}

impl fmt::Debug for Subchannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subchannel")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}
