//! The gRPC service: from a call to a running stream.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::{HeaderValue, Request, Response, header};
use oxds_core::snapshot::Protocol;
use oxds_types::kind::ADS;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

use super::body::StreamBody;
use super::stream::{Context, Stream};

/// Where a connection's requests come from; the listener puts it into their extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// `envoy.service.discovery.v3.AggregatedDiscoveryService`.
#[derive(Clone, Debug)]
pub(crate) struct AdsService(Arc<Context>);

impl AdsService {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self(context)
    }

    fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let method = request.uri().path().rsplit('/').next().map(str::to_owned);
        let protocol = match method {
            method if method.as_deref() == ADS[0].stream => Protocol::Sotw,
            method if method.as_deref() == ADS[0].delta => Protocol::Delta,
            _ => return Err(Status::unimplemented("no such method")),
        };
        let peer = request.extensions().get().map(|Peer(address)| *address);
        let stream = Stream::open(&self.0, protocol, peer, request.into_body())?;
        let mut response = Response::new(Body::new(StreamBody::new(stream)));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/grpc"),
        );
        Ok(response)
    }
}

impl NamedService for AdsService {
    const NAME: &'static str = ADS[0].name;
}

impl Service<Request<Body>> for AdsService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(self.answer(request).unwrap_or_else(Status::into_http)))
    }
}
