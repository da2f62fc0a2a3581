//! The program's hooks before what is beside discovery: CSDS, load reports, and the status on the gRPC port.
//!
//! Whoever tells clients apart by a token means all that is said there, and CSDS says more than any stream does.

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

use super::{Call, Observed};
use crate::discovery::http_status;
use crate::server::{Peer, Shared};

/// Passes a call on, unless the program refuses it. Its observer is told nothing but the end.
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
    let observed = match Observed::open(server.hooks.as_deref(), call).await {
        Ok(observed) => observed,
        Err(refused) => {
            server.metrics.refused("program");
            return refuse(&head.headers, refused);
        }
    };
    let response = next.run(Request::from_parts(head, body)).await;
    response.map(|body| Body::new(ObservedBody { body, observed }))
}

/// In the words of gRPC to who speaks it, else in those of HTTP.
fn refuse(headers: &HeaderMap, refused: Status) -> Response {
    let content_type = headers.get(header::CONTENT_TYPE);
    let is_grpc = |value: &HeaderValue| value.as_bytes().starts_with(b"application/grpc");
    if content_type.is_some_and(is_grpc) {
        refused.into_http()
    } else {
        let code = http_status(refused.code());
        (code, refused.message().to_owned()).into_response()
    }
}

/// A response, with who is told when it is over.
struct ObservedBody {
    body: Body,
    observed: Observed,
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
            self.observed.close(&status.unwrap_or(Status::ok("")));
        }
        Poll::Ready(frame)
    }
}
