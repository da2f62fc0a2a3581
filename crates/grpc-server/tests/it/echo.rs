//! The service of the tests: an echo, and a method that waits.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;
use tower_service::Service;

use oxds_grpc_server::{Peer, PeerCertificates};
use oxds_testkit::SOON;

/// The service `echo.Echo`. `Call` echoes, `Hold` echoes when it is released, `Peer` returns the address of its client,
/// `Names` the names in its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    /// One permit for each call of `Hold` that has begun.
    held: Arc<Semaphore>,
    /// One permit for each call of `Hold` that may end.
    released: Arc<Semaphore>,
}

impl Echo {
    pub(crate) fn new() -> Self {
        Self {
            held: Arc::new(Semaphore::new(0)),
            released: Arc::new(Semaphore::new(0)),
        }
    }

    /// Waits until a call of `Hold` has begun.
    pub(crate) async fn is_held(&self) {
        let permit = timeout(SOON, self.held.acquire()).await;
        permit.expect("a call in time").unwrap().forget();
    }

    /// Lets a call of `Hold` end.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    async fn respond(self, request: Request<Body>) -> Response<Body> {
        let peer = request.extensions().get::<TcpConnectInfo>().cloned();
        let names = request.extensions().get::<Arc<Peer>>().cloned();
        let certificates = request.extensions().get::<PeerCertificates>();
        let certificates = certificates.map_or(0, |all| all.0.len());
        let path = request.uri().path().to_owned();
        if path == "/echo.Echo/Hold" {
            self.held.add_permits(1);
            self.released.acquire().await.unwrap().forget();
        }
        match &*path {
            "/echo.Echo/Call" | "/echo.Echo/Hold" => match request.into_body().collect().await {
                Ok(body) => ok(body.to_bytes()),
                Err(status) => status.into_http(),
            },
            "/echo.Echo/Peer" => {
                let peer = peer.and_then(|peer| peer.remote_addr).unwrap().to_string();
                ok(peer.into())
            }
            "/echo.Echo/Names" => {
                let names = names
                    .map(|peer| peer.uri_sans.join(","))
                    .unwrap_or_default();
                ok(format!("{names} {certificates}").into())
            }
            "/echo.Echo/Endless" => {
                let first = Frame::data(Bytes::from_static(b"first"));
                let rest = tokio_stream::pending();
                let frames = tokio_stream::StreamExt::chain(
                    tokio_stream::once(Ok::<_, Status>(first)),
                    rest,
                );
                head(Body::new(StreamBody::new(frames)))
            }
            _ => Status::unimplemented("no such method").into_http(),
        }
    }
}

fn ok(data: Bytes) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Frame::data(data), Frame::trailers(trailers)];
    let frames = tokio_stream::iter(frames.map(Ok::<_, Status>));
    head(Body::new(StreamBody::new(frames)))
}

fn head(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    response
}

impl NamedService for Echo {
    const NAME: &'static str = "echo.Echo";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}
