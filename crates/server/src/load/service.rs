//! The gRPC service: one loop per stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingService;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use futures_util::Stream;
use futures_util::stream::unfold;
use oxds_core::session::Interest;
use oxds_core::snapshot::Revision;
use oxds_types::ResourceType;
use oxds_types::discovery::{Duration as ProtoDuration, Node};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, warn};

use super::LoadReports;
use crate::cache::{Cache, Watcher};
use crate::discovery::{CallError, Context};
use crate::server::Peer;

/// The client feature that says: `send_all_clusters` is understood.
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
        let conversation = Conversation {
            context: Arc::clone(&self.context),
            peer,
            requests: request.into_inner(),
            watcher: None,
            memberships: None,
            interval: self.reports.0.interval.subscribe(),
            reports: self.reports.clone(),
            node: None,
            deadline: Instant::now() + self.context.server.limits.first_request,
            told: None,
            ended: false,
        };
        let responses = unfold(conversation, |mut conversation| async move {
            let response = conversation.next().await?;
            Some((response, conversation))
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// What a client was told to report.
#[derive(Clone, Debug, PartialEq)]
struct Orders {
    interval: Duration,
    /// `None`: all that there are.
    clusters: Option<Vec<String>>,
}

struct Conversation {
    context: Arc<Context>,
    peer: Peer,
    requests: Streaming<LoadStatsRequest>,
    /// Of what the node sees; none before it says who it is.
    watcher: Option<Watcher>,
    /// The state of who is in which group that `watcher` was chosen by.
    memberships: Option<u64>,
    interval: watch::Receiver<Duration>,
    reports: LoadReports,
    node: Option<Node>,
    /// When it has to have said who it is.
    deadline: Instant,
    told: Option<Orders>,
    ended: bool,
}

impl Conversation {
    /// The next response, once there is something to say; records what is reported meanwhile.
    async fn next(&mut self) -> Option<Result<LoadStatsResponse, Status>> {
        let closing = self.context.server.closing.clone();
        while !self.ended {
            self.look();
            let seen = self
                .watcher
                .as_ref()
                .map(|watcher| watcher.view().load().revision());
            if let Some(orders) = self
                .orders()
                .filter(|orders| self.told.as_ref() != Some(orders))
            {
                self.told = Some(orders.clone());
                return Some(Ok(orders.into()));
            }
            let request = tokio::select! {
                request = self.requests.message() => request,
                () = changed(&self.context.cache, self.watcher.as_ref(), seen, self.memberships) => continue,
                changed = self.interval.changed() => match changed {
                    Ok(()) => continue,
                    // The sender lives as long as the reports, and those as long as this.
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
        // Only the first request has to say who speaks; whether it may is asked each time, as rules change.
        let is_first = self.node.is_none();
        let node = self.node.get_or_insert(request.node.unwrap_or_default());
        let admitted = self.context.admit(&self.peer, Some(node));
        admitted.map_err(|denied| self.context.denied(denied))?;
        if is_first {
            debug!(node = node.id, "reports loads");
            self.watcher = Some(self.context.cache.register_session(node));
        }
        let node = &node.id;
        let limit = self.context.config.max_name_len;
        if names(&request.cluster_stats).any(|name| name.len() > limit) {
            return Err(CallError::ReportedNameTooLong(limit).status(&self.context.server.metrics));
        }
        let ledger = &self.reports.0.ledger;
        let now = self.reports.now();
        for report in &request.cluster_stats {
            if !ledger.record(now, node, report) {
                warn!(
                    node,
                    cluster = report.cluster_name,
                    "too many clusters are reported"
                );
            }
        }
        Ok(())
    }

    /// Watches what the node sees now: its groups may be others than before.
    fn look(&mut self) {
        let Some((node, watcher)) = self.node.as_ref().zip(self.watcher.as_mut()) else {
            return;
        };
        let memberships = self.context.cache.memberships();
        if self.memberships == Some(memberships) {
            return;
        }
        self.memberships = Some(memberships);
        *watcher = self.context.cache.register_session(node);
        watcher.watch(&ResourceType::CLUSTER, vec![Interest::All]);
    }

    /// What the client should report; `None` as long as it has not said who it is, or nothing is loaded.
    fn orders(&mut self) -> Option<Orders> {
        let node = self.node.as_ref()?;
        let interval = *self.interval.borrow_and_update();
        if node
            .client_features
            .iter()
            .any(|feature| feature == SEND_ALL)
        {
            return Some(Orders {
                interval,
                clusters: None,
            });
        }
        let snapshot = self.watcher.as_ref()?.view().load();
        let clusters = snapshot.of_type(&ResourceType::CLUSTER).collection();
        let names = clusters.iter().map(|cluster| cluster.name().to_string());
        snapshot.is_loaded().then(|| Orders {
            interval,
            clusters: Some(names.collect()),
        })
    }
}

/// What a client names in its reports.
fn names(reports: &[ClusterStats]) -> impl Iterator<Item = &str> {
    reports.iter().flat_map(|report| {
        let drops = report.dropped_requests.iter().map(|drop| &drop.category);
        let localities = report.upstream_locality_stats.iter().flat_map(|stats| {
            let locality = stats.locality.iter();
            let places = locality.flat_map(|l| [&l.region, &l.zone, &l.sub_zone]);
            places.chain(stats.load_metric_stats.iter().map(|m| &m.metric_name))
        });
        [&report.cluster_name, &report.cluster_service_name]
            .into_iter()
            .chain(drops)
            .chain(localities)
            .map(String::as_str)
    })
}

/// Waits for the next change of what a node sees, or of who sees what; for ever, as long as there is no node.
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

impl From<Orders> for LoadStatsResponse {
    fn from(orders: Orders) -> Self {
        Self {
            send_all_clusters: orders.clusters.is_none(),
            clusters: orders.clusters.unwrap_or_default(),
            load_reporting_interval: Some(ProtoDuration {
                seconds: i64::try_from(orders.interval.as_secs()).unwrap_or(i64::MAX),
                // Below a thousand million.
                nanos: orders.interval.subsec_nanos() as i32,
            }),
            report_endpoint_granularity: false,
        }
    }
}
