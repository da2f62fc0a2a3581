//! From a request to the cluster that serves it, as the request path reads it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::uri::Authority;
use oxds_core::resolve::XdsConfig;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tonic::Status;

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
    routing: ArcSwap<Routing>,
    changed: Notify,
}

/// The configuration in use.
#[derive(Debug)]
pub(crate) enum Routing {
    /// None yet: RPCs wait.
    Waiting,
    /// The control plane says that there is none: RPCs fail with this.
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
    /// Chosen once (C-230).
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
            routing: ArcSwap::from_pointee(Routing::Waiting),
            changed: Notify::new(),
        }
    }

    /// Puts a configuration into use and wakes the RPCs that wait.
    pub(crate) fn set(&self, routing: Routing) {
        self.routing.store(Arc::new(routing));
        self.wake();
    }

    pub(crate) fn routing(&self) -> Arc<Routing> {
        self.routing.load_full()
    }

    /// Some picker changed: RPCs that wait look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the next change, counted from this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Where the RPC goes, as far as known now.
    pub(crate) fn step(&self, head: &Parts, memo: &mut Memo) -> Step {
        if let Some(cluster) = &memo.cluster {
            if let Some(step) = step_in(cluster) {
                return step;
            }
        }
        let routing = self.routing.load();
        let table = match &**routing {
            Routing::Waiting => return Step::Wait(WaitFor::Configuration),
            Routing::Failed(status) => return Step::Fail(status.clone()),
            Routing::Table(table) => table,
        };
        let cluster = match table.choose(head, memo) {
            Ok(cluster) => Arc::clone(cluster),
            Err(status) => return Step::Fail(status),
        };
        memo.cluster = Some(Arc::clone(&cluster));
        // A cluster is never gone while the table in use has it, but a newer one may be there now.
        step_in(&cluster).unwrap_or(Step::Wait(WaitFor::Configuration))
    }
}

/// `None`: the configuration has dropped the cluster, the route must be matched again.
fn step_in(cluster: &Cluster) -> Option<Step> {
    match cluster.pick() {
        Pick::Endpoint(ticket) => Some(Step::Go(ticket)),
        Pick::Wait => Some(Step::Wait(WaitFor::Connection(Arc::clone(&cluster.name)))),
        Pick::Fail(status) => Some(Step::Fail(status)),
        Pick::Gone => None,
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
