//! One ADS or LRS stream: requests are read for the test, and the test writes responses.

use std::convert::Infallible;

use bytes::Bytes;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse};
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::Code;

use super::frames::{self, Decoder};
use crate::SOON;

pub(super) type Written = Result<Frame<Bytes>, Infallible>;
/// The event that a test waited for did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// The deadline passed.
    #[error("not within {SOON:?}")]
    Late,
    /// The client has ended the stream, so the event cannot happen any more.
    #[error("the client ended the stream")]
    Ended,
}

/// An ADS stream in the SotW variant.
pub type AdsStream = Stream<DiscoveryRequest, DiscoveryResponse>;
/// A stream of load reports.
pub type LoadStream = Stream<LoadStatsRequest, LoadStatsResponse>;

/// A stream that a client has opened. Dropping it ends it without a status, as a faulty proxy does.
#[derive(Debug)]
pub struct Stream<Q, R> {
    path: String,
    metadata: HeaderMap,
    requests: mpsc::UnboundedReceiver<(Bytes, Q)>,
    seen: Vec<Q>,
    /// The last request, encoded.
    last: Bytes,
    /// Releases the response headers; `None` once they are sent.
    headers: Option<oneshot::Sender<()>>,
    frames: mpsc::UnboundedSender<Written>,
    sent: Vec<R>,
}

/// Reads all requests as they come, so that the client never waits. Ends with the client's side.
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

pub(super) fn status(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(i32::from(code)));
    if let Ok(message) = HeaderValue::from_str(message) {
        trailers.insert("grpc-message", message);
    }
    trailers
}

impl<Q: Message + Default + Clone + 'static, R: Message> Stream<Q, R> {
    pub(super) fn new(
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

    /// Path of the called method.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Headers of the call.
    #[must_use]
    pub fn metadata(&self) -> &HeaderMap {
        &self.metadata
    }

    /// Returns the next request.
    ///
    /// # Errors
    /// When none comes before the deadline, or the stream has ended.
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

    /// Requests that were read so far.
    #[must_use]
    pub fn requests(&self) -> &[Q] {
        &self.seen
    }

    /// Bytes of the last request, including fields that [`DiscoveryRequest`] does not have.
    #[must_use]
    pub fn request_bytes(&self) -> &Bytes {
        &self.last
    }

    /// Waits until the client ends the stream; requests before that are read.
    ///
    /// # Errors
    /// When the client does not end it before the deadline.
    pub async fn ended(&mut self) -> Result<(), Missed> {
        loop {
            match self.request().await {
                Ok(_) => {}
                Err(Missed::Ended) => return Ok(()),
                Err(Missed::Late) => return Err(Missed::Late),
            }
        }
    }

    /// Sends the response headers only.
    pub fn send_headers(&mut self) {
        if let Some(headers) = self.headers.take() {
            // The client may have disconnected.
            let _ = headers.send(());
        }
    }

    /// Sends a response unchanged.
    pub fn send(&mut self, response: R) {
        self.write(frames::encode(&response));
        self.sent.push(response);
    }

    /// Sends arbitrary bytes.
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
    /// Sends resources of a type, with a nonce that is new on this stream.
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

    /// Nonce of the last response.
    #[must_use]
    pub fn last_nonce(&self) -> Option<&str> {
        self.sent.last().map(|response| response.nonce.as_str())
    }

    /// Sends the last response again, with a new nonce.
    pub fn repeat(&mut self) {
        if let Some(last) = self.sent.last().cloned() {
            let nonce = format!("nonce-{}", self.sent.len() + 1);
            self.send(DiscoveryResponse { nonce, ..last });
        }
    }
}
