//! Subchannels: one endpoint address with one security, and the connections to it.
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
//! The channel decides when an idle subchannel connects (round robin: at once). Backoff is for attempts
//! that fail before the server's SETTINGS. A connection that receives a GOAWAY leaves the subchannel at
//! once and finishes its calls, while the next connection is dialled. Only after five connections in a
//! row that ended within a second without a call, the next dial backs off, so that a backend that
//! accepts and closes causes no hot loop.
//!
//! Dropping the [`Subchannel`] ends its task; the socket closes when the last RPC on it ends.

mod channelz;
mod dial;
mod reports;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod watchers;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_net::transport::Keepalive;
use tokio::sync::{mpsc, oneshot};

use crate::metrics::{ChannelMetrics, SubchannelMetrics};
use crate::security::Security;
use state::SubchannelShared;
pub(crate) use state::{Connections, StateChanged, SubchannelState};
pub(crate) use watchers::ReportSink;

/// Handle of one endpoint's connections. Shared between the channels of a pool.
pub(crate) struct Subchannel {
    shared: Arc<SubchannelShared>,
    _stop: oneshot::Sender<Infallible>,
}

/// A watch of a subchannel's state; ends when dropped.
pub(crate) struct StateWatch {
    id: u64,
    subchannel: Arc<Subchannel>,
}

impl Subchannel {
    /// Creates an idle subchannel and starts its task. Needs a tokio runtime.
    pub(crate) fn spawn(
        address: SocketAddr,
        security: Security,
        keepalive: Keepalive,
    ) -> Arc<Self> {
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(SubchannelShared::new(address, security, keepalive));
        tokio::spawn(task::run(Arc::clone(&shared), stopped));
        Arc::new(Self {
            shared,
            _stop: stop,
        })
    }

    pub(crate) fn state(&self) -> SubchannelState {
        self.shared.state()
    }

    /// Leaves `Idle`. Has no effect in other states.
    pub(crate) fn connect(&self) {
        self.shared.connect.notify_one();
    }

    /// Records its connections from now on as those of this cluster and locality, unless a recorder has it already.
    pub(crate) fn observe(
        &self,
        metrics: &Arc<ChannelMetrics>,
        cluster: &Arc<str>,
        locality: &str,
    ) {
        let new = || SubchannelMetrics::new(metrics, cluster, locality);
        self.shared.metrics.get_or_init(new);
    }

    /// Requests one more connection, because all are full.
    pub(crate) fn grow(&self) {
        self.shared.grow.notify_one();
    }

    /// Gives load reports to `sink`, about one in each period, while the endpoint is connected and has them (gRFC A51).
    pub(crate) fn watch_reports(
        self: &Arc<Self>,
        period: Duration,
        sink: Arc<dyn ReportSink>,
    ) -> ReportWatch {
        let watchers = self.shared.reports.get_or_init(Arc::default);
        let (id, must_start) = watchers.add(period, sink);
        if must_start {
            let (shared, watchers) = (Arc::clone(&self.shared), Arc::clone(watchers));
            tokio::spawn(reports::run(shared, watchers));
        }
        ReportWatch {
            id,
            subchannel: Arc::clone(self),
        }
    }

    /// Sends a [`StateChanged`] with `token` on `changes` after each change of state.
    pub(crate) fn watch(
        self: &Arc<Self>,
        token: u64,
        changes: mpsc::UnboundedSender<StateChanged>,
    ) -> StateWatch {
        StateWatch {
            id: self.shared.watch(token, changes),
            subchannel: Arc::clone(self),
        }
    }
}

/// A watch of a subchannel's load reports; ends when dropped.
pub(crate) struct ReportWatch {
    id: u64,
    subchannel: Arc<Subchannel>,
}

impl StateWatch {
    pub(crate) fn subchannel(&self) -> &Arc<Subchannel> {
        &self.subchannel
    }
}

impl Drop for ReportWatch {
    fn drop(&mut self) {
        if let Some(watchers) = self.subchannel.shared.reports.get() {
            watchers.remove(self.id);
        }
    }
}

impl Drop for StateWatch {
    fn drop(&mut self) {
        self.subchannel.shared.unwatch(self.id);
    }
}

impl fmt::Debug for Subchannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subchannel")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}
