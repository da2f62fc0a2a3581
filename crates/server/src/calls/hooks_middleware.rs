//! Hooks middleware for the services beside discovery: CSDS, load reports, and the status on the gRPC port.
//!
//! A program that identifies clients by tokens must see these calls too: CSDS exposes more than any stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use tonic::Status;

use super::error::http_status;
use super::peer::Peer;
use super::shared::Shared;
use crate::hooks::{Call, CallObserver};
use crate::metrics::DeniedBy;

/// Passes a call on, unless the hooks deny it. Its observer sees only the end of the call.
pub(crate) async fn run(
    State(server): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let call = || Call {
        method: head.uri.path().to_owned(),
        peer: peer.address,
        headers: head.headers.clone(),
        identity: peer.names(),
    };
    let observer = match CallObserver::open(server.hooks.as_deref(), call).await {
        Ok(observer) => observer,
        Err(denied) => {
            server.metrics.denied(DeniedBy::Hook);
            return denial(&head.headers, denied);
        }
    };
    let response = next.run(Request::from_parts(head, body)).await;
    response.map(|body| Body::new(ObservedBody { body, observer }))
}

/// Returns a gRPC status to a gRPC client, and an HTTP status to any other.
fn denial(headers: &HeaderMap, denied: Status) -> Response {
    let content_type = headers.get(header::CONTENT_TYPE);
    let is_grpc = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if content_type.is_some_and(is_grpc) {
        denied.into_http()
    } else {
        let code = http_status(denied.code());
        (code, denied.message().to_owned()).into_response()
    }
}

/// A response body that reports its end to the observer.
struct ObservedBody {
    body: Body,
    observer: CallObserver,
}

impl http_body::Body for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let trailers = match &frame {
            Some(Ok(frame)) => frame.trailers_ref().map(Status::from_header_map),
            Some(Err(_)) => None,
            None => Some(None),
        };
        if let Some(status) = trailers {
            self.observer.close(&status.unwrap_or(Status::ok("")));
        }
        Poll::Ready(frame)
    }
}
