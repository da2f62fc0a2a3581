//! Routing: from a request to the cluster that serves it, in the form that the request path reads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use http::Request;
use http::uri::Authority;
use oxds_client::RequestHeaders;
use oxds_client::channelz::{CallCounter, Id};
use oxds_core::lb::policy::PickCall;
use oxds_core::lb::{RetryPolicy, request_hash};
use oxds_core::resolve::{CompiledAction, XdsConfig};
use oxds_core::resource::FilterConfig;
use oxds_net::rpc::random;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tonic::{Code, Status};

use crate::attempt::{Picked, status};
use crate::endpoint::PickedConnection;
use crate::memory::RetryMemory;
use crate::metrics::ChannelMetrics;
use crate::picker::{ClusterHandle, PickResult};
use crate::session::{CallSession, SessionCookie};

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
    /// Recorder of metrics; `None` if they are not recorded.
    pub(crate) metrics: Option<Arc<ChannelMetrics>>,
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
    /// Boxed, because few routes have sessions, and every RPC has room for this state.
    session: Option<Box<SessionState>>,
    /// Whether the hash policies of the route gave the hash of the request.
    has_hash: bool,
    hash: u64,
    /// Hash for policies if the route does not compute one (gRFC A42).
    random_hash: u64,
    /// The route's limit on the duration of the RPC.
    pub(crate) limit: Option<Duration>,
    /// The route's retry policy.
    pub(crate) retry: Option<Arc<RetryPolicy>>,
    /// The route's HTTP filters; `None` without any.
    pub(crate) filters: Option<Arc<[FilterConfig]>>,
    /// The authority becomes the hostname of the endpoint, if that has one (gRFC A81).
    pub(crate) rewrites_host: bool,
}

/// Session of an RPC by a route that has sessions.
#[derive(Debug, Default)]
struct SessionState {
    /// Clusters of the route until the filters have run: a session may choose among them.
    candidates: SmallVec<[Arc<ClusterHandle>; 2]>,
    /// Session that a filter has found.
    call: Option<CallSession>,
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
    /// No route matches.
    NoRoute,
    /// The action of the route is not for clients.
    UnsupportedAction,
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
            metrics: None,
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

    /// Chooses the route and the cluster of an RPC. Returns the reason to wait or to fail if none matches.
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
                Unroutable::UnsupportedAction => {
                    let text = format!("the route of {target} for {path} forwards to no cluster");
                    status::of_control_plane(Code::Unavailable, text)
                }
                // As in gRPC: the table and its clusters do not belong together, which is a bug (C-232).
                Unroutable::UnknownCluster => {
                    Status::internal(format!("the route of {path} has an unknown cluster"))
                }
            })
        })
    }
}

impl CallState {
    /// Decides the next action of an RPC from the current picker of its cluster.
    pub(crate) fn decide<B>(&self, request: &Request<B>) -> RoutingDecision {
        // gRFC A31: the cluster is chosen once per RPC, and later picks stay in it, also after the routes have dropped
        // it (C-230, C-231).
        let Some(cluster) = &self.cluster else {
            return RoutingDecision::Fail(Status::internal("the RPC has no cluster"));
        };
        let headers = RequestHeaders(request.headers());
        let pick = PickCall {
            path: request.uri().path(),
            headers: &headers,
            hash: self.has_hash.then_some(self.hash),
            random_hash: self.random_hash,
        };
        match cluster.pick(&pick, self.call_session()) {
            PickResult::Complete(picked) => RoutingDecision::Send(picked),
            PickResult::Queue => {
                RoutingDecision::Wait(WaitReason::Connection(Arc::clone(&cluster.name)))
            }
            // gRFC A31: otherwise a wait-for-ready RPC could keep the cluster without end, since no update of it comes.
            PickResult::Fail(status) if cluster.is_retired() => {
                let text = format!("{}; no route names the cluster any more", status.message());
                RoutingDecision::Unavailable(status::of_control_plane(status.code(), text))
            }
            // gRPC wait-for-ready: TRANSIENT_FAILURE does not end the RPC.
            PickResult::Fail(status) if self.wait_for_ready => {
                RoutingDecision::Wait(WaitReason::Recovery(status))
            }
            PickResult::Fail(status) => RoutingDecision::Unavailable(status),
            // gRPC wait-for-ready: a drop is a decision of the control plane, not a failure to connect.
            PickResult::Drop(status) => RoutingDecision::Fail(status),
        }
    }

    fn call_session(&self) -> Option<&CallSession> {
        self.session.as_ref()?.call.as_ref()
    }

    /// Sets the session of the RPC, which may lead to another cluster of the route.
    pub(crate) fn set_session(&mut self, found: Option<CallSession>) {
        let Some(session) = &mut self.session else {
            return;
        };
        // gRFC A31: an RPC keeps no cluster but its own.
        let candidates = std::mem::take(&mut session.candidates);
        // gRFC A60: the cluster of the session is used if the route has it.
        let name = found.as_ref().map(|found| found.target.cluster());
        let cluster = name.and_then(|name| candidates.into_iter().find(|one| *one.name == *name));
        if cluster.is_some() {
            self.cluster = cluster;
        }
        session.call = found;
    }

    /// Returns the cookie for the response of an endpoint; `None` without a session, or if its cookie stays as it is.
    pub(crate) fn session_cookie(&self, picked: &Picked) -> Option<SessionCookie> {
        let (session, cluster) = (self.call_session()?, self.cluster.as_ref()?);
        session.cookie(&cluster.session_target(picked.address))
    }

    /// Returns the name of its cluster, once it is chosen.
    pub(crate) fn cluster(&self) -> Option<&Arc<str>> {
        self.cluster.as_ref().map(|cluster| &cluster.name)
    }

    pub(crate) fn new(wait_for_ready: bool) -> Self {
        Self {
            wait_for_ready,
            cluster: None,
            session: None,
            has_hash: false,
            hash: 0,
            random_hash: random(),
            limit: None,
            retry: None,
            filters: None,
            rewrites_host: false,
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
        // gRPC wait-for-ready: TRANSIENT_FAILURE does not end the RPC.
        if wait_for_ready {
            Self::Wait(WaitReason::Recovery(status.clone()))
        } else {
            Self::Fail(status.clone())
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
            rewrites_host,
        } = &route.action
        else {
            return Err(Unroutable::UnsupportedAction);
        };
        let choice = clusters.pick(random());
        let cluster = self.clusters.get(choice.cluster);
        let cluster = cluster.ok_or(Unroutable::UnknownCluster)?;
        call.cluster = Some(Arc::clone(cluster));
        if choice.has_sessions() {
            let indexes = clusters.items().map(|choice| choice.cluster);
            let handles = indexes.filter_map(|index| self.clusters.get(index));
            call.session = Some(Box::new(SessionState {
                candidates: handles.cloned().collect(),
                call: None,
            }));
        }
        call.limit = *limit;
        call.retry.clone_from(retry);
        // gRFC A42: the hash is made once per RPC, of the headers that the application sent (C-235).
        let hash = request_hash(hash, &headers, channel_hash);
        (call.has_hash, call.hash) = (hash.is_some(), hash.unwrap_or_default());
        call.rewrites_host = *rewrites_host;
        call.filters = (!choice.filters.is_empty()).then(|| Arc::clone(&choice.filters));
        Ok(())
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

#[cfg(test)]
mod tests {
    use oxds_core::ads::{WatchError, WatchErrorReason};
    use oxds_core::lb::{Domain, PathMatcher, RouteMatcher, Text};
    use oxds_core::resolve::Resolver;
    use oxds_core::resource::{
        ApiListener, FilterOverrides, Forward, HostRewrite, Listener, ParsedResource, Route,
        RouteAction, RouteConfig, RouteSource, RouteTarget, VirtualHost,
    };
    use oxds_types::ResourceType;

    use super::*;

    /// A configuration that routes everything to the cluster `a`, which does not exist.
    fn to_a() -> Arc<XdsConfig> {
        let route = Route {
            matcher: RouteMatcher {
                path: PathMatcher::Prefix(Text::new("", false)),
                headers: Vec::new(),
                fraction: None,
            },
            action: RouteAction::Forward(Forward::to(RouteTarget::Cluster("a".into()))),
            filter_overrides: FilterOverrides::new(),
        };
        let host = VirtualHost {
            name: "all".to_owned(),
            domains: vec![Domain::Any],
            routes: vec![route],
            ignored: Vec::new(),
            filter_overrides: FilterOverrides::new(),
        };
        let routes = RouteConfig {
            name: "routes".into(),
            virtual_hosts: vec![host],
            host_rewrite: HostRewrite::Unused,
        };
        let listener = Listener {
            name: "l".into(),
            socket: None,
            api: Some(ApiListener {
                routes: RouteSource::Inline(Arc::new(routes)),
                max_stream_duration: None,
                filters: Vec::new(),
            }),
        };
        let mut resolver = Resolver::new("l", "svc");
        let listener = Ok(ParsedResource::of(Arc::new(listener)));
        resolver.handle_resource(&ResourceType::LISTENER, "l", &listener);
        while resolver.poll_command().is_some() {}
        let gone = WatchError::new(WatchErrorReason::DoesNotExist, "gone");
        resolver.handle_resource(&ResourceType::CLUSTER, "a", &Err(gone));
        resolver.poll_config().unwrap().unwrap()
    }

    #[test]
    fn c232_cluster_that_the_table_lacks_is_internal() {
        let shared = ChannelShared::new("xds:///svc", Authority::from_static("svc"));
        shared.set(Routing::Table(RoutingTable {
            config: to_a(),
            clusters: Box::default(),
        }));
        let request = Request::get("/pkg.A/Get").body(()).unwrap();
        for wait_for_ready in [false, true] {
            let mut call = CallState::new(wait_for_ready);
            let Err(RoutingDecision::Fail(status)) = shared.route(&request, &mut call) else {
                panic!("the call fails");
            };
            assert_eq!(status.code(), Code::Internal);
            assert!(status.message().contains("unknown cluster"), "{status}");
        }
    }
}
