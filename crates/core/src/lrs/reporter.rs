//! Machine that reports load to one server.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_types::discovery::{Duration as ProtoDuration, Node};

use super::load::ClusterLoad;
use super::settings::{ClusterKey, ReportSettings};
use crate::backoff::Backoff;
use crate::time::Instant;

/// Client feature of a client that supports `send_all_clusters` (`lrs.proto`).
pub const SEND_ALL_CLUSTERS: &str = "envoy.lrs.supports_send_all_clusters";

/// Time for which the final report waits for a stream: the bound of grpc-go.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Next action of the driver on the LRS stream.
#[derive(Debug, Clone, PartialEq)]
pub enum LrsTransmit {
    /// Connect and open a stream; then call `handle_opened`, as soon as requests can be written to it, or
    /// `handle_closed`.
    Open,
    /// Write this request to the stream.
    Request(Box<LoadStatsRequest>),
    /// End the requests, and give the server time to read them before the connection is closed. Do not report the end
    /// of the stream to the machine.
    Finish,
    /// Close the stream and the connection, or give up opening them. Do not report their end to the machine.
    Close,
}

/// Machine that reports the load of clusters to one server.
///
/// Drive it like all machines: after [`enter`](Self::enter), [`leave`](Self::leave) or a `handle_*` call, poll
/// [`poll_transmit`](Self::poll_transmit) until it returns `None`, then arm one timer for
/// [`poll_timeout`](Self::poll_timeout) and, when it fires, poll again: reports become due by time alone.
#[derive(Debug)]
pub struct Reporter {
    node: Node,
    /// Clusters in use, and those whose final counts are unreported.
    clusters: BTreeMap<ClusterKey, TrackedCluster>,
    state: ReporterState,
    backoff: Backoff,
    /// End of the wait for a stream that takes the final report; set when the last use ends.
    final_report_until: Option<Instant>,
}

#[derive(Debug)]
struct TrackedCluster {
    load: Arc<ClusterLoad>,
    uses: usize,
    /// Start of the interval that the next report covers (C-137).
    since: Instant,
    /// Whether the last report had no counts (C-140).
    quiet: bool,
}

#[derive(Debug)]
enum ReporterState {
    /// No stream, and no attempt to open one.
    Idle,
    /// The driver is connecting.
    Opening,
    /// Requests can be written; the server has not sent its settings.
    Open {
        /// Whether the first request, which carries the node, was sent.
        node_sent: bool,
    },
    /// The server has sent its settings; reports are sent.
    Reporting {
        settings: ReportSettings,
        /// Time of the last report, or of the first settings.
        last: Instant,
    },
    /// The final report was sent; the driver has not ended the requests yet.
    Finishing,
    /// No attempt is made before `until`.
    Backoff { until: Instant },
}

impl Reporter {
    /// Returns a reporter without clusters, which does not connect (C-129). `node` is the node of the ADS requests to
    /// the same server.
    #[must_use]
    pub fn new(mut node: Node) -> Self {
        node.client_features.push(SEND_ALL_CLUSTERS.to_owned());
        Self {
            node,
            clusters: BTreeMap::new(),
            state: ReporterState::Idle,
            backoff: Backoff::default(),
            final_report_until: None,
        }
    }

    /// Adds a use of a cluster. All uses of a cluster share its counters.
    pub fn enter(&mut self, now: Instant, key: &ClusterKey) -> Arc<ClusterLoad> {
        self.final_report_until = None;
        let tracked = match self.clusters.entry(key.clone()) {
            Entry::Occupied(tracked) => tracked.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(TrackedCluster {
                load: Arc::default(),
                uses: 0,
                since: now,
                quiet: false,
            }),
        };
        tracked.uses += 1;
        Arc::clone(&tracked.load)
    }

    /// Removes a use that [`enter`](Self::enter) added. After the last one, the cluster is reported once more.
    pub fn leave(&mut self, now: Instant, key: &ClusterKey) {
        if let Some(tracked) = self.clusters.get_mut(key) {
            tracked.uses = tracked.uses.saturating_sub(1);
        }
        if !self.is_used() {
            self.final_report_until = Some(now + FINAL_REPORT_TIMEOUT);
        }
    }

    /// Handles a stream that was opened: requests can be written from now on.
    pub fn handle_opened(&mut self) {
        if matches!(self.state, ReporterState::Opening) {
            self.state = ReporterState::Open { node_sent: false };
        }
        debug_assert!(self.is_consistent());
    }

    /// Handles the settings of the server. They replace the settings before at once (C-135).
    pub fn handle_response(&mut self, now: Instant, response: LoadStatsResponse) {
        let last = match self.state {
            ReporterState::Reporting { last, .. } => last,
            ReporterState::Open { .. } => now,
            // A late response, of a stream that has ended.
            _ => return,
        };
        self.backoff.reset();
        // The interval runs from the last report, so that responses cannot delay the next one without bound.
        let settings = response.into();
        self.state = ReporterState::Reporting { settings, last };
        debug_assert!(self.is_consistent());
    }

    /// Handles a stream that could not be opened, or that ended. `random` is the jitter of the next attempt; the
    /// backoff is that of ADS (C-141).
    pub fn handle_closed(&mut self, now: Instant, random: u64) {
        if matches!(
            self.state,
            ReporterState::Opening | ReporterState::Open { .. } | ReporterState::Reporting { .. }
        ) {
            self.state = ReporterState::Backoff {
                until: now + self.backoff.next(random),
            };
        }
        debug_assert!(self.is_consistent());
    }

    /// Whether the final report is awaited exactly while clusters are left of which none is in use; for debug
    /// assertions.
    fn is_consistent(&self) -> bool {
        let is_last = self.final_report_until.is_some();
        if self.is_used() {
            !is_last
        } else {
            is_last || self.clusters.is_empty()
        }
    }

    /// Returns the next action of the driver. Poll it until `None` after every other call, and at the time that
    /// [`poll_timeout`](Self::poll_timeout) returned.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<LrsTransmit> {
        if let ReporterState::Backoff { until } = self.state
            && until <= now
        {
            self.state = ReporterState::Idle;
        }
        let wanted = self.is_wanted(now);
        match &mut self.state {
            ReporterState::Idle if wanted => {
                self.state = ReporterState::Opening;
                Some(LrsTransmit::Open)
            }
            ReporterState::Open { node_sent } if wanted && !*node_sent => {
                *node_sent = true;
                // lrs.proto: the first request has the node and no stats (C-132).
                Some(LrsTransmit::Request(Box::new(LoadStatsRequest {
                    node: Some(self.node.clone()),
                    cluster_stats: Vec::new(),
                })))
            }
            ReporterState::Reporting { .. } => self.poll_report(now),
            ReporterState::Finishing => self.poll_finish(),
            ReporterState::Opening | ReporterState::Open { .. } if !wanted => {
                self.clusters.clear();
                self.state = ReporterState::Idle;
                Some(LrsTransmit::Close)
            }
            ReporterState::Idle | ReporterState::Backoff { .. } if !wanted => {
                self.clusters.clear();
                None
            }
            _ => None,
        }
    }

    /// Returns when to poll again if nothing else happens before; `None` while no stream is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let retry = match &self.state {
            ReporterState::Backoff { until } if !self.clusters.is_empty() => Some(*until),
            ReporterState::Reporting { settings, last } => Some(*last + settings.interval),
            _ => None,
        };
        let final_report = self
            .final_report_until
            .filter(|_| !self.clusters.is_empty());
        retry.into_iter().chain(final_report).min()
    }

    /// Returns whether nothing is to be done until a cluster is used.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.clusters.is_empty()
            && matches!(
                self.state,
                ReporterState::Idle | ReporterState::Backoff { .. }
            )
    }

    /// Returns whether a cluster is in use. Without one, only the final report is left.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.clusters.values().any(|tracked| tracked.uses > 0)
    }

    /// Returns whether a stream is wanted: for clusters in use, or for the final report (C-130, C-142).
    fn is_wanted(&self, now: Instant) -> bool {
        let has_final_report = self.final_report_until.is_some_and(|until| now < until);
        let mut clusters = self.clusters.values();
        self.is_used() || has_final_report && clusters.any(|tracked| tracked.load.has_unreported())
    }

    fn poll_report(&mut self, now: Instant) -> Option<LrsTransmit> {
        let is_last = !self.is_used();
        let ReporterState::Reporting { settings, last } = &mut self.state else {
            return None;
        };
        if !is_last && now < *last + settings.interval {
            return None;
        }
        *last = now;
        let mut cluster_stats = Vec::new();
        for (key, tracked) in &mut self.clusters {
            let stats = tracked.report(now, key);
            if settings.wants(&key.cluster) {
                cluster_stats.extend(stats);
            }
        }
        self.clusters.retain(|_, tracked| tracked.uses > 0);
        // A request without stats would report nothing, so it is not sent.
        let report = (!cluster_stats.is_empty()).then(|| {
            LrsTransmit::Request(Box::new(LoadStatsRequest {
                node: None,
                cluster_stats,
            }))
        });
        if !is_last {
            return report;
        }
        self.state = ReporterState::Finishing;
        report.or_else(|| self.poll_finish())
    }

    fn poll_finish(&mut self) -> Option<LrsTransmit> {
        self.state = ReporterState::Idle;
        Some(LrsTransmit::Finish)
    }
}

impl TrackedCluster {
    /// Ends the interval, and returns its counts. Returns `None` without counts, if the report before had none either
    /// (C-140), or if the cluster is no longer used.
    ///
    /// Intervals also end for clusters that the server does not want: if it wants one later, the first report covers
    /// the time since about then (`lrs.proto`, new clusters).
    fn report(&mut self, now: Instant, key: &ClusterKey) -> Option<ClusterStats> {
        let stats = self.load.take();
        let interval = now - std::mem::replace(&mut self.since, now);
        let is_quiet = stats == ClusterStats::default();
        let was_quiet = std::mem::replace(&mut self.quiet, is_quiet);
        if is_quiet && (was_quiet || self.uses == 0) {
            return None;
        }
        Some(ClusterStats {
            cluster_name: key.cluster.to_string(),
            cluster_service_name: key.service.to_string(),
            load_report_interval: Some(proto_duration(interval)),
            ..stats
        })
    }
}

fn proto_duration(duration: Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Always below 1,000,000,000.
        nanos: duration.subsec_nanos() as i32,
    }
}
