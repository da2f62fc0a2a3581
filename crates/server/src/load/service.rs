//! The gRPC service of LRS: one loop per stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingService;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use futures_util::Stream;
use futures_util::stream::unfold;
use oxds_core::snapshot::Revision;
use oxds_types::ResourceType;
use oxds_types::discovery::{Duration as ProtoDuration, Node};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, warn};

use super::LoadReports;
use crate::cache::{Cache, Watcher};
use crate::calls::{Admitted, CallError, ClientLine, MemoryShare, MemoryUse, Peer, cost};
use crate::clients::OtherRegistration;
use crate::context::Context;

/// The longest duration in protobuf, in seconds (`google/protobuf/duration.proto`).
const MAX_SECONDS: i64 = 315_576_000_000;

/// The client feature for `send_all_clusters` support.
const SEND_ALL: &str = "envoy.lrs.supports_send_all_clusters";

/// `envoy.service.load_stats.v3.LoadReportingService`.
#[derive(Debug)]
pub(crate) struct LoadService {
    pub(crate) context: Arc<Context>,
    pub(crate) reports: LoadReports,
}

#[tonic::async_trait]
impl LoadReportingService for LoadService {
    type StreamLoadStatsStream =
        Pin<Box<dyn Stream<Item = Result<LoadStatsResponse, Status>> + Send>>;

    async fn stream_load_stats(
        &self,
        request: Request<Streaming<LoadStatsRequest>>,
    ) -> Result<Response<Self::StreamLoadStatsStream>, Status> {
        let peer = Peer::of(request.extensions())?;
        let (server, streams) = (&self.context.server, &self.context.clients.streams);
        let registration = streams
            .register_other(peer.address.ip(), &server.limits)
            .map_err(|error| error.status(&server.metrics))?;
        let stream = LoadStream {
            context: Arc::clone(&self.context),
            requests: request.into_inner(),
            watcher: None,
            memberships: None,
            interval: self.reports.0.interval.subscribe(),
            reports: self.reports.clone(),
            node: None,
            deadline: Instant::now() + self.context.server.limits.timers.first_request,
            sent: None,
            share: peer.budgets.share(CancellationToken::new()),
            _registration: registration,
            peer,
            ended: false,
        };
        let responses = unfold(stream, |mut stream| async move {
            let response = stream.next().await?;
            Some((response, stream))
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// The content of an LRS response: the clusters to report, and how often.
#[derive(Clone, Debug, PartialEq)]
struct ReportRequest {
    interval: Duration,
    /// `None`: all clusters.
    clusters: Option<Vec<String>>,
}

/// The state of one LRS stream.
struct LoadStream {
    context: Arc<Context>,
    peer: Peer,
    requests: Streaming<LoadStatsRequest>,
    /// The watcher of the node's view. `None` before the first request.
    watcher: Option<Watcher>,
    /// The revision of group memberships for which `watcher` was chosen.
    memberships: Option<u64>,
    interval: watch::Receiver<Duration>,
    reports: LoadReports,
    node: Option<Node>,
    /// The time by which the first request must arrive.
    deadline: Instant,
    sent: Option<ReportRequest>,
    /// Bytes of the node.
    share: MemoryShare,
    _registration: OtherRegistration,
    ended: bool,
}

impl LoadStream {
    /// Returns the next response when its content changes. Until then it records reports.
    async fn next(&mut self) -> Option<Result<LoadStatsResponse, Status>> {
        let closing = self.context.server.closing.clone();
        while !self.ended {
            self.follow_groups();
            let seen = self
                .watcher
                .as_ref()
                .map(|watcher| watcher.view().load().revision());
            // A further response only if the clusters or the interval changed (S-67).
            if let Some(next) = self
                .report_request()
                .filter(|next| self.sent.as_ref() != Some(next))
            {
                self.sent = Some(next.clone());
                return Some(Ok(next.into()));
            }
            let request = tokio::select! {
                request = self.requests.message() => request,
                () = changed(&self.context.cache, self.watcher.as_ref(), seen, self.memberships) => continue,
                changed = self.interval.changed() => match changed {
                    Ok(()) => continue,
                    // Cannot happen: this stream holds the reports, and they hold the sender.
                    Err(_) => Ok(None),
                },
                () = closing.cancelled() => Err(Status::unavailable("the server is shutting down")),
                () = sleep_until(self.deadline), if self.node.is_none() => {
                    Err(CallError::NoRequest.status(&self.context.server.metrics))
                }
            };
            let handled = match request {
                Ok(Some(request)) => self.handle(request),
                Ok(None) => {
                    self.ended = true;
                    Ok(())
                }
                Err(status) => Err(status),
            };
            if let Err(status) = handled {
                self.ended = true;
                return Some(Err(status));
            }
        }
        None
    }

    fn handle(&mut self, request: LoadStatsRequest) -> Result<(), Status> {
        // LRS API (`lrs.proto`): only the first request has a node (S-66). Authorization is checked for each request,
        // because rules may change during the stream (S-78).
        let is_first = self.node.is_none();
        if let Some(node) = &request.node {
            self.keep(node)
                .map_err(|error| error.status(&self.context.server.metrics))?;
        }
        let node = self.node.get_or_insert(request.node.unwrap_or_default());
        let admitted = self.context.admit(&self.peer, Some(node));
        admitted.map_err(|denied| self.context.denied(denied))?;
        if is_first {
            debug!(node = node.id, "LRS stream opened");
            self.watcher = Some(self.context.cache.register_session(node));
        }
        let node = &node.id;
        let limit = self.context.config.max_name_len;
        if names(&request.cluster_stats).any(|name| name.len() > limit) {
            return Err(CallError::ReportedNameTooLong(limit).status(&self.context.server.metrics));
        }
        let totals = &self.reports.0.totals;
        let (now, asked) = (self.reports.now(), *self.interval.borrow());
        for report in &request.cluster_stats {
            let server = &self.context.server;
            if !totals.record(now, node, report, asked)
                && let Some(Admitted { suppressed }) = server
                    .log
                    .admit(ClientLine::LoadDropped, server.clock.now())
            {
                warn!(
                    node,
                    cluster = report.cluster_name,
                    suppressed,
                    "load report dropped: too many clusters and names are reported"
                );
            }
        }
        Ok(())
    }

    /// Checks the size of a node, and counts what it costs.
    fn keep(&mut self, node: &Node) -> Result<(), CallError> {
        let bytes = cost::of_node(node, &self.context.server.limits)?;
        if self.node.is_none() {
            self.share.set(MemoryUse::Node, bytes)?;
        }
        Ok(())
    }

    /// Watches the view that the node has now. Its groups may have changed.
    fn follow_groups(&mut self) {
        let Some((node, watcher)) = self.node.as_ref().zip(self.watcher.as_mut()) else {
            return;
        };
        let memberships = self.context.cache.memberships();
        if self.memberships == Some(memberships) {
            return;
        }
        self.memberships = Some(memberships);
        *watcher = self.context.cache.register_session(node);
        // Not a subscription: a client that only reports loads asks for no clusters.
        watcher.observe(&ResourceType::CLUSTER);
    }

    /// Returns what the client should report, or `None` before its first request and before the first load.
    fn report_request(&mut self) -> Option<ReportRequest> {
        let node = self.node.as_ref()?;
        let interval = *self.interval.borrow_and_update();
        // `lrs.proto`: only clients with this feature obey `send_all_clusters`; others need the names (S-66).
        if node
            .client_features
            .iter()
            .any(|feature| feature == SEND_ALL)
        {
            return Some(ReportRequest {
                interval,
                clusters: None,
            });
        }
        // Before the first load the names are unknown, and an empty list would stop the client's reports.
        let snapshot = self.watcher.as_ref()?.view().load();
        let clusters = snapshot.of_type(&ResourceType::CLUSTER).collection();
        let names = clusters.iter().map(|cluster| cluster.name().to_string());
        snapshot.is_loaded().then(|| ReportRequest {
            interval,
            clusters: Some(names.collect()),
        })
    }
}

/// Returns all names that a client chooses in its reports.
fn names(reports: &[ClusterStats]) -> impl Iterator<Item = &str> {
    reports.iter().flat_map(|report| {
        let drops = report.dropped_requests.iter().map(|drop| &drop.category);
        let localities = report.upstream_locality_stats.iter().flat_map(|stats| {
            let locality = stats.locality.iter();
            let parts = locality.flat_map(|l| [&l.region, &l.zone, &l.sub_zone]);
            parts.chain(stats.load_metric_stats.iter().map(|m| &m.metric_name))
        });
        [&report.cluster_name, &report.cluster_service_name]
            .into_iter()
            .chain(drops)
            .chain(localities)
            .map(String::as_str)
    })
}

/// Waits until the snapshot of a view or the group memberships change. Without a watcher it never returns.
async fn changed(
    cache: &Cache,
    watcher: Option<&Watcher>,
    seen: Option<Revision>,
    memberships: Option<u64>,
) {
    std::future::poll_fn(|cx| {
        let Some(watcher) = watcher else {
            return Poll::Pending;
        };
        watcher.register(cx.waker());
        let same = Some(watcher.view().load().revision()) == seen
            && Some(cache.memberships()) == memberships;
        if same { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

impl From<ReportRequest> for LoadStatsResponse {
    fn from(request: ReportRequest) -> Self {
        let longest = Duration::from_secs(MAX_SECONDS.unsigned_abs());
        let interval = request.interval.min(longest);
        Self {
            send_all_clusters: request.clusters.is_none(),
            clusters: request.clusters.unwrap_or_default(),
            load_reporting_interval: Some(ProtoDuration {
                seconds: i64::try_from(interval.as_secs()).unwrap_or(MAX_SECONDS),
                // Below 1,000,000,000, so the cast does not truncate.
                nanos: interval.subsec_nanos() as i32,
            }),
            report_endpoint_granularity: false,
        }
    }
}
