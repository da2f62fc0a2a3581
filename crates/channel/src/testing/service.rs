//! The service of the echo backend.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::service::Service;

use super::{BACKEND_HEADER, Shared};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

type Reply = Result<Response<EchoBody>, Infallible>;

#[derive(Clone)]
pub(super) struct Echo {
    name: HeaderValue,
    shared: Arc<Shared>,
}

impl Echo {
    pub(super) fn new(address: SocketAddr, shared: Arc<Shared>) -> Self {
        let name = HeaderValue::try_from(address.to_string());
        let name = name.unwrap_or(HeaderValue::from_static("unknown"));
        Self { name, shared }
    }

    fn reply(&self, request: Request<Incoming>) -> Response<EchoBody> {
        let code = self.shared.code.load(Ordering::Relaxed);
        let body = match code {
            0 => EchoBody::Frames(request.into_body(), Arc::clone(&self.shared)),
            _ => EchoBody::Ended,
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, GRPC);
        headers.insert(BACKEND_HEADER, self.name.clone());
        if code != 0 {
            headers.insert(GRPC_STATUS, HeaderValue::from(code));
        }
        response
    }
}

impl Service<Request<Incoming>> for Echo {
    type Response = Response<EchoBody>;
    type Error = Infallible;
    // A backend that is measured against must not itself cost a box per call; a slow one may.
    type Future = MaybeLater;

    fn call(&self, request: Request<Incoming>) -> MaybeLater {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        let delay = self.shared.delay_micros.load(Ordering::Relaxed);
        if delay == 0 {
            return MaybeLater::Now(ready(Ok(self.reply(request))));
        }
        let echo = self.clone();
        MaybeLater::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_micros(delay)).await;
            Ok(echo.reply(request))
        }))
    }
}

pub(super) enum MaybeLater {
    Now(std::future::Ready<Reply>),
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Future for MaybeLater {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        match &mut *self {
            Self::Now(now) => Pin::new(now).poll(cx),
            Self::Later(later) => later.as_mut().poll(cx),
        }
    }
}

/// The request's messages, then the trailers.
pub(super) enum EchoBody {
    Frames(Incoming, Arc<Shared>),
    Ended,
}

impl Body for EchoBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self::Frames(incoming, shared) = &mut *self else {
            return Poll::Ready(None);
        };
        loop {
            match std::task::ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                // The empty frame that ends many a request is not echoed: h2 takes a peer that sends
                // many of them, other than at the end, for an attacker.
                Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(_)) | None => break,
            }
        }
        let mut trailers = HeaderMap::clone(&shared.trailers.load());
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        *self = Self::Ended;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ended)
    }
}
