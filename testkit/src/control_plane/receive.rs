//! Calls as they arrive: handed to the test, or rejected.

use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::shared::{Manners, Shared};
use super::stream::{Stream, Written, status};

type Body = StreamBody<UnboundedReceiverStream<Written>>;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Receives a call. Its response headers are held back until the test sends something.
pub(super) async fn receive(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let (frames, queue) = mpsc::unbounded_channel();
    let manners = shared.manners.borrow().clone();
    if let Manners::Refuse(code, message) = manners {
        drop(frames.send(Ok(Frame::trailers(status(code, &message)))));
        return respond(queue);
    }
    let (headers, released) = oneshot::channel();
    // A test that has ended takes no more streams.
    if request.uri().path().ends_with("/StreamLoadStats") {
        drop(shared.loads.send(Stream::new(request, headers, frames)));
    } else {
        drop(shared.streams.send(Stream::new(request, headers, frames)));
    }
    // A dropped stream sends its headers, too.
    drop(released.await);
    respond(queue)
}

fn respond(queue: mpsc::UnboundedReceiver<Written>) -> Response<Body> {
    let body = StreamBody::new(UnboundedReceiverStream::new(queue));
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}
