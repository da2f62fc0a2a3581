//! The gRPC discovery services: from a call to a running stream, or to a single response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use oxds_core::session::Scope;
use oxds_core::snapshot::Protocol;
use oxds_types::resource_type::{ADS, Service};
use oxds_types::{ApiVersion, ResourceType};
use tonic::Status;
use tonic::body::Body;

use super::poll;
use super::service_scope::ServiceScope;
use super::stream::{Stream, StreamBody};
use crate::calls::{CallError, Peer};
use crate::context::Context;
use crate::hooks::Call;

/// One discovery service: the aggregated one or that of a single resource type, of either API version (S-61, S-62).
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryService {
    context: Arc<Context>,
    service: &'static Service,
    service_scope: ServiceScope,
}

impl DiscoveryService {
    /// Returns all discovery services of the API.
    pub(crate) fn all(context: &Arc<Context>) -> impl Iterator<Item = Self> {
        let versions = [ApiVersion::V3, ApiVersion::V2];
        let aggregated = ADS.iter().zip(versions).map(|(service, api)| {
            let scope = Scope::Aggregated;
            (service, ServiceScope { scope, api })
        });
        let singles = ResourceType::known().flat_map(move |resource_type| {
            versions.into_iter().filter_map(move |api| {
                let service = resource_type.service(api)?;
                let scope = Scope::Single(resource_type.clone());
                Some((service, ServiceScope { scope, api }))
            })
        });
        aggregated
            .chain(singles)
            .map(|(service, service_scope)| DiscoveryService {
                context: Arc::clone(context),
                service,
                service_scope,
            })
    }

    /// Returns the full name of the service, which is the first segment of the paths of its methods.
    pub(crate) fn name(&self) -> &'static str {
        self.service.name
    }

    async fn answer(self, request: Request<Body>) -> Result<Body, Status> {
        let peer = Peer::of(request.extensions())?;
        let (head, body) = request.into_parts();
        let call = |peer: &Peer| Call {
            method: head.uri.path().to_owned(),
            peer: peer.address,
            headers: head.headers.clone(),
            identity: peer.names(),
        };
        let (context, method) = (&self.context, head.uri.path().rsplit('/').next());
        let protocol = if method == self.service.stream {
            Protocol::Sotw
        } else if method == self.service.delta {
            Protocol::Delta
        } else if method == self.service.fetch {
            return poll::fetch(context, &self.service_scope, &peer, || call(&peer), body).await;
        } else {
            return Err(Status::unimplemented("unknown method"));
        };
        let open = async {
            let service_scope = self.service_scope.clone();
            let mut stream = Stream::open(context, protocol, service_scope, peer.clone(), body)?;
            stream.observe(|| call(&peer)).await?;
            Ok(stream)
        };
        let stream = open
            .await
            .map_err(|error: CallError| error.status(&context.server.metrics))?;
        Ok(Body::new(StreamBody::new(stream)))
    }
}

impl tower_service::Service<Request<axum::body::Body>> for DiscoveryService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<axum::body::Body>) -> Self::Future {
        if let Some(code) = http_error(&request) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = code;
            return Box::pin(std::future::ready(Ok(response)));
        }
        let answer = self.clone().answer(request.map(Body::new));
        Box::pin(async { Ok(answer.await.map_or_else(Status::into_http, grpc_response)) })
    }
}

/// Returns the HTTP status for a request that is not a gRPC call (gRPC over HTTP/2, "Requests").
///
/// Without this check the server would wait for gRPC messages in its body.
fn http_error<B>(request: &Request<B>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content = request.headers().get(header::CONTENT_TYPE);
    let is_grpc =
        content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc"));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn grpc_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}
