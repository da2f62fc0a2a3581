//! The gRPC port: from a socket to the services.
//!
//! Over TLS a client can negotiate HTTP/1.1 instead of HTTP/2 by ALPN. It then reaches the routes that are not gRPC:
//! REST discovery and `/status.json`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::middleware::from_fn_with_state;
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingServiceServer;
use http::Request;
use hyper::body::Incoming;
#[cfg(feature = "tls")]
use hyper::server::conn::http1;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower_service::Service as _;

use crate::admin::{Admin, beside_grpc};
use crate::calls::{CsdsAccess, Peer, Shared, hooks_middleware, metered};
use crate::context::Context;
use crate::csds::StatusService;
use crate::discovery::DiscoveryService;
use crate::load::{LoadReports, LoadService, LoadServiceV2, V2_PATH};
use crate::transport::{Bound, Connection, Ports};

/// Bytes per stream that HTTP/2 buffers for writing: two frames of the largest size keep the socket busy. More would be
/// copied per stream, while responses that wait in the session share their bytes with other streams.
const SEND_BUFFER: usize = 32 << 10;

/// Bytes of a load report. Envoy reports a cluster in about a hundred bytes.
const MAX_REPORT: usize = 16 << 20;

/// The gRPC port: its routes, and the state that they need.
pub(super) struct GrpcPort {
    pub(super) ports: Ports,
    pub(super) context: Arc<Context>,
    pub(super) load_reports: LoadReports,
    pub(super) admin: Arc<Admin>,
}

impl GrpcPort {
    /// Accepts connections until a shutdown begins.
    pub(super) async fn serve(self, bound: Bound) {
        let http_routes = beside_grpc(Arc::clone(&self.admin));
        let routes = self.routes(http_routes.clone()).await;
        self.ports
            .accept(bound, |connection, socket, address| {
                let connection = GrpcConnection {
                    connection,
                    routes: routes.clone(),
                    #[cfg(feature = "tls")]
                    http_routes: http_routes.clone(),
                };
                connection.run(socket, address)
            })
            .await;
    }

    async fn routes(&self, http_routes: Router) -> Routes {
        let mut routes = Routes::builder();
        super::services::add(&mut routes, &self.context, &self.ports.tasks).await;
        let mut routes = routes.routes();
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router.merge(http_routes).merge(self.hooked());
        for service in DiscoveryService::all(&self.context) {
            let path = format!("/{}/{{method}}", service.name());
            let router = std::mem::take(routes.axum_router_mut());
            *routes.axum_router_mut() = router.route_service(&path, service);
        }
        routes.prepare()
    }

    /// Returns the services beside discovery, behind the hooks middleware.
    fn hooked(&self) -> Router {
        let context = &self.context;
        let loads = LoadReportingServiceServer::new(LoadService {
            context: Arc::clone(context),
            reports: self.load_reports.clone(),
        })
        .max_decoding_message_size(context.server.limits.message_bytes.min(MAX_REPORT));
        let hooks = from_fn_with_state(Arc::clone(&context.server), hooks_middleware::run);
        let meter = from_fn_with_state(Arc::clone(&context.server), metered::meter);
        let router = Router::new()
            .route_service(&path_of(&loads), loads.clone())
            .route_service(V2_PATH, LoadServiceV2::new(loads, context))
            .route_layer(meter);
        let router = match context.server.csds {
            CsdsAccess::Off => router,
            CsdsAccess::Local | CsdsAccess::All => {
                router.route_service(StatusService::PATH, StatusService::new(context))
            }
        };
        router.route_layer(hooks)
    }
}

/// Returns the route of all methods of a service.
fn path_of<S: NamedService>(_: &S) -> String {
    format!("/{}/{{method}}", S::NAME)
}

/// A connection and its routes.
struct GrpcConnection {
    connection: Connection,
    routes: Routes,
    /// Routes that HTTP/1.1 clients can use: REST discovery and the status.
    #[cfg(feature = "tls")]
    http_routes: Router,
}

impl GrpcConnection {
    /// Serves the connection to its end. Each kind of connection has its own boxed future: unboxed, a plain connection
    /// would have the size of a TLS connection.
    async fn run(self, socket: TcpStream, address: SocketAddr) {
        #[cfg(feature = "tls")]
        if let Some(acceptor) = self.connection.server.security.acceptor() {
            return Box::pin(self.run_tls(acceptor, socket, address)).await;
        }
        let peer = Peer::new(address, None, &self.connection.server);
        Box::pin(self.serve(socket, peer)).await;
    }

    #[cfg(feature = "tls")]
    async fn run_tls(
        self,
        acceptor: tokio_rustls::TlsAcceptor,
        socket: TcpStream,
        address: SocketAddr,
    ) {
        let handshake = self.connection.handshake(acceptor, socket, address);
        let Some(socket) = Box::pin(handshake).await else {
            return;
        };
        let session = socket.get_ref().1;
        let identity = crate::security::Identity::of_peer(session).map(Arc::new);
        let peer = Peer::new(address, identity, &self.connection.server);
        if crate::security::speaks_http_1(session) {
            Box::pin(self.serve_http1(socket, peer)).await;
        } else {
            Box::pin(self.serve(socket, peer)).await;
        }
    }

    async fn serve<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (routes, called, from) = (self.routes, self.connection.called(), peer.clone());
        let moving = peer.moving.clone();
        let service = service_fn(move |request| {
            called.store(true, Ordering::Relaxed);
            answer(routes.clone(), request, peer.clone())
        });
        let builder = http2(&self.connection.server);
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.connection
            .drive(
                connection,
                http2::Connection::graceful_shutdown,
                &from,
                &moving,
            )
            .await;
    }

    /// Serves HTTP/1.1 on a TLS connection that negotiated it.
    #[cfg(feature = "tls")]
    async fn serve_http1<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (routes, called, from) = (self.http_routes, self.connection.called(), peer.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            called.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            routes.clone().call(request)
        });
        let mut builder = http1::Builder::new();
        let timeout = self.connection.server.limits.timers.first_request;
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(timeout);
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.connection
            .drive(
                connection,
                http1::Connection::graceful_shutdown,
                &from,
                &from.moving,
            )
            .await;
    }
}

/// Returns the HTTP/2 settings for the limits.
fn http2(server: &Shared) -> http2::Builder<TokioExecutor> {
    let limits = &server.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(limits.timers.keepalive)
        .keep_alive_timeout(limits.timers.keepalive_timeout);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size in bytes of the future of a connection.
    fn size_of_future<S, A, F>(_: impl Fn(GrpcConnection, S, A) -> F) -> usize {
        size_of::<F>()
    }

    /// Given ten thousand clients in sync, connections are most of their memory. So a future holds its connection once,
    /// and a plain connection has no room for TLS.
    #[test]
    fn p8_plain_connection_future_is_small() {
        let boxed = size_of_future(GrpcConnection::run);
        let served = size_of_future(GrpcConnection::serve::<TcpStream>);
        assert!(boxed <= 512, "{boxed} bytes");
        assert!(served <= 3072, "{served} bytes");
    }
}
