//! The gRPC port: from a socket to the services.
//!
//! Over TLS, HTTP/1.1 can be agreed to instead of HTTP/2: it has what is beside gRPC here, REST discovery above all.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::middleware::from_fn_with_state;
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
use tonic::server::NamedService;
use tonic::service::Routes;
use tower_service::Service as _;
#[cfg(feature = "tls")]
use tracing::debug;

use super::connection::{Connection, Ports};
use super::listener::Bound;
use super::peer::Peer;
use super::shared::Shared;
use crate::admin::{Admin, beside_grpc};
use crate::csds::StatusService;
use crate::discovery::{Context, DiscoveryService};
use crate::hooks::middleware;
use crate::load::{LoadReports, LoadService, LoadServiceV2, V2_PATH};

/// Bytes of a stream that are copied for the transport before it has written them: two frames of the largest size keep
/// the socket busy. What waits for longer waits in its session, and is shared with others.
const SEND_BUFFER: usize = 32 << 10;

/// What serves the port.
pub(crate) struct Grpc {
    pub(crate) ports: Ports,
    pub(crate) context: Arc<Context>,
    pub(crate) load_reports: LoadReports,
    pub(crate) admin: Arc<Admin>,
}

impl Grpc {
    /// Accepts connections until a shutdown begins.
    pub(crate) async fn serve(self, bound: Bound) {
        let beside = beside_grpc(Arc::clone(&self.admin));
        let routes = self.routes(beside.clone()).await;
        self.ports
            .accept(bound, |connection, socket, address| {
                let caller = Caller {
                    connection,
                    routes: routes.clone(),
                    #[cfg(feature = "tls")]
                    beside: beside.clone(),
                };
                caller.run(socket, address)
            })
            .await;
    }

    async fn routes(&self, beside: Router) -> Routes {
        let mut routes = Routes::builder();
        super::services::add(&mut routes, &self.context, &self.ports.tasks).await;
        let mut routes = routes.routes();
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router.merge(beside).merge(self.gated());
        for service in DiscoveryService::all(&self.context) {
            let path = format!("/{}/{{method}}", service.name());
            let router = std::mem::take(routes.axum_router_mut());
            *routes.axum_router_mut() = router.route_service(&path, service);
        }
        routes.prepare()
    }

    /// The services beside discovery that the program's hooks are asked about.
    fn gated(&self) -> Router {
        let context = &self.context;
        let loads = LoadReportingServiceServer::new(LoadService {
            context: Arc::clone(context),
            reports: self.load_reports.clone(),
        })
        .max_decoding_message_size(context.server.limits.message_bytes);
        let status = ClientStatusDiscoveryServiceServer::new(StatusService(Arc::clone(context)));
        let hooks = from_fn_with_state(Arc::clone(&context.server), middleware::run);
        Router::new()
            .route_service(&path_of(&loads), loads.clone())
            .route_service(V2_PATH, LoadServiceV2(loads))
            .route_service(&path_of(&status), status)
            .route_layer(hooks)
    }
}

/// Where the methods of a service are.
fn path_of<S: NamedService>(_: &S) -> String {
    format!("/{}/{{method}}", S::NAME)
}

/// One connection, and what it can ask for.
struct Caller {
    connection: Connection,
    routes: Routes,
    /// What HTTP/1.1 has of them.
    #[cfg(feature = "tls")]
    beside: Router,
}

impl Caller {
    /// Serves it to its end. In boxes: a connection has the memory of what it is, and not of the largest that there is.
    async fn run(self, socket: TcpStream, address: SocketAddr) {
        #[cfg(feature = "tls")]
        if let Some(acceptor) = self.connection.server.security.acceptor() {
            return Box::pin(self.run_tls(acceptor, socket, address)).await;
        }
        let identity = None;
        Box::pin(self.serve(socket, Peer { address, identity })).await;
    }

    #[cfg(feature = "tls")]
    async fn run_tls(
        self,
        acceptor: tokio_rustls::TlsAcceptor,
        socket: TcpStream,
        address: SocketAddr,
    ) {
        let Some(socket) = Box::pin(self.shake_hands(acceptor, socket, address)).await else {
            return;
        };
        let session = socket.get_ref().1;
        let identity = crate::security::Identity::of_peer(session).map(Arc::new);
        let peer = Peer { address, identity };
        match crate::security::speaks_http_1(session) {
            true => Box::pin(self.serve_polls(socket, peer)).await,
            false => Box::pin(self.serve(socket, peer)).await,
        }
    }

    #[cfg(feature = "tls")]
    async fn shake_hands(
        &self,
        acceptor: tokio_rustls::TlsAcceptor,
        socket: TcpStream,
        address: SocketAddr,
    ) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
        let server = &self.connection.server;
        let handshake = tokio::time::timeout_at(self.connection.deadline, acceptor.accept(socket));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = server.closing.cancelled() => return None,
        };
        match shaken {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => {
                server.metrics.refused("handshake");
                debug!(peer = %address, %error, "no TLS");
            }
            Err(_) => server.metrics.refused("silence"),
        }
        None
    }

    async fn serve<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (routes, called, from) = (self.routes, self.connection.called(), peer.clone());
        let service = service_fn(move |request| {
            called.store(true, Ordering::Relaxed);
            answer(routes.clone(), request, peer.clone())
        });
        let builder = http2(&self.connection.server);
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.connection
            .drive(connection, http2::Connection::graceful_shutdown, &from)
            .await;
    }

    /// The same, by HTTP/1.1.
    #[cfg(feature = "tls")]
    async fn serve_polls<S>(self, socket: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (beside, called, from) = (self.beside, self.connection.called(), peer.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            called.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            beside.clone().call(request)
        });
        let mut builder = http1::Builder::new();
        let patience = self.connection.server.limits.first_request;
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(patience);
        let connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        self.connection
            .drive(connection, http1::Connection::graceful_shutdown, &from)
            .await;
    }
}

/// HTTP/2 as the limits want it.
fn http2(server: &Shared) -> http2::Builder<TokioExecutor> {
    let limits = &server.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_send_buf_size(SEND_BUFFER)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future that this makes of a connection.
    fn size_of_future<S, A, F>(_: impl Fn(Caller, S, A) -> F) -> usize {
        size_of::<F>()
    }

    /// Given ten thousand clients that are in sync, most of what each costs is its connection: it is held once, and a plain
    /// one has no room for TLS.
    #[test]
    fn p8_a_connection_has_the_memory_of_what_it_is() {
        let boxed = size_of_future(Caller::run);
        let served = size_of_future(Caller::serve::<TcpStream>);
        assert!(boxed <= 512, "{boxed} bytes");
        assert!(served <= 3072, "{served} bytes");
    }
}
