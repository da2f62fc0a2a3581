//! From a request to the cluster that serves it, as the request path reads it.

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
use oxds_core::resolve::{CompiledAction, XdsConfig};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tonic::{Code, Status};

use crate::picker::{Cluster, Pick, Ticket};
use crate::random::random;
use crate::status;

/// What a channel's handles, its RPCs and its driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) target: Box<str>,
    /// `:authority` of requests that bring none (A27).
    pub(crate) authority: Authority,
    pub(crate) report_picks: bool,
    pub(crate) id: Id,
    pub(crate) made: SystemTime,
    pub(crate) calls: Arc<CallCounter>,
    routing: ArcSwap<Routing>,
    revision: AtomicU64,
    changed: Notify,
}

/// The configuration in use.
#[derive(Debug)]
pub(crate) enum Routing {
    /// None yet: RPCs wait.
    Waiting,
    /// There is none, says the control plane: RPCs fail with this (C-219).
    Failed(Status),
    Table(Table),
}

/// A whole configuration and its clusters, in the same order.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) config: Arc<XdsConfig>,
    pub(crate) clusters: Box<[Arc<Cluster>]>,
}

/// What one RPC remembers between looks.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Chosen once per RPC (C-230).
    cluster: Option<Arc<Cluster>>,
    /// The route's bound on the RPC's duration.
    pub(crate) limit: Option<Duration>,
}

/// What an RPC does next.
pub(crate) enum Step {
    Go(Ticket),
    Wait(WaitFor),
    Fail(Status),
}

/// What an RPC waits for.
pub(crate) enum WaitFor {
    Configuration,
    Connection(Arc<str>),
}

impl Shared {
    pub(crate) fn new(target: &str, authority: Authority, report_picks: bool) -> Self {
        Self {
            target: target.into(),
            authority,
            report_picks,
            id: Id::next(),
            made: SystemTime::now(),
            calls: Arc::default(),
            routing: ArcSwap::from_pointee(Routing::Waiting),
            revision: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// Puts a configuration into use. RPCs that wait learn of it by [`wake`](Self::wake).
    pub(crate) fn set(&self, routing: Routing) {
        self.routing.store(Arc::new(routing));
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn routing(&self) -> Arc<Routing> {
        self.routing.load_full()
    }

    /// How many configurations were put into use.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Something changed: RPCs that wait look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the first [`wake`](Self::wake) after this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Where the RPC goes, as far as known now.
    pub(crate) fn step<B>(&self, request: &Request<B>, memo: &mut Memo) -> Step {
        if let Some(step) = memo.cluster.as_deref().and_then(step_in) {
            return step;
        }
        let routing = self.routing.load();
        let table = match &**routing {
            Routing::Waiting => return Step::Wait(WaitFor::Configuration),
            Routing::Failed(status) => return Step::Fail(status.clone()),
            Routing::Table(table) => table,
        };
        let Some(cluster) = table.choose(request, memo) else {
            let text = format!(
                "no route of {} is for {}",
                self.target,
                request.uri().path()
            );
            return Step::Fail(status::of_control_plane(Code::Unavailable, text));
        };
        memo.cluster = Some(Arc::clone(cluster));
        // Only a newer table drops a cluster of this one; its wake is yet to come or just came.
        step_in(cluster).unwrap_or(Step::Wait(WaitFor::Configuration))
    }
}

/// `None`: the configuration has dropped the cluster, so the route must be matched again (C-231).
fn step_in(cluster: &Cluster) -> Option<Step> {
    match cluster.pick() {
        Pick::Endpoint(ticket) => Some(Step::Go(ticket)),
        Pick::Wait => Some(Step::Wait(WaitFor::Connection(Arc::clone(&cluster.name)))),
        Pick::Fail(status) => Some(Step::Fail(status)),
        Pick::Gone => None,
    }
}

impl Table {
    /// The first route that matches, and one of its clusters; `None` also for a route whose action is
    /// not a client's (C-229).
    fn choose<B>(&self, request: &Request<B>, memo: &mut Memo) -> Option<&Arc<Cluster>> {
        let route = self
            .config
            .route(request.uri().path(), &Lookup(request.headers()), random)?;
        let CompiledAction::Forward { clusters, limit } = &route.action else {
            return None;
        };
        memo.limit = *limit;
        self.clusters.get(*clusters.pick(random()))
    }
}

/// The headers of a request, as routes match them (C-225).
struct Lookup<'a>(&'a HeaderMap);

impl Headers for Lookup<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
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

impl fmt::Display for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("waiting for the configuration"),
            Self::Connection(cluster) => {
                write!(f, "connecting to the endpoints of cluster {cluster}")
            }
        }
    }
}
