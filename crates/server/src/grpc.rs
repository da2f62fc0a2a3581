//! The gRPC port: from a socket to the services.
//!
//! ```text
//!   accept ──▶ TLS handshake ──▶ HTTP/2 ──▶ first call ──▶ serve ──▶ closed by the client, or silence
//!     │        └───── within Limits::first_request ───┘      │
//!     └ at most Limits::connections                          └ shutdown ──▶ GOAWAY ──▶ drained, or aborted
//!
//! Over TLS, HTTP/1.1 can be agreed to instead: it has what is beside gRPC here, REST discovery above all.
//! ```

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingServiceServer;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryServiceServer;
use http::Request;
use hyper::body::Incoming;
#[cfg(feature = "tls")]
use hyper::server::conn::http1;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower_service::Service as _;
use tracing::{debug, error};

use crate::ads::{Context, Discovery, Peer};
use crate::builder::Bound;
use crate::csds::StatusService;
use crate::load::{LoadReports, LoadService, LoadServiceV2, V2_PATH};
use crate::pages::{Pages, beside_grpc};

/// After a failed accept (no file descriptors left, mostly) it is tried again this much later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What serves the port.
pub(crate) struct Grpc {
    pub(crate) context: Arc<Context>,
    pub(crate) load_reports: LoadReports,
    pub(crate) pages: Arc<Pages>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the patience with those that drain is over.
    pub(crate) abort: CancellationToken,
}

impl Grpc {
    /// Accepts connections until a shutdown begins.
    pub(crate) async fn serve(self, bound: Bound) {
        let beside = beside_grpc(Arc::clone(&self.pages));
        let routes = self.routes(beside.clone()).await;
        let connections = Arc::new(Semaphore::new(self.context.limits.connections));
        loop {
            let accepted = tokio::select! {
                accepted = bound.listener.accept() => accepted,
                () = self.context.closing.cancelled() => return,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let Ok(place) = Arc::clone(&connections).try_acquire_owned() else {
                        self.context.metrics.refused("connections");
                        continue;
                    };
                    let connection = Connection {
                        context: Arc::clone(&self.context),
                        abort: self.abort.clone(),
                        routes: routes.clone(),
                        #[cfg(feature = "tls")]
                        beside: beside.clone(),
                        deadline: Instant::now() + self.context.limits.first_request,
                        called: Arc::default(),
                    };
                    self.tasks.spawn(async move {
                        connection.run(socket, peer).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    error!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn routes(&self, beside: Router) -> Routes {
        let mut routes = Routes::builder();
        crate::services::add(&mut routes, &self.context, &self.tasks).await;
        let load_reports = LoadReportingServiceServer::new(LoadService {
            context: Arc::clone(&self.context),
            reports: self.load_reports.clone(),
        });
        routes.add_service(load_reports.clone());
        routes.add_service(ClientStatusDiscoveryServiceServer::new(StatusService(
            Arc::clone(&self.context),
        )));
        let mut routes = routes.routes();
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router
            .merge(beside)
            .route_service(V2_PATH, LoadServiceV2(load_reports));
        for service in Discovery::all(&self.context) {
            let path = format!("/{}/{{method}}", service.name());
            let router = std::mem::take(routes.axum_router_mut());
            *routes.axum_router_mut() = router.route_service(&path, service);
        }
        routes.prepare()
    }
}

/// One connection.
struct Connection {
    context: Arc<Context>,
    abort: CancellationToken,
    routes: Routes,
    /// What HTTP/1.1 has of them.
    #[cfg(feature = "tls")]
    beside: Router,
    /// Of the first call.
    deadline: Instant,
    called: Arc<AtomicBool>,
}

impl Connection {
    /// Serves it to its end.
    async fn run(self, socket: TcpStream, address: SocketAddr) {
        // Responses are small and awaited: they must not wait for company.
        let _ = socket.set_nodelay(true);
        #[cfg(feature = "tls")]
        if let Some(acceptor) = self.context.security.acceptor() {
            self.run_tls(acceptor, socket, address).await;
            return;
        }
        let identity = None;
        self.serve(socket, Peer { address, identity }).await;
    }

    #[cfg(feature = "tls")]
    async fn run_tls(
        self,
        acceptor: tokio_rustls::TlsAcceptor,
        socket: TcpStream,
        address: SocketAddr,
    ) {
        let handshake = tokio::time::timeout_at(self.deadline, acceptor.accept(socket));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = self.context.closing.cancelled() => return,
        };
        match shaken {
            Ok(Ok(socket)) => {
                let session = socket.get_ref().1;
                let identity = crate::security::Identity::of_peer(session).map(Arc::new);
                let peer = Peer { address, identity };
                match crate::security::speaks_http_1(session) {
                    true => self.serve_polls(socket, peer).await,
                    false => self.serve(socket, peer).await,
                }
            }
            Ok(Err(error)) => {
                self.context.metrics.refused("handshake");
                debug!(peer = %address, %error, "no TLS");
            }
            Err(_) => self.context.metrics.refused("silence"),
        }
    }

    async fn serve<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (routes, called, from) = (self.routes.clone(), Arc::clone(&self.called), peer.clone());
        let service = service_fn(move |request| {
            called.store(true, Ordering::Relaxed);
            answer(routes.clone(), request, peer.clone())
        });
        let builder = http2(&self.context);
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.drive(connection, http2::Connection::graceful_shutdown, &from)
            .await;
    }

    /// The same, by HTTP/1.1.
    #[cfg(feature = "tls")]
    async fn serve_polls<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (beside, called, from) = (self.beside.clone(), Arc::clone(&self.called), peer.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            called.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            beside.clone().call(request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new());
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.drive(connection, http1::Connection::graceful_shutdown, &from)
            .await;
    }

    /// Moves it until it ends, or has to.
    async fn drive<C>(
        &self,
        mut connection: Pin<&mut C>,
        shut_down: impl Fn(Pin<&mut C>),
        from: &Peer,
    ) where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut silence = pin!(tokio::time::sleep_until(self.deadline));
        let mut watching = true;
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = self.context.closing.cancelled() => {
                    shut_down(connection.as_mut());
                    tokio::select! {
                        ended = connection.as_mut() => break ended,
                        () = self.abort.cancelled() => return,
                    }
                }
                () = silence.as_mut(), if watching => {
                    watching = false;
                    // It may not even have begun to speak HTTP: there is no shutting down in order.
                    if !self.called.load(Ordering::Relaxed) {
                        self.context.metrics.refused("silence");
                        return;
                    }
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = %from, %error, "connection failed");
        }
    }
}

/// HTTP/2 as the limits want it.
fn http2(context: &Context) -> http2::Builder<TokioExecutor> {
    let limits = &context.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive_timeout);
    builder
}

async fn answer(
    mut routes: Routes,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<http::Response<tonic::body::Body>, Infallible> {
    let mut request = request.map(tonic::body::Body::new);
    request.extensions_mut().insert(peer);
    routes.call(request).await
}
