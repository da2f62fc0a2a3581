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
use oxds_core::lb::policy::PickCall;
use oxds_core::lb::{Headers, RetryPolicy, request_hash};
use oxds_core::resolve::{CompiledAction, XdsConfig};
use oxds_core::resource::FilterConfig;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tonic::{Code, Status};

use crate::memory::RetryMemory;
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
    /// Memory for retries by policy; `None` if they are off.
    pub(crate) retry_memory: Option<Arc<RetryMemory>>,
    /// Hash of RPCs that hash the channel (gRFC A42).
    hash: u64,
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
    /// Hash of the request by the hash policies of its route.
    hash: Option<u64>,
    /// Hash for policies if the route gives none (gRFC A42).
    random_hash: u64,
    /// The route's limit on the duration of the RPC.
    pub(crate) limit: Option<Duration>,
    /// The route's retry policy.
    pub(crate) retry: Option<Arc<RetryPolicy>>,
    /// The route's HTTP filters; `None` without any.
    pub(crate) filters: Option<Arc<[FilterConfig]>>,
}

/// Next action of an RPC.
pub(crate) enum RoutingDecision {
    Send(PickedConnection),
    Wait(WaitReason),
    /// Fail the RPC: the control plane decided so.
    Fail(Status),
    /// Fail the attempt: no endpoint can take the request now.
    Unavailable(Status),
}

/// Reason why a table has no cluster for an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unroutable {
    /// No route matches, or the action of the route is not for clients.
    NoRoute,
    /// The table lacks a cluster that the route names.
    UnknownCluster,
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
            retry_memory: None,
            hash: random(),
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

    /// Chooses the route and the cluster of an RPC. Returns the reason to wait or to fail if there is none.
    pub(crate) fn route<B>(
        &self,
        request: &Request<B>,
        call: &mut CallState,
    ) -> Result<(), RoutingDecision> {
        let routing = self.routing.load();
        let table = match &**routing {
            Routing::Waiting => return Err(RoutingDecision::Wait(WaitReason::Configuration)),
            Routing::Failed(status) => {
                return Err(RoutingDecision::failure(status, call.wait_for_ready));
            }
            Routing::Table(table) => table,
        };
        let chosen = table.choose(request, call, self.hash);
        chosen.map_err(|unroutable| {
            let (path, target) = (request.uri().path(), &self.target);
            RoutingDecision::Fail(match unroutable {
                // gRFC A28: an RPC that matches no route, or a route whose action clients do not support,
                // fails with UNAVAILABLE (C-229).
                Unroutable::NoRoute => {
                    let text = format!("no route of {target} matches {path}");
                    status::of_control_plane(Code::Unavailable, text)
                }
                // As in gRPC: the table and its clusters do not belong together, which is a bug (C-232).
                Unroutable::UnknownCluster => {
                    Status::internal(format!("the route of {path} has an unknown cluster"))
                }
            })
        })
    }

    /// Decides the next action of an RPC from the current configuration and pickers.
    pub(crate) fn decide<B>(&self, request: &Request<B>, call: &mut CallState) -> RoutingDecision {
        // gRFC A31: the weighted cluster is chosen once per RPC; later picks stay in it (C-230).
        if let Some(decision) = call.decide(request) {
            return decision;
        }
        if let Err(decision) = self.route(request, call) {
            return decision;
        }
        // Only a newer table removes a cluster of this one: its `wake` has just come or will come.
        let decision = call.decide(request);
        decision.unwrap_or(RoutingDecision::Wait(WaitReason::Configuration))
    }
}

impl CallState {
    /// Decides within the cluster of the RPC. Returns `None` if it has none, or the configuration no longer contains it.
    fn decide<B>(&self, request: &Request<B>) -> Option<RoutingDecision> {
        let cluster = self.cluster.as_ref()?;
        let headers = RequestHeaders(request.headers());
        let pick = PickCall {
            path: request.uri().path(),
            headers: &headers,
            hash: self.hash,
            random_hash: self.random_hash,
        };
        match cluster.pick(&pick) {
            PickResult::Complete(picked) => Some(RoutingDecision::Send(picked)),
            PickResult::Queue => {
                let reason = WaitReason::Connection(Arc::clone(&cluster.name));
                Some(RoutingDecision::Wait(reason))
            }
            PickResult::Fail(status) => Some(match self.wait_for_ready {
                // gRPC wait-for-ready: TRANSIENT_FAILURE does not end the RPC.
                true => RoutingDecision::Wait(WaitReason::Recovery(status)),
                false => RoutingDecision::Unavailable(status),
            }),
            // gRPC wait-for-ready: a drop is a decision of the control plane, not a failure to connect.
            PickResult::Drop(status) => Some(RoutingDecision::Fail(status)),
            // gRFC A31: no RPC may pick a cluster that the route configuration dropped (C-231).
            PickResult::Removed => None,
        }
    }

    pub(crate) fn new(wait_for_ready: bool) -> Self {
        Self {
            wait_for_ready,
            cluster: None,
            hash: None,
            random_hash: random(),
            limit: None,
            retry: None,
            filters: None,
        }
    }
}

impl RoutingDecision {
    /// Returns the status of a decision to fail; that of a bug for others.
    pub(crate) fn into_failure(self) -> Status {
        match self {
            Self::Fail(status) | Self::Unavailable(status) => status,
            Self::Send(_) | Self::Wait(_) => Status::internal("no decision to fail"),
        }
    }

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
    /// Chooses the first route that matches, and one of its clusters.
    fn choose<B>(
        &self,
        request: &Request<B>,
        call: &mut CallState,
        channel_hash: u64,
    ) -> Result<(), Unroutable> {
        let headers = RequestHeaders(request.headers());
        // gRFC A28: the first route that matches wins (C-224).
        let route = self.config.route(request.uri().path(), &headers, random);
        let route = route.ok_or(Unroutable::NoRoute)?;
        let CompiledAction::Forward {
            clusters,
            limit,
            retry,
            hash,
        } = &route.action
        else {
            return Err(Unroutable::NoRoute);
        };
        let choice = clusters.pick(random());
        let cluster = self.clusters.get(choice.cluster);
        let cluster = cluster.ok_or(Unroutable::UnknownCluster)?;
        call.cluster = Some(Arc::clone(cluster));
        call.limit = *limit;
        call.retry.clone_from(retry);
        // gRFC A42: the hash is made once per RPC, of the headers that the application sent (C-235).
        call.hash = request_hash(hash, &headers, channel_hash);
        call.filters = (!choice.filters.is_empty()).then(|| Arc::clone(&choice.filters));
        Ok(())
    }
}

/// The headers of a request, as route matchers read them.
pub(crate) struct RequestHeaders<'a>(pub(crate) &'a HeaderMap);

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
