//! LRS: the loads that clients report for each cluster (S-66, S-67).
//!
//! ```text
//!  client ──node──▶ ┌─────────┐ ──clusters, interval──▶ client
//!         ──loads─▶ │ service │ ──▶ totals ──▶ LoadReports, /status.json
//!                   └─────────┘
//! ```
//!
//! The first response has the clusters to report and the interval; another response follows when one of them changes. A
//! client with `send_all_clusters` support gets that flag, any other client the names of the clusters served to it.

mod budget;
mod rate;
mod service;
mod totals;
mod v2;

use std::sync::Arc;
use std::time::Duration;

use oxds_core::time::Instant;
use tokio::sync::watch;

use crate::calls::{Budget, Clock};
pub(crate) use service::LoadService;
pub(crate) use totals::LoadKey;
use totals::LoadTotals;
pub use totals::{ClusterLoad, Counts, LocalityLoad, Metric};
pub(crate) use v2::{LoadServiceV2, V2_PATH};

/// The default interval. It is that of gRPC's and Envoy's examples, and short enough for a rate over ten seconds.
const INTERVAL: Duration = Duration::from_secs(5);

/// The shortest interval. Envoy obeys any interval, and with zero it would report all the time.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The loads that clients report. A handle: clones share one state.
///
/// Give one to [`Builder::load_reports`](crate::Builder::load_reports) to read loads, or to change how often they come.
#[derive(Clone, Debug)]
pub struct LoadReports(Arc<LoadState>);

/// The state that all handles share.
#[derive(Debug)]
struct LoadState {
    totals: LoadTotals,
    interval: watch::Sender<Duration>,
    clock: Clock,
}

impl LoadReports {
    /// Asks clients to report at this interval, but at most ten times per second: so for zero, too.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self(Arc::new(LoadState {
            totals: LoadTotals::default(),
            interval: watch::Sender::new(interval.max(MIN_INTERVAL)),
            clock: Clock::start(),
        }))
    }

    /// Changes the interval. Clients that are connected get a new response at once (S-67).
    pub fn set_interval(&self, interval: Duration) {
        self.0.interval.send_replace(interval.max(MIN_INTERVAL));
    }

    /// Returns the loads of all clients, by node and cluster. A row is absent when there was no report for three of the
    /// client's intervals, but at least for one minute.
    #[must_use]
    pub fn loads(&self) -> Vec<ClusterLoad> {
        self.0.totals.loads(self.now())
    }

    /// Returns up to `count` loads of selected nodes after the one with this key, and the key of the last one if there
    /// may be more.
    pub(crate) fn after(
        &self,
        after: Option<&LoadKey>,
        count: usize,
        selects: impl Fn(&str) -> bool,
    ) -> (Vec<ClusterLoad>, Option<Option<LoadKey>>) {
        self.0.totals.after(self.now(), after, count, selects)
    }

    /// Returns the number of loads.
    pub(crate) fn count(&self) -> usize {
        self.0.totals.count(self.now())
    }

    /// Counts the bytes of the loads in the budget of a server, which bounds what clients make it keep.
    pub(crate) fn count_in(&self, server: &Arc<Budget>) {
        self.0.totals.count_in(server);
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
