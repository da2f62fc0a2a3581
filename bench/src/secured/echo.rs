//! A service without a schema: each call is answered with its own messages.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

/// The service `bench.Echo`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "bench.Echo";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut response = Response::new(Body::new(EchoBody(Some(request.into_body()))));
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", grpc);
        ready(Ok(response))
    }
}

/// The messages of a request, then OK.
struct EchoBody(Option<Body>);

impl http_body::Body for EchoBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        while let Some(request) = &mut self.0 {
            let Poll::Ready(frame) = Pin::new(request).poll_frame(context) else {
                return Poll::Pending;
            };
            match frame {
                // The last frame is often empty. h2 ends connections with many empty frames.
                Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                _ => {
                    self.0 = None;
                    let ok = HeaderValue::from_static("0");
                    let status = (HeaderName::from_static("grpc-status"), ok);
                    return Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([status])))));
                }
            }
        }
        Poll::Ready(None)
    }
}
