//! RPCs of a connection: route, HTTP filters, service.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::header::HOST;
use http::{Request, Response};
use hyper::body::Incoming;
use oxds_client::RequestHeaders;
use oxds_client::channelz::CountedServer;
use oxds_core::rbac::Call;
use oxds_net::rpc::{GRPC_TIMEOUT, parse_timeout, random};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::transport::server::TcpConnectInfo;
use tower_service::Service as _;

use crate::body::{RequestBody, ResponseBody, Timer};
use crate::filters::{self, ReceivedHeaders};
use crate::meter::CallMeter;
use crate::security::Identity;
use crate::serving::Chain;
use crate::shared::Shared;

/// Values that the RPCs of a connection share.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    counted: CountedServer,
    chain: Arc<Chain>,
    local: SocketAddr,
    peer: SocketAddr,
    identity: Identity,
}

/// The service of a connection.
#[derive(Clone, Debug)]
pub(crate) struct CallService(Arc<Connection>);

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        counted: CountedServer,
        chain: Arc<Chain>,
        (local, peer): (SocketAddr, SocketAddr),
        identity: Identity,
    ) -> Self {
        Self {
            shared,
            counted,
            chain,
            local,
            peer,
            identity,
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let mut meter = CallMeter::start(&self.counted, self.shared.metrics.as_ref(), &request);
        if let Err(status) = self.admit(&request) {
            return ResponseBody::respond(meter, status.into_http(), None);
        }
        let timeout = request.headers().get(GRPC_TIMEOUT).and_then(parse_timeout);
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut timer = end.map(|end| Box::pin(sleep_until(end)));
        let mut request = request.map(|body| RequestBody::new(body, meter.received()));
        // `tonic::Request::remote_addr` reads it.
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: Some(self.local),
            remote_addr: Some(self.peer),
        });
        self.identity.extend(request.extensions_mut());
        // Routes are always ready.
        let processing = self.shared.routes.clone().call(request);
        let response = match before(&mut timer, processing).await {
            Some(Ok(response)) => response,
            None => Status::deadline_exceeded("deadline exceeded before the response").into_http(),
        };
        meter.learn(response.headers());
        ResponseBody::respond(meter, response, timer)
    }

    /// Decides by routes and HTTP filters whether an RPC is processed.
    fn admit(&self, request: &Request<Incoming>) -> Result<(), Status> {
        let routes = self.chain.routes.load();
        let routes = match &**routes {
            Ok(routes) => routes,
            // gRFC A36: RPCs of a chain without routes fail.
            Err(error) => return Err(Status::unavailable(format!("no routes: {error}"))),
        };
        let (path, authority) = (request.uri().path(), authority(request)?);
        let headers = RequestHeaders(request.headers());
        let found = routes.route(authority, path, &headers, random);
        let filters = found.map_err(|reason| {
            let node = &self.shared.clients.bootstrap().node().id;
            Status::unavailable(format!("{reason} [node {node:?}]"))
        })?;
        let call = Call {
            path,
            method: request.method().as_str(),
            authority,
            headers: &ReceivedHeaders(request.headers()),
            destination: self.local,
            source: self.peer,
            security: self.identity.security(),
        };
        filters::run(filters, &call)
    }
}

/// Returns the authority of an RPC: of `:authority`, or else of `Host` (gRFC A41).
///
/// # Errors
/// There are several `Host` headers, so that it would depend on the reader which one counts.
fn authority<B>(request: &Request<B>) -> Result<&str, Status> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Status::internal("the request has several Host headers"));
    }
    let of_uri = request.uri().authority().map(http::uri::Authority::as_str);
    let host = || host?.to_str().ok();
    Ok(of_uri.or_else(host).unwrap_or_default())
}

/// Waits for a future until the time is over; without a timer, as long as it takes.
async fn before<F: Future>(timer: &mut Option<Timer>, future: F) -> Option<F::Output> {
    match timer {
        None => Some(future.await),
        Some(timer) => tokio::select! {
            output = future => Some(output),
            () = timer => None,
        },
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} -> {})", self.peer, self.local)
    }
}

impl CallService {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(Arc::new(connection))
    }
}

impl hyper::service::Service<Request<Incoming>> for CallService {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        Box::pin(async move { Ok(connection.respond(request).await) })
    }
}
