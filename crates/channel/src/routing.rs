//! Routing: from a request to the cluster that serves it, in the form that the request path reads.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use http::uri::Authority;
use http::{HeaderMap, Request};
use oxds_client::channelz::{CallCounter, Id};
use oxds_core::lb::Headers;
use oxds_core::lb::policy::PickCall;
use oxds_core::resolve::{CompiledAction, XdsConfig};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tonic::{Code, Status};

use crate::picker::{ClusterHandle, PickResult, PickedConnection};
use crate::random::random;
use crate::status;

/// State that a channel's handles, its RPCs and its driver share.
#[derive(Debug)]
pub(crate) struct ChannelShared {
    pub(crate) target: Box<str>,
    /// `:authority` of requests without one (gRFC A27).
    pub(crate) authority: Authority,
    pub(crate) report_picks: bool,
    /// Default of RPCs without a [`WaitForReady`](crate::WaitForReady).
    pub(crate) wait_for_ready: bool,
    pub(crate) id: Id,
    pub(crate) created: SystemTime,
    pub(crate) calls: Arc<CallCounter>,
    routing: ArcSwap<Routing>,
    revision: AtomicU64,
    changed: Notify,
}

/// The configuration in use.
#[derive(Debug)]
pub(crate) enum Routing {
    /// No configuration has arrived yet: RPCs wait.
    Waiting,
    /// The control plane has no usable configuration: RPCs fail with this status (C-219).
    Failed(Status),
    Table(RoutingTable),
}

/// One whole configuration and its clusters, both in the same order.
#[derive(Debug)]
pub(crate) struct RoutingTable {
    pub(crate) config: Arc<XdsConfig>,
    pub(crate) clusters: Box<[Arc<ClusterHandle>]>,
}

/// Routing state that one RPC keeps while it waits.
#[derive(Debug)]
pub(crate) struct CallState {
    /// Failures of the configuration and of the endpoints do not end the RPC: it waits until they are over.
    wait_for_ready: bool,
    /// Chosen once per RPC (C-230).
    cluster: Option<Arc<ClusterHandle>>,
    /// The route's limit on the duration of the RPC.
    pub(crate) limit: Option<Duration>,
}

/// Next action of an RPC.
pub(crate) enum RoutingDecision {
    Send(PickedConnection),
    Wait(WaitReason),
    Fail(Status),
}

/// The event that an RPC waits for.
pub(crate) enum WaitReason {
    Configuration,
    /// A ready endpoint of the named cluster.
    Connection(Arc<str>),
    /// An end of the failure with this status; only for wait-for-ready RPCs.
    Recovery(Status),
}

impl ChannelShared {
    pub(crate) fn new(target: &str, authority: Authority) -> Self {
        Self {
            target: target.into(),
            authority,
            report_picks: false,
            wait_for_ready: false,
            id: Id::next(),
            created: SystemTime::now(),
            calls: Arc::default(),
            routing: ArcSwap::from_pointee(Routing::Waiting),
            revision: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// Puts a configuration into use. Call [`wake`](Self::wake) afterwards for the RPCs that wait.
    pub(crate) fn set(&self, routing: Routing) {
        self.routing.store(Arc::new(routing));
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn routing(&self) -> Arc<Routing> {
        self.routing.load_full()
    }

    /// Number of configurations put into use so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Makes the RPCs that wait decide again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the first [`wake`](Self::wake) after this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Decides the next action of an RPC from the current configuration and pickers.
    pub(crate) fn decide<B>(&self, request: &Request<B>, call: &mut CallState) -> RoutingDecision {
        // gRFC A31: the weighted cluster is chosen once per RPC; later picks stay in it (C-230).
        let wait_for_ready = call.wait_for_ready;
        let headers = RequestHeaders(request.headers());
        let pick = PickCall {
            path: request.uri().path(),
            headers: &headers,
            hash: None,
        };
        let decide_in = |cluster: &ClusterHandle| decide_in_cluster(cluster, &pick, wait_for_ready);
        if let Some(decision) = call.cluster.as_deref().and_then(decide_in) {
            return decision;
        }
        let routing = self.routing.load();
        let table = match &**routing {
            Routing::Waiting => return RoutingDecision::Wait(WaitReason::Configuration),
            Routing::Failed(status) => return RoutingDecision::failure(status, wait_for_ready),
            Routing::Table(table) => table,
        };
        let Some(cluster) = table.choose(request, call) else {
            // gRFC A28: an RPC that matches no route, or a route whose action clients do not support,
            // fails with UNAVAILABLE (C-229).
            let path = request.uri().path();
            let text = format!("no route of {} matches {path}", self.target);
            return RoutingDecision::Fail(status::of_control_plane(Code::Unavailable, text));
        };
        call.cluster = Some(Arc::clone(cluster));
        // Only a newer table removes a cluster of this one: its `wake` has just come or will come.
        decide_in(cluster).unwrap_or(RoutingDecision::Wait(WaitReason::Configuration))
    }
}

/// Decides within a cluster. Returns `None` if the configuration no longer contains the cluster.
fn decide_in_cluster(
    cluster: &ClusterHandle,
    call: &PickCall<'_>,
    wait_for_ready: bool,
) -> Option<RoutingDecision> {
    match cluster.pick(call) {
        PickResult::Complete(picked) => Some(RoutingDecision::Send(picked)),
        PickResult::Queue => {
            let reason = WaitReason::Connection(Arc::clone(&cluster.name));
            Some(RoutingDecision::Wait(reason))
        }
        PickResult::Fail(status) => Some(RoutingDecision::failure(&status, wait_for_ready)),
        // gRPC wait-for-ready: a drop is a decision of the control plane, not a failure to connect.
        PickResult::Drop(status) => Some(RoutingDecision::Fail(status)),
        // gRFC A31: no RPC may pick a cluster that the route configuration dropped (C-231).
        PickResult::Removed => None,
    }
}

impl CallState {
    pub(crate) fn new(wait_for_ready: bool) -> Self {
        Self {
            wait_for_ready,
            cluster: None,
            limit: None,
        }
    }
}

impl RoutingDecision {
    /// Returns the decision for a failure that a later configuration or connection may end.
    fn failure(status: &Status, wait_for_ready: bool) -> Self {
        match wait_for_ready {
            // gRPC wait-for-ready: TRANSIENT_FAILURE does not end the RPC.
            true => Self::Wait(WaitReason::Recovery(status.clone())),
            false => Self::Fail(status.clone()),
        }
    }
}

impl RoutingTable {
    /// Returns a cluster of the first route that matches. Returns `None` if no route matches, or if the
    /// action of the route is not for clients (C-229).
    fn choose<B>(&self, request: &Request<B>, call: &mut CallState) -> Option<&Arc<ClusterHandle>> {
        let headers = RequestHeaders(request.headers());
        // gRFC A28: the first route that matches wins (C-224).
        let route = self.config.route(request.uri().path(), &headers, random)?;
        let CompiledAction::Forward { clusters, limit } = &route.action else {
            return None;
        };
        call.limit = *limit;
        self.clusters.get(*clusters.pick(random()))
    }
}

/// The headers of a request, as route matchers read them.
struct RequestHeaders<'a>(&'a HeaderMap);

impl Headers for RequestHeaders<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        // gRFC A28: the values of a repeated header are joined with "," before matching (C-225).
        let mut values = self.0.get_all(name).iter().map(|value| value.to_str().ok());
        let first = values.next()??;
        let mut joined = Cow::Borrowed(first);
        for value in values {
            let joined = joined.to_mut();
            joined.push(',');
            joined.push_str(value?);
        }
        Some(joined)
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("waiting for the configuration"),
            Self::Connection(cluster) => {
                write!(f, "connecting to the endpoints of cluster {cluster}")
            }
            Self::Recovery(status) => {
                write!(f, "waiting for readiness, last error: {}", status.message())
            }
        }
    }
}
