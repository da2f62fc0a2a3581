//! LRS: what clients report about the load they carry to each cluster (S-66, S-67).
//!
//! ```text
//!  client ──node──▶ ┌─────────┐ ──clusters, interval──▶ client
//!         ──loads─▶ │ service │ ──▶ ledger ──▶ LoadReports, /status.json
//!                   └─────────┘
//! ```
//!
//! The first answer says what to report and how often; another follows when either changes. A client that understands
//! `send_all_clusters` is told that; any other the names of the clusters that are served.

mod ledger;
mod room;
mod service;
mod v2;

use std::sync::Arc;
use std::time::Duration;

use oxds_core::time::Instant;
use tokio::sync::watch;

use crate::server::Clock;
use ledger::Ledger;
pub use ledger::{ClusterLoad, Counts, LocalityLoad, Metric};
pub(crate) use service::LoadService;
pub(crate) use v2::{LoadServiceV2, V2_PATH};

/// What gRPC's and Envoy's own examples ask for: often enough for a rate over ten seconds.
const INTERVAL: Duration = Duration::from_secs(5);

/// Envoy takes the interval at its word, and with none would do nothing but report.
const SHORTEST: Duration = Duration::from_millis(100);

/// The loads that clients report. A handle: clones share one state.
///
/// Give one to [`Builder::load_reports`](crate::Builder::load_reports) to read loads, or to change how often they come.
#[derive(Clone, Debug)]
pub struct LoadReports(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    interval: watch::Sender<Duration>,
    clock: Clock,
}

impl LoadReports {
    /// Asks clients to report at this interval, and not more often than ten times per second.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self(Arc::new(Inner {
            ledger: Ledger::default(),
            interval: watch::Sender::new(interval.max(SHORTEST)),
            clock: Clock::start(),
        }))
    }

    /// Asks clients to report at another interval from now on; those that are connected are told (S-67).
    pub fn set_interval(&self, interval: Duration) {
        self.0.interval.send_replace(interval.max(SHORTEST));
    }

    /// The loads of all clients, by node and cluster. What was not heard of for a minute is gone.
    #[must_use]
    pub fn loads(&self) -> Vec<ClusterLoad> {
        self.0.ledger.loads(self.now())
    }

    fn now(&self) -> Instant {
        self.0.clock.now()
    }
}

impl Default for LoadReports {
    fn default() -> Self {
        Self::every(INTERVAL)
    }
}
