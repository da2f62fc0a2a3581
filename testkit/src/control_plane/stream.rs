//! One stream, of ADS or of LRS: requests are read for the test, responses written by it.

use std::convert::Infallible;

use bytes::Bytes;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse};
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Code;

use super::frames::{self, Decoder};
use super::{Manners, Missed, Shared};
use crate::SOON;

type Written = Result<Frame<Bytes>, Infallible>;
pub(super) type Body = StreamBody<UnboundedReceiverStream<Written>>;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// An ADS stream of full states.
pub type AdsStream = Stream<DiscoveryRequest, DiscoveryResponse>;
/// A stream of load reports.
pub type LoadStream = Stream<LoadStatsRequest, LoadStatsResponse>;

/// A stream that a client has opened. Dropping it ends it without a status, as a proxy in trouble does.
#[derive(Debug)]
pub struct Stream<Q, R> {
    path: String,
    metadata: HeaderMap,
    requests: mpsc::UnboundedReceiver<(Bytes, Q)>,
    seen: Vec<Q>,
    /// The last of them, encoded.
    last: Bytes,
    /// Lets the headers go; gone once they are.
    headers: Option<oneshot::Sender<()>>,
    frames: mpsc::UnboundedSender<Written>,
    sent: Vec<R>,
}

/// Receives a call; its response headers are held back until the test sends something.
pub(super) async fn receive(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let (frames, queue) = mpsc::unbounded_channel();
    let manners = shared.manners.borrow().clone();
    if let Manners::Refuse(code, message) = manners {
        drop(frames.send(Ok(Frame::trailers(status(code, &message)))));
        return respond(queue);
    }
    let (headers, released) = oneshot::channel();
    // A test that is over takes no more streams.
    if request.uri().path().ends_with("/StreamLoadStats") {
        drop(shared.loads.send(Stream::new(request, headers, frames)));
    } else {
        drop(shared.streams.send(Stream::new(request, headers, frames)));
    }
    // A stream that was dropped has its headers too.
    drop(released.await);
    respond(queue)
}

fn respond(queue: mpsc::UnboundedReceiver<Written>) -> Response<Body> {
    let body = StreamBody::new(UnboundedReceiverStream::new(queue));
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

/// Reads all requests as they come, so that the client is never held up; ends with the client's side.
fn read<Q: Message + Default + 'static>(mut body: Incoming) -> mpsc::UnboundedReceiver<(Bytes, Q)> {
    let (requests, queue) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut decoder = Decoder::default();
        while let Some(Ok(frame)) = body.frame().await {
            decoder.push(&frame.into_data().unwrap_or_default());
            while let Some(request) = decoder.next() {
                drop(requests.send(request));
            }
        }
    });
    queue
}

fn status(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(i32::from(code)));
    if let Ok(message) = HeaderValue::from_str(message) {
        trailers.insert("grpc-message", message);
    }
    trailers
}

impl<Q: Message + Default + Clone + 'static, R: Message> Stream<Q, R> {
    fn new(
        request: Request<Incoming>,
        headers: oneshot::Sender<()>,
        frames: mpsc::UnboundedSender<Written>,
    ) -> Self {
        Self {
            path: request.uri().path().to_owned(),
            metadata: request.headers().clone(),
            requests: read(request.into_body()),
            seen: Vec::new(),
            last: Bytes::new(),
            headers: Some(headers),
            frames,
            sent: Vec::new(),
        }
    }

    /// The method that was called.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The headers of the call.
    #[must_use]
    pub fn metadata(&self) -> &HeaderMap {
        &self.metadata
    }

    /// The next request.
    ///
    /// # Errors
    /// None came in time, or none will come any more.
    pub async fn request(&mut self) -> Result<Q, Missed> {
        match timeout(SOON, self.requests.recv()).await {
            Ok(Some((bytes, request))) => {
                self.last = bytes;
                self.seen.push(request.clone());
                Ok(request)
            }
            Ok(None) => Err(Missed::Ended),
            Err(_) => Err(Missed::Late),
        }
    }

    /// The requests that were read so far.
    #[must_use]
    pub fn requests(&self) -> &[Q] {
        &self.seen
    }

    /// The last request that was read, as it came: with fields that [`DiscoveryRequest`] does not have.
    #[must_use]
    pub fn request_bytes(&self) -> &Bytes {
        &self.last
    }

    /// Waits until the client ends the stream; requests that come before are read.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn ended(&mut self) -> Result<(), Missed> {
        loop {
            match self.request().await {
                Ok(_) => {}
                Err(Missed::Ended) => return Ok(()),
                Err(Missed::Late) => return Err(Missed::Late),
            }
        }
    }

    /// Sends the response headers, and nothing yet after them.
    pub fn send_headers(&mut self) {
        if let Some(headers) = self.headers.take() {
            // The client may have gone.
            let _ = headers.send(());
        }
    }

    /// Sends a response as it is.
    pub fn send(&mut self, response: R) {
        self.write(frames::encode(&response));
        self.sent.push(response);
    }

    /// Sends bytes that need not make sense.
    pub fn garble(&mut self, bytes: impl Into<Bytes>) {
        self.write(bytes.into());
    }

    /// Ends the stream with a status.
    pub fn end(mut self, code: Code, message: &str) {
        self.send_headers();
        drop(self.frames.send(Ok(Frame::trailers(status(code, message)))));
    }

    fn write(&mut self, data: Bytes) {
        self.send_headers();
        drop(self.frames.send(Ok(Frame::data(data))));
    }
}

impl AdsStream {
    /// Sends resources of a kind; the nonce is new on this stream.
    pub fn respond(&mut self, resource_type: &ResourceType, version: &str, resources: Vec<Any>) {
        let nonce = format!("nonce-{}", self.sent.len() + 1);
        self.send(DiscoveryResponse {
            version_info: version.to_owned(),
            resources,
            type_url: resource_type.type_url().to_owned(),
            nonce,
            ..DiscoveryResponse::default()
        });
    }

    /// Sends the last response again, with a nonce of its own.
    pub fn repeat(&mut self) {
        if let Some(last) = self.sent.last().cloned() {
            let nonce = format!("nonce-{}", self.sent.len() + 1);
            self.send(DiscoveryResponse { nonce, ..last });
        }
    }
}
