//! One unary method in the form that a router takes.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::server::{Grpc, UnaryService};
use tonic::service::Routes;
use tonic_prost::ProstCodec;
use tower_service::Service;

/// Adds a unary method: `handler` answers requests for `path`.
pub(crate) fn add<Q, A, H, F>(routes: &mut Routes, path: &str, handler: H)
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    H: Fn(tonic::Request<Q>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<tonic::Response<A>, Status>> + Send + 'static,
{
    let router = std::mem::take(routes.axum_router_mut());
    let method = Method {
        call: move |request: Request<_>| answer(handler.clone(), request),
    };
    *routes.axum_router_mut() = router.route_service(path, method);
}

async fn answer<B, Q, A, H, F>(handler: H, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send,
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    H: Fn(tonic::Request<Q>) -> F,
    F: Future<Output = Result<tonic::Response<A>, Status>> + Send + 'static,
{
    let codec = ProstCodec::<A, Q>::default();
    Grpc::new(codec).unary(Handler(handler), request).await
}

/// A function as a tonic service.
struct Handler<H>(H);

impl<Q, A, H, F> UnaryService<Q> for Handler<H>
where
    H: Fn(tonic::Request<Q>) -> F,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    type Response = A;
    type Future = F;

    fn call(&mut self, request: tonic::Request<Q>) -> F {
        (self.0)(request)
    }
}

/// A function as a service of the router.
#[derive(Clone)]
struct Method<C> {
    call: C,
}

impl<B, C, F> Service<Request<B>> for Method<C>
where
    C: Fn(Request<B>) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = (self.call)(request);
        Box::pin(async move { Ok(answer.await) })
    }
}
