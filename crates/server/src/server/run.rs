//! A server: its listeners, its store, its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::connection::Ports;
use super::feed::Feed;
use super::grpc::Grpc;
use super::listener::Bound;
use crate::admin::{self, Admin};
use crate::cache::Cache;
use crate::discovery::Context;
use crate::load::LoadReports;
use crate::metrics::Scrape;
use crate::store::Health;

/// A bound server. Nothing is answered before [`run`](Self::run).
#[must_use = "a server answers nobody until it runs"]
pub struct Server {
    pub(super) grpc: Bound,
    pub(super) http: Option<Bound>,
    pub(super) context: Arc<Context>,
    pub(super) health: Arc<Health>,
    pub(super) feed: Option<Feed>,
    pub(super) load_reports: LoadReports,
}

impl Server {
    /// Where ADS is served.
    #[must_use]
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc.address
    }

    /// Where metrics and status are served.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|bound| bound.address)
    }

    /// What is served.
    #[must_use]
    pub fn cache(&self) -> Cache {
        self.context.cache.clone()
    }

    /// Serves until `shutdown` is ready, then ends streams and connections, and waits for them as long as
    /// [`Limits::drain`](crate::Limits::drain) allows (S-79).
    ///
    /// If the future is dropped before it is ready, all is cut off at once: the addresses are free again as soon as the
    /// runtime has seen to it.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let tasks = TaskTracker::new();
        // Cancelled when the patience with those that drain is over.
        let abort = CancellationToken::new();
        let closing = self.context.server.closing.clone();
        let _dropped = (closing.clone().drop_guard(), abort.clone().drop_guard());
        let drain = self.context.server.limits.drain;

        if let Some(feed) = self.feed {
            let closing = closing.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = feed => warn!("the store has ended: what is served now stays"),
                    () = closing.cancelled() => {}
                }
            });
        }
        let mut registry = self.context.server.metrics.registry();
        registry.register_collector(Box::new(Scrape {
            context: Arc::clone(&self.context),
            health: Arc::clone(&self.health),
        }));
        let admin = Arc::new(Admin {
            registry,
            context: Arc::clone(&self.context),
            health: self.health,
            load_reports: self.load_reports.clone(),
        });
        let ports = Ports {
            server: Arc::clone(&self.context.server),
            tasks: tasks.clone(),
            abort: abort.clone(),
        };
        let grpc = Grpc {
            ports: ports.clone(),
            context: Arc::clone(&self.context),
            load_reports: self.load_reports,
            admin: Arc::clone(&admin),
        };
        tasks.spawn(grpc.serve(self.grpc));
        tasks.spawn(guard(Arc::clone(&self.context)));
        tasks.spawn(remind(Arc::clone(&self.context)));
        if let Some(http) = self.http {
            tasks.spawn(admin::serve(ports, http, admin));
        }

        shutdown.await;
        info!(
            streams = self.context.clients.streams.len(),
            "shutting down"
        );
        closing.cancel();
        tasks.close();
        if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
            warn!(connections = tasks.len(), "some did not end in time");
            abort.cancel();
            tasks.wait().await;
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("grpc", &self.grpc.address)
            .field("http", &self.http_addr())
            .finish_non_exhaustive()
    }
}

/// Follows the files of certificates and rules, and ends streams whose clients are granted something else now.
async fn guard(context: Arc<Context>) {
    loop {
        tokio::select! {
            () = context.server.security.due() => {}
            () = context.server.closing.cancelled() => return,
        }
        let security = context.server.security.clone();
        let refreshed = tokio::task::spawn_blocking(move || security.refresh()).await;
        if matches!(refreshed, Ok(true)) {
            for stream in context.clients.streams.list() {
                context.review(&stream);
            }
        }
    }
}

/// How long a client may wait for anything to be loaded before the log says what it waits for.
const LOADING: Duration = Duration::from_secs(10);

/// Says why nobody is answered, if that is so for long: of groups alone, nothing is.
async fn remind(context: Arc<Context>) {
    let waiting = async {
        loop {
            tokio::time::sleep(LOADING).await;
            let streams = context.clients.streams.len();
            if streams > 0 {
                warn!(
                    streams,
                    "nobody is answered: nothing was loaded that all nodes see. If there is nothing, apply an empty change set"
                );
                return;
            }
        }
    };
    tokio::select! {
        () = waiting => {}
        () = context.cache.loaded() => {}
        () = context.server.closing.cancelled() => {}
    }
}
