//! Load reports: what RPCs count, and the streams that tell control planes (LRS).
//!
//! ```text
//!  XdsClient ─► LoadReporter ─► ClusterLoad ─► LocalityLoad ─► Call       counted by atomics, nothing else
//!                    │               └──────► DropCount          │
//!                    ▼                                           │ the last one to go
//!             one stream per control plane ◄─────────────────────┘ ends the stream
//! ```
//!
//! The protocol is [`oxds_core::lrs`]. A channel does all this itself for clusters whose configuration says so; here is
//! what another data plane needs:
//!
//! ```no_run
//! # use oxds_client::{Update, XdsClient};
//! # use oxds_core::resource::{Cluster, LocalityId};
//! # async fn example(client: XdsClient) {
//! let mut watch = client.watch::<Cluster>("checkout");
//! if let Some(Update::Changed(Ok(cluster))) = watch.next().await
//!     && let Some(load) = client.load_reporter().of(&cluster)
//! {
//!     let place = load.locality(&LocalityId { region: "eu".into(), ..LocalityId::default() });
//!     let call = place.begin();
//!     // … and when it ended well; a call that is dropped did not.
//!     call.succeed();
//! }
//! # }
//! ```

mod line;
mod stream;
mod trailer;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use oxds_core::ads::ServerId;
use oxds_core::lrs;
use oxds_core::resource::{Cluster, LocalityId, LrsServer};
use oxds_types::orca::OrcaLoadReport;
use tokio::time::timeout;

pub use oxds_core::lrs::{ClusterKey, DropCount, MetricSelection};

use crate::bootstrap::{Bootstrap, Server};
use crate::client::Options;
use line::Line;

/// More than the last counts may wait for a stream, and the stream for its server: a second each.
const SETTLED: Duration = Duration::from_secs(3);

/// Reports load to the control planes of one [`XdsClient`](crate::XdsClient). Clones are the same reporter.
///
/// There is one stream per control plane, however many clusters are reported there (gRFC A27, A47). It is opened when the
/// first [`ClusterLoad`] is made, and closed after the last one, its localities and calls are dropped and what they counted
/// has been told. What goes wrong with it concerns nobody else (C-141).
#[derive(Debug, Clone)]
pub struct LoadReporter {
    lines: Arc<[(ServerId, Arc<Line>)]>,
    /// Clusters list which metrics are reported (gRFC A85).
    listed_metrics: bool,
}

/// The load of one cluster. While it is held, the cluster is reported.
#[derive(Debug, Clone)]
pub struct ClusterLoad {
    using: Arc<Using>,
    metrics: Arc<MetricSelection>,
}

/// The load of one locality of a cluster; cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalityLoad(Arc<Place>);

/// An RPC under way. Dropping it counts it as failed.
#[derive(Debug)]
#[must_use = "an RPC lasts until this is dropped"]
pub struct Call {
    place: LocalityLoad,
    succeeded: bool,
}

/// A use of a cluster's counters, until dropped.
#[derive(Debug)]
struct Using {
    line: Arc<Line>,
    key: ClusterKey,
    counters: Arc<lrs::ClusterLoad>,
}

#[derive(Debug)]
struct Place {
    counters: Arc<lrs::LocalityLoad>,
    metrics: Arc<MetricSelection>,
    /// An RPC under way keeps the stream that will tell of it.
    _using: Arc<Using>,
}

impl LoadReporter {
    /// A reporter to these servers. Needs a tokio runtime.
    pub(crate) fn new<'a>(
        servers: impl IntoIterator<Item = (ServerId, &'a Server)>,
        bootstrap: &Bootstrap,
        options: &Options,
    ) -> Self {
        let line = |(id, server): (ServerId, &Server)| {
            let node = bootstrap.node.clone();
            (id, Line::new(server.clone(), node, options.clone()))
        };
        Self {
            lines: servers.into_iter().map(line).collect(),
            listed_metrics: bootstrap.listed_metrics,
        }
    }

    /// The load of a cluster, if its configuration says that it is to be reported: to the server that delivered it. After
    /// a fallback the cluster is delivered anew, and its load moves with it (C-144).
    #[must_use]
    pub fn of(&self, cluster: &Cluster) -> Option<ClusterLoad> {
        let Some(LrsServer::Sender(server)) = cluster.lrs_server else {
            return None;
        };
        let (name, service) = (&cluster.name, &cluster.eds_service_name);
        let key = ClusterKey::new(Arc::clone(name), Arc::clone(service));
        let metrics = match self.listed_metrics {
            true => cluster.lrs_metrics.clone(),
            false => MetricSelection::every_named(),
        };
        self.cluster(server, key, metrics)
    }

    /// Waits until what was counted is told, or given up: three seconds at most (C-142). It is for who ends its runtime, and
    /// with it the tasks that would tell: after every [`ClusterLoad`], [`LocalityLoad`] and [`Call`] was dropped. A control
    /// plane for which something is still in use is not waited for.
    ///
    /// # Cancel safety
    /// Dropping the future waits no longer, and changes nothing else.
    pub async fn settled(&self) {
        // The lines settle by themselves, at the same time.
        let all = async {
            for (_, line) in &*self.lines {
                line.settled().await;
            }
        };
        let _ = timeout(SETTLED, all).await;
    }

    /// The load of any cluster, reported to one of the client's servers, with some of what backends say of themselves.
    /// All uses of a cluster share its counters. `None`: the client has no such server.
    #[must_use]
    pub fn cluster(
        &self,
        server: ServerId,
        key: ClusterKey,
        metrics: MetricSelection,
    ) -> Option<ClusterLoad> {
        let (_, line) = self.lines.iter().find(|(id, _)| *id == server)?;
        let line = Arc::clone(line);
        let counters = line.enter(&key);
        Some(ClusterLoad {
            using: Arc::new(Using {
                line,
                key,
                counters,
            }),
            metrics: Arc::new(metrics),
        })
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.line.leave(&self.key);
    }
}

impl ClusterLoad {
    /// What it is reported as.
    #[must_use]
    pub fn key(&self) -> &ClusterKey {
        &self.using.key
    }

    /// The load of a locality. Of a cluster that has none, as logical DNS ones, it is the empty one (C-145).
    #[must_use]
    pub fn locality(&self, id: &LocalityId) -> LocalityLoad {
        LocalityLoad(Arc::new(Place {
            counters: self.using.counters.locality(id),
            metrics: Arc::clone(&self.metrics),
            _using: Arc::clone(&self.using),
        }))
    }

    /// The counter of RPCs dropped in a category (gRFC A27). To be held beside this, which is what keeps it reported.
    #[must_use]
    pub fn category(&self, name: &Arc<str>) -> Arc<DropCount> {
        self.using.counters.category(name)
    }

    /// Counts an RPC that was dropped for another reason: a circuit breaker (gRFC A32).
    pub fn drop_uncategorized(&self) {
        self.using.counters.uncategorized().add();
    }
}

impl LocalityLoad {
    /// An RPC begins.
    pub fn begin(&self) -> Call {
        self.0.counters.begin();
        Call {
            place: self.clone(),
            succeeded: false,
        }
    }
}

impl Call {
    /// It ended with these trailers, or headers where there is no body: well, if their `grpc-status` says so. What the
    /// backend says of itself in them is recorded, if it is wanted.
    pub fn end(mut self, last: &HeaderMap) {
        self.succeeded = last.get("grpc-status").is_some_and(|status| status == "0");
        if self.wants_metrics()
            && let Some(report) = trailer::orca(last)
        {
            self.record(&report);
        }
    }

    /// It ended well.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }

    /// Whether [`record`](Self::record) would do anything.
    fn wants_metrics(&self) -> bool {
        !self.place.0.metrics.is_empty()
    }

    /// What its backend said of itself at its end (gRFC A64); reports out of band are not for here.
    pub fn record(&self, report: &OrcaLoadReport) {
        let place = &self.place.0;
        place.counters.record(&place.metrics, report);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let counters = &self.place.0.counters;
        match self.succeeded {
            true => counters.succeed(),
            false => counters.fail(),
        }
    }
}

#[cfg(test)]
mod tests;
