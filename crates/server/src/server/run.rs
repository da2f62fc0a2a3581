//! A running server: its tasks, and its shutdown.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::builder::Builder;
use super::feed::Feed;
use super::grpc::GrpcPort;
use crate::admin::{self, Admin, Scrape};
use crate::cache::Cache;
use crate::context::Context;
use crate::disk_layers::{self, DiskLayer};
use crate::load::LoadReports;
use crate::store::{Health, Recorder, Reporter};
use crate::transport::{Bound, Ports};

/// A bound server. [`run`](Self::run) answers its clients.
#[must_use = "a server answers no clients until it runs"]
pub struct Server {
    pub(super) grpc: Bound,
    pub(super) http: Option<Bound>,
    pub(super) context: Arc<Context>,
    pub(super) health: Arc<Health>,
    pub(super) feed: Option<Feed>,
    pub(super) load_reports: LoadReports,
    pub(super) lost_log_lines: Arc<AtomicU64>,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) disks: Vec<DiskLayer>,
}

impl Server {
    /// Returns a builder with the default configuration.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the address of the gRPC port.
    #[must_use]
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc.address
    }

    /// Returns the address of the HTTP port, if there is one.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|bound| bound.address)
    }

    /// Returns a handle of the cache that the server serves.
    #[must_use]
    pub fn cache(&self) -> Cache {
        self.context.cache.clone()
    }

    /// Returns a reporter for findings of a part of the program beside the store, a [`FileSink`](crate::FileSink) for
    /// example. Each part has a name of its own.
    #[must_use]
    pub fn reporter(&self, part: &'static str) -> Reporter {
        Reporter::new(part, Arc::clone(&self.health), self.context.cache.clone())
    }

    /// Serves until `shutdown` is ready. Then ends streams and connections, and waits for them at most
    /// [`Timers::drain`](crate::Timers::drain) (S-79).
    ///
    /// Dropping the future ends all connections without that wait. The addresses are free once the runtime has dropped
    /// the tasks.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let tasks = TaskTracker::new();
        // Cancelled when the drain time is over.
        let abort = CancellationToken::new();
        let server = Arc::clone(&self.context.server);
        let _dropped = (
            server.closing.clone().drop_guard(),
            abort.clone().drop_guard(),
        );
        let notified = self.context.cache.clone();
        // The status shows the runtime.
        let runtime = &server.runtime;
        let _notifying = runtime.on_change(move || notified.notifier().notify());
        let recorder = self.recorder.clone();
        let context = self.start(&tasks, &abort);

        shutdown.await;
        info!(streams = context.clients.streams.len(), "shutting down");
        server.closing.cancel();
        tasks.close();
        let drain = server.limits.timers.drain;
        if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
            warn!(connections = tasks.len(), "drain timed out");
            abort.cancel();
            tasks.wait().await;
        }
        if let Some(recorder) = recorder {
            // It fails only if the runtime shuts down; then the thread ends by itself.
            let _ = tokio::task::spawn_blocking(move || recorder.close()).await;
        }
    }

    /// Starts the tasks of the server.
    fn start(self, tasks: &TaskTracker, abort: &CancellationToken) -> Arc<Context> {
        let context = self.context;
        if let Some(feed) = self.feed {
            tasks.spawn(feed);
        }
        let mut registry = context.server.metrics.registry();
        registry.register(
            "convergence_seconds",
            "Time from a change until all clients that it concerns have answered it, with an ACK or a NACK",
            context.cache.convergence().histogram(),
        );
        registry.register_collector(Box::new(Scrape {
            context: Arc::clone(&context),
            health: Arc::clone(&self.health),
            lost_log_lines: self.lost_log_lines,
        }));
        let admin = Arc::new(Admin {
            registry,
            context: Arc::clone(&context),
            health: self.health,
            load_reports: self.load_reports.clone(),
            views: admin::SharedViews::default(),
        });
        let ports = Ports {
            server: Arc::clone(&context.server),
            tasks: tasks.clone(),
            abort: abort.clone(),
        };
        let grpc = GrpcPort {
            ports: ports.clone(),
            context: Arc::clone(&context),
            load_reports: self.load_reports,
            admin: Arc::clone(&admin),
        };
        tasks.spawn(grpc.serve(self.grpc));
        tasks.spawn(reload_security(Arc::clone(&context)));
        for layer in self.disks {
            tasks.spawn(disk_layers::follow(layer, Arc::clone(&context)));
        }
        tasks.spawn(warn_if_unloaded(Arc::clone(&context)));
        let saving = Arc::clone(&context);
        tasks.spawn(async move { saving.rollback.save(&saving.server.closing).await });
        if let Some(http) = self.http {
            tasks.spawn(admin::serve(ports, http, admin));
        }
        context
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("grpc", &self.grpc.address)
            .field("http", &self.http_addr())
            .finish_non_exhaustive()
    }
}

/// Follows the files of certificates and authorization rules, and ends streams whose grant has changed (S-78).
async fn reload_security(context: Arc<Context>) {
    let server = &context.server;
    loop {
        tokio::select! {
            () = server.security.due() => {}
            () = server.closing.cancelled() => return,
        }
        let (security, http) = (server.security.clone(), server.http_security.clone());
        let refreshed = tokio::task::spawn_blocking(move || {
            http.refresh();
            security.refresh()
        })
        .await;
        if matches!(refreshed, Ok(true)) {
            for stream in context.clients.streams.list() {
                context.review(&stream);
            }
        }
    }
}

/// Interval at which the server checks for streams that wait for the first load.
const LOAD_CHECK: Duration = Duration::from_secs(10);

/// Logs once if streams wait because no configuration for all nodes is loaded. Resources of groups alone do not count
/// (S-26).
async fn warn_if_unloaded(context: Arc<Context>) {
    let waiting = async {
        loop {
            tokio::time::sleep(LOAD_CHECK).await;
            let streams = context.clients.streams.len();
            if streams > 0 {
                warn!(
                    streams,
                    "no configuration loaded yet, streams are waiting; apply an empty change set to serve an empty configuration"
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
