//! A server: its listeners, its store, its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingServiceServer;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryServiceServer;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower_service::Service as _;
use tracing::{debug, error, info, warn};

use crate::ads::{Context, Discovery, Peer};
use crate::builder::{Bound, Builder, Feed};
use crate::cache::Cache;
use crate::csds::StatusService;
use crate::load::{LoadReports, LoadService};
use crate::pages::{Pages, beside_grpc, router};
use crate::store::Health;

/// After a failed accept (no file descriptors left, mostly) it is tried again this much later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A bound server. Nothing is answered before [`run`](Self::run).
pub struct Server {
    pub(crate) grpc: Bound,
    pub(crate) http: Option<Bound>,
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) feed: Option<Feed>,
    pub(crate) load_reports: LoadReports,
}

impl Server {
    /// Begins to set a server up.
    pub fn builder() -> Builder {
        Builder::default()
    }

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
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let tasks = TaskTracker::new();
        // Cancelled when the patience with those that drain is over.
        let abort = CancellationToken::new();
        let closing = self.context.closing.clone();
        let drain = self.context.limits.drain;

        if let Some(feed) = self.feed {
            let closing = closing.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = feed => warn!("the store has ended: what is served now stays"),
                    () = closing.cancelled() => {}
                }
            });
        }
        let pages = Arc::new(Pages {
            registry: self.context.metrics.registry(
                &self.context.cache,
                &self.health,
                &self.context.polls,
                self.context.clock,
            ),
            context: Arc::clone(&self.context),
            health: self.health,
            load_reports: self.load_reports.clone(),
        });
        let grpc = Grpc {
            context: Arc::clone(&self.context),
            load_reports: self.load_reports,
            pages: Arc::clone(&pages),
            tasks: tasks.clone(),
            abort: abort.clone(),
        };
        tasks.spawn(grpc.serve(self.grpc));
        if let Some(http) = self.http {
            tasks.spawn(serve_pages(http, pages, abort.clone()));
        }

        shutdown.await;
        info!(streams = self.context.streams.len(), "shutting down");
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

/// The gRPC port.
struct Grpc {
    context: Arc<Context>,
    load_reports: LoadReports,
    pages: Arc<Pages>,
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl Grpc {
    async fn serve(self, bound: Bound) {
        let routes = self.routes().await;
        loop {
            let accepted = tokio::select! {
                accepted = bound.listener.accept() => accepted,
                () = self.context.closing.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = self.connection(stream, peer, routes.clone());
                    self.tasks.spawn(connection);
                }
                Err(error) => {
                    error!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn routes(&self) -> Routes {
        let mut routes = Routes::builder();
        crate::services::add(&mut routes, &self.context, &self.tasks).await;
        routes.add_service(LoadReportingServiceServer::new(LoadService {
            context: Arc::clone(&self.context),
            reports: self.load_reports.clone(),
        }));
        routes.add_service(ClientStatusDiscoveryServiceServer::new(StatusService(
            Arc::clone(&self.context),
        )));
        let mut routes = routes.routes();
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router.merge(beside_grpc(Arc::clone(&self.pages)));
        for service in Discovery::all(&self.context) {
            let path = format!("/{}/{{method}}", service.name());
            let router = std::mem::take(routes.axum_router_mut());
            *routes.axum_router_mut() = router.route_service(&path, service);
        }
        routes.prepare()
    }

    /// Serves one connection to its end.
    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        routes: Routes,
    ) -> impl Future<Output = ()> + use<> {
        let limits = &self.context.limits;
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_per_connection)
            .keep_alive_interval(limits.keepalive)
            .keep_alive_timeout(limits.keepalive_timeout);
        let (closing, abort) = (self.context.closing.clone(), self.abort.clone());
        async move {
            // Responses are small and awaited: they must not wait for company.
            let _ = stream.set_nodelay(true);
            let service = service_fn(move |request| answer(routes.clone(), request, peer));
            let mut connection =
                std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection.as_mut() => ended,
                        () = abort.cancelled() => return,
                    }
                }
            };
            if let Err(error) = ended {
                debug!(%peer, %error, "connection failed");
            }
        }
    }
}

async fn answer(
    mut routes: Routes,
    request: Request<Incoming>,
    peer: SocketAddr,
) -> Result<http::Response<tonic::body::Body>, Infallible> {
    let mut request = request.map(tonic::body::Body::new);
    request.extensions_mut().insert(Peer(peer));
    routes.call(request).await
}

/// The HTTP port.
async fn serve_pages(bound: Bound, pages: Arc<Pages>, abort: CancellationToken) {
    let closing = pages.context.closing.clone();
    let serve = axum::serve(bound.listener, router(pages))
        .with_graceful_shutdown(async move { closing.cancelled().await });
    tokio::select! {
        ended = serve => if let Err(error) = ended {
            error!(%error, "the HTTP port failed");
        },
        () = abort.cancelled() => {}
    }
}
