//! The machine: one server's reports.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_types::discovery::{Duration as ProtoDuration, Node};

use super::load::ClusterLoad;
use super::orders::Orders;
use super::{ClusterKey, SEND_ALL_CLUSTERS};
use crate::ads::Backoff;
use crate::time::Instant;

/// How long the last counts wait for a stream that can take them: Go's bound on the final report.
const PARTING: Duration = Duration::from_secs(1);

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum LrsTransmit {
    /// Connect and open a stream; then call `handle_opened`, as soon as requests can be written to it, or `handle_closed`.
    Open,
    /// Write this request to the stream.
    Request(Box<LoadStatsRequest>),
    /// All is said: end the requests, and give the server a moment to read them before the connection is closed. How that
    /// goes is not to be reported.
    Finish,
    /// Close the stream and the connection, or give up opening them. Their end is not to be reported.
    Close,
}

/// Reports the load of clusters to one server.
///
/// Use it as all machines: after [`enter`](Self::enter), [`leave`](Self::leave) or a `handle_*` call, poll
/// [`poll_transmit`](Self::poll_transmit) until it returns `None`, then arm one timer for
/// [`poll_timeout`](Self::poll_timeout) and, when it fires, poll again: time alone makes reports due.
#[derive(Debug)]
pub struct Reporter {
    node: Node,
    /// In use, or not yet told to the end.
    clusters: BTreeMap<ClusterKey, Tracked>,
    phase: Phase,
    backoff: Backoff,
    /// When the last use ended, until then its counts wait for a stream.
    parting: Option<Instant>,
}

#[derive(Debug)]
struct Tracked {
    load: Arc<ClusterLoad>,
    uses: usize,
    /// What has not been told began here (C-137).
    since: Instant,
    /// Nothing happened in the last window, and that has been told (C-140).
    quiet: bool,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is under way.
    Idle,
    /// The driver is connecting.
    Opening,
    /// Requests can be written; the server has not said what it wants.
    Open {
        /// The node has been sent.
        introduced: bool,
    },
    Reporting {
        orders: Orders,
        /// The last report, or what began the first window.
        last: Instant,
    },
    /// All is said; the driver has yet to hear it.
    Finishing,
    Backoff {
        until: Instant,
    },
}

impl Reporter {
    /// A reporter of nothing, so that it does not connect (C-129). The node is the one that asks this server for resources.
    #[must_use]
    pub fn new(mut node: Node) -> Self {
        node.client_features.push(SEND_ALL_CLUSTERS.to_owned());
        Self {
            node,
            clusters: BTreeMap::new(),
            phase: Phase::Idle,
            backoff: Backoff::default(),
            parting: None,
        }
    }

    /// A cluster comes into use, once more. All uses of a cluster share its counters.
    pub fn enter(&mut self, now: Instant, key: &ClusterKey) -> Arc<ClusterLoad> {
        self.parting = None;
        let tracked = match self.clusters.entry(key.clone()) {
            Entry::Occupied(tracked) => tracked.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Tracked {
                load: Arc::default(),
                uses: 0,
                since: now,
                quiet: false,
            }),
        };
        tracked.uses += 1;
        Arc::clone(&tracked.load)
    }

    /// A use that [`enter`](Self::enter) began has ended. The cluster is reported a last time.
    pub fn leave(&mut self, now: Instant, key: &ClusterKey) {
        if let Some(tracked) = self.clusters.get_mut(key) {
            tracked.uses = tracked.uses.saturating_sub(1);
        }
        if !self.is_used() {
            self.parting = Some(now + PARTING);
        }
    }

    /// Requests can be written from now on.
    pub fn handle_opened(&mut self) {
        if matches!(self.phase, Phase::Opening) {
            self.phase = Phase::Open { introduced: false };
        }
    }

    /// The server says what it wants. What it said before is void, at once (C-135).
    pub fn handle_response(&mut self, now: Instant, response: LoadStatsResponse) {
        let last = match self.phase {
            Phase::Reporting { last, .. } => last,
            Phase::Open { .. } => now,
            // A late one.
            _ => return,
        };
        self.backoff.reset();
        // The interval runs from the last report, so that no number of responses puts off the next.
        let orders = response.into();
        self.phase = Phase::Reporting { orders, last };
    }

    /// The stream could not be opened, or ended. `random` spreads the next attempt, which follows the rule of ADS (C-141).
    pub fn handle_closed(&mut self, now: Instant, random: u64) {
        if matches!(
            self.phase,
            Phase::Opening | Phase::Open { .. } | Phase::Reporting { .. }
        ) {
            self.phase = Phase::Backoff {
                until: now + self.backoff.next(random),
            };
        }
    }

    /// What to do next. Poll until `None` after every other call, and when the time of
    /// [`poll_timeout`](Self::poll_timeout) has come.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<LrsTransmit> {
        if let Phase::Backoff { until } = self.phase
            && until <= now
        {
            self.phase = Phase::Idle;
        }
        let wanted = self.is_wanted(now);
        match &mut self.phase {
            Phase::Idle if wanted => {
                self.phase = Phase::Opening;
                Some(LrsTransmit::Open)
            }
            Phase::Open { introduced } if wanted && !*introduced => {
                *introduced = true;
                // C-132: who speaks, and nothing else.
                Some(LrsTransmit::Request(Box::new(LoadStatsRequest {
                    node: Some(self.node.clone()),
                    cluster_stats: Vec::new(),
                })))
            }
            Phase::Reporting { .. } => self.poll_report(now),
            Phase::Finishing => self.poll_finish(),
            Phase::Opening | Phase::Open { .. } if !wanted => {
                self.clusters.clear();
                self.phase = Phase::Idle;
                Some(LrsTransmit::Close)
            }
            Phase::Idle | Phase::Backoff { .. } if !wanted => {
                self.clusters.clear();
                None
            }
            _ => None,
        }
    }

    /// When to poll again, if nothing else happens before; `None` while nothing is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let retry = match &self.phase {
            Phase::Backoff { until } if !self.clusters.is_empty() => Some(*until),
            Phase::Reporting { orders, last } => Some(*last + orders.interval),
            _ => None,
        };
        let parting = self.parting.filter(|_| !self.clusters.is_empty());
        retry.into_iter().chain(parting).min()
    }

    /// Whether there is nothing to do until a cluster comes into use.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.clusters.is_empty() && matches!(self.phase, Phase::Idle | Phase::Backoff { .. })
    }

    /// Whether a cluster is in use; without one, all that is left is to say what they came to, for a moment.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.clusters.values().any(|tracked| tracked.uses > 0)
    }

    /// Whether there should be a stream: for clusters in use, or for a moment to say what they came to (C-130, C-142).
    fn is_wanted(&self, now: Instant) -> bool {
        let is_parting = self.parting.is_some_and(|until| now < until);
        let mut clusters = self.clusters.values();
        self.is_used() || is_parting && clusters.any(|tracked| tracked.load.is_untold())
    }

    fn poll_report(&mut self, now: Instant) -> Option<LrsTransmit> {
        let is_last = !self.is_used();
        let Phase::Reporting { orders, last } = &mut self.phase else {
            return None;
        };
        if !is_last && now < *last + orders.interval {
            return None;
        }
        *last = now;
        let mut cluster_stats = Vec::new();
        for (key, tracked) in &mut self.clusters {
            let stats = tracked.report(now, key);
            if orders.wants(&key.cluster) {
                cluster_stats.extend(stats);
            }
        }
        self.clusters.retain(|_, tracked| tracked.uses > 0);
        // A report of nothing is none.
        let report = (!cluster_stats.is_empty()).then(|| {
            LrsTransmit::Request(Box::new(LoadStatsRequest {
                node: None,
                cluster_stats,
            }))
        });
        if !is_last {
            return report;
        }
        self.phase = Phase::Finishing;
        report.or_else(|| self.poll_finish())
    }

    fn poll_finish(&mut self) -> Option<LrsTransmit> {
        self.phase = Phase::Idle;
        Some(LrsTransmit::Finish)
    }
}

impl Tracked {
    /// Ends the window. `None` if nothing happened in it, as in the one before (C-140), or ever will.
    ///
    /// Of a cluster that the server does not want, windows pass all the same: should it want it later, it learns what
    /// happened since about then ("new clusters", `lrs.proto`).
    fn report(&mut self, now: Instant, key: &ClusterKey) -> Option<ClusterStats> {
        let stats = self.load.take();
        let window = now - std::mem::replace(&mut self.since, now);
        let is_quiet = stats == ClusterStats::default();
        let was_quiet = std::mem::replace(&mut self.quiet, is_quiet);
        if is_quiet && (was_quiet || self.uses == 0) {
            return None;
        }
        Some(ClusterStats {
            cluster_name: key.cluster.to_string(),
            cluster_service_name: key.service.to_string(),
            load_report_interval: Some(proto_duration(window)),
            ..stats
        })
    }
}

fn proto_duration(duration: Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Below a thousand million.
        nanos: duration.subsec_nanos() as i32,
    }
}
