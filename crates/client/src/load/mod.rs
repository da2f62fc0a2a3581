//! Load reports: counters of RPCs, and the LRS streams that report them to control planes.
//!
//! ```text
//!  XdsClient ─► LoadReporter ─► ClusterLoad ─► LocalityLoad ─► Call       counted by atomics only
//!                    │               └──────► DropCount          │
//!                    ▼                                           │ the stream ends when the
//!           one LRS stream per control plane ◄───────────────────┘ last one is dropped
//! ```
//!
//! [`oxds_core::lrs`] implements the protocol. `oxds-channel` reports load by itself for clusters whose configuration
//! asks for it; another data plane does it like this:
//!
//! ```no_run
//! # use oxds_client::{Update, XdsClient};
//! # use oxds_core::resource::{Cluster, LocalityId};
//! # async fn example(client: XdsClient) {
//! let mut watch = client.watch::<Cluster>("checkout");
//! if let Some(Update::Changed(Ok(cluster))) = watch.next().await
//!     && let Some(load) = client.load_reporter().of(&cluster)
//! {
//!     let locality = load.locality(&LocalityId { region: "eu".into(), ..LocalityId::default() });
//!     let call = locality.begin();
//!     // … when the RPC has succeeded; a call that is dropped counts as failed.
//!     call.succeed();
//! }
//! # }
//! ```

mod out_of_band;
mod reporter;
mod stream;
mod trailer;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use oxds_core::ads::ServerId;
use oxds_core::lrs;
use oxds_core::resource::{Cluster, LocalityId, LrsServer};
use tokio::time::timeout;

pub use oxds_core::lrs::{ClusterKey, DropCount};
pub use oxds_core::resource::MetricSelection;

pub use out_of_band::{ReportError, ReportReader, report_request};
pub use oxds_types::orca::{OrcaLoadReport, STREAM_METHOD};
pub use trailer::orca;

use crate::bootstrap::{Bootstrap, Server};
use crate::link::ServerLinks;
use crate::options::Options;
use reporter::ServerReporter;

/// Time limit of [`LoadReporter::settled`]: the last counts may wait 1 s for a stream, and the stream 1 s for its
/// server.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Reporter of load to the control planes of one [`XdsClient`](crate::XdsClient). Clones share one reporter.
///
/// There is one LRS stream per control plane, on the connection of the ADS stream, for all clusters that are reported
/// there (gRFC A27, A47). It opens when the first [`ClusterLoad`] is created. It closes after the last one, its
/// localities and its calls are dropped and their counts are reported. Errors of the stream affect nothing else
/// (C-141).
#[derive(Debug, Clone)]
pub struct LoadReporter {
    reporters: Arc<[(ServerId, Arc<ServerReporter>)]>,
    /// Only the metrics that a cluster lists are reported (gRFC A85).
    listed_metrics: bool,
}

/// Load of one cluster. The cluster is reported until this is dropped. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClusterLoad {
    usage: Arc<ClusterUsage>,
    metrics: Arc<MetricSelection>,
}

/// Load of one locality of a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalityLoad(Arc<LocalityCounters>);

/// An RPC in progress. Dropping it counts the RPC as failed.
#[derive(Debug)]
#[must_use = "the RPC counts as ended when this is dropped"]
pub struct Call {
    locality: LocalityLoad,
    succeeded: bool,
}

/// Use of a cluster's counters; the cluster is reported until it is dropped.
#[derive(Debug)]
struct ClusterUsage {
    reporter: Arc<ServerReporter>,
    key: ClusterKey,
    counters: Arc<lrs::ClusterLoad>,
}

#[derive(Debug)]
struct LocalityCounters {
    counters: Arc<lrs::LocalityLoad>,
    metrics: Arc<MetricSelection>,
    /// Keeps the stream open that will report the RPCs in progress.
    _usage: Arc<ClusterUsage>,
}

impl LoadReporter {
    /// Creates a reporter to these servers, on the connections of these links. Must be called in a tokio runtime.
    pub(crate) fn new<'a>(
        servers: impl IntoIterator<Item = (ServerId, &'a Server)>,
        bootstrap: &Bootstrap,
        options: &Options,
        links: &ServerLinks,
    ) -> Self {
        let reporter = |(id, server): (ServerId, &Server)| {
            let (node, links) = (bootstrap.node.clone(), links.clone());
            let max_response_bytes = options.max_response_bytes;
            let reporter = ServerReporter::new(server.clone(), node, links, max_response_bytes);
            (id, reporter)
        };
        Self {
            reporters: servers.into_iter().map(reporter).collect(),
            listed_metrics: bootstrap.listed_metrics,
        }
    }

    /// Returns the load of a cluster whose configuration asks for load reports to its own control plane; otherwise
    /// `None`. After fallback, another server delivers the cluster, and gets its load reports from then on (C-144).
    #[must_use]
    pub fn of(&self, cluster: &Cluster) -> Option<ClusterLoad> {
        // gRFC A27: `lrs_server: {self: {}}` means the control plane that delivered the cluster (C-144).
        let Some(LrsServer::Sender(server)) = cluster.lrs_server else {
            return None;
        };
        let (name, service) = (&cluster.name, &cluster.eds_service_name);
        let key = ClusterKey::new(Arc::clone(name), Arc::clone(service));
        let metrics = if self.listed_metrics {
            // gRFC A85: the metrics that the cluster lists; before it, gRFC A64: every named metric (C-143).
            cluster.lrs_metrics.clone()
        } else {
            MetricSelection::every_named()
        };
        self.cluster(server, key, metrics)
    }

    /// Waits until all counts are reported, or given up: three seconds at most (C-142).
    ///
    /// Call it before the runtime ends, because the tasks that report end with it, and after every [`ClusterLoad`],
    /// [`LocalityLoad`] and [`Call`] is dropped. It does not wait for a control plane for which one is still in use.
    ///
    /// # Cancel safety
    /// Dropping the future ends only the wait.
    pub async fn settled(&self) {
        // The reporters settle by themselves, so waiting for them in turn takes no longer than for the slowest.
        let all = async {
            for (_, reporter) in &*self.reporters {
                reporter.settled().await;
            }
        };
        let _ = timeout(SETTLE_TIMEOUT, all).await;
    }

    /// Returns the load of any cluster, reported to one of the client's servers with the selected ORCA metrics. All
    /// uses of a cluster share its counters. Returns `None` if the client has no such server, or the server is not used
    /// over gRPC.
    #[must_use]
    pub fn cluster(
        &self,
        server: ServerId,
        key: ClusterKey,
        metrics: MetricSelection,
    ) -> Option<ClusterLoad> {
        let mut reporters = self.reporters.iter();
        let (_, reporter) = reporters.find(|(id, _)| *id == server)?;
        let reporter = Arc::clone(reporter);
        let counters = reporter.enter(&key);
        Some(ClusterLoad {
            usage: Arc::new(ClusterUsage {
                reporter,
                key,
                counters,
            }),
            metrics: Arc::new(metrics),
        })
    }
}

impl Drop for ClusterUsage {
    fn drop(&mut self) {
        self.reporter.leave(&self.key);
    }
}

impl ClusterLoad {
    /// Returns the names under which the cluster is reported.
    #[must_use]
    pub fn key(&self) -> &ClusterKey {
        &self.usage.key
    }

    /// Returns the load of a locality. Clusters without localities, such as logical DNS clusters, use the empty one
    /// (C-145).
    #[must_use]
    pub fn locality(&self, id: &LocalityId) -> LocalityLoad {
        LocalityLoad(Arc::new(LocalityCounters {
            counters: self.usage.counters.locality(id),
            metrics: Arc::clone(&self.metrics),
            _usage: Arc::clone(&self.usage),
        }))
    }

    /// Returns the counter of RPCs that are dropped in a category (gRFC A27). It is reported only while this
    /// `ClusterLoad` exists.
    #[must_use]
    pub fn category(&self, name: &Arc<str>) -> Arc<DropCount> {
        self.usage.counters.category(name)
    }

    /// Counts an RPC that was dropped without a category: by a circuit breaker (gRFC A32).
    pub fn drop_uncategorized(&self) {
        self.usage.counters.uncategorized().add();
    }
}

impl LocalityLoad {
    /// Counts the start of an RPC.
    pub fn begin(&self) -> Call {
        self.0.counters.begin();
        Call {
            locality: self.clone(),
            succeeded: false,
        }
    }
}

impl Call {
    /// Ends the RPC with its trailers, or its headers if the response has no trailers. It has succeeded if their
    /// `grpc-status` is 0. An ORCA report in them is recorded if the cluster selects metrics.
    pub fn end(mut self, last: &HeaderMap) {
        // gRPC over HTTP/2: a response without `grpc-status` has failed.
        self.succeeded = last.get("grpc-status").is_some_and(|status| status == "0");
        if self.wants_metrics()
            && let Some(report) = orca(last)
        {
            self.record(&report);
        }
    }

    /// Ends the RPC as succeeded.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }

    /// Returns whether the cluster selects any ORCA metric.
    fn wants_metrics(&self) -> bool {
        !self.locality.0.metrics.is_empty()
    }

    /// Records the ORCA report of this RPC (gRFC A64). Out-of-band reports do not belong to an RPC, and must not be
    /// passed.
    pub fn record(&self, report: &OrcaLoadReport) {
        let locality = &self.locality.0;
        locality.counters.record(&locality.metrics, report);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let counters = &self.locality.0.counters;
        if self.succeeded {
            counters.succeed();
        } else {
            counters.fail();
        }
    }
}

#[cfg(test)]
mod tests;
