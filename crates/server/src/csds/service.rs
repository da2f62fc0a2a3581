//! The gRPC service of CSDS: each request has one response, which is made client by client and sent in pieces.
//!
//! ```text
//!  request ──▶ permit ──▶ client, client, … ──▶ pieces ──▶ transport
//!                │            └ lets other tasks run      └ counted until they are sent
//!                └ one response is made at a time
//! ```
//! A response has the state of every client, and contents of every resource: a few bytes of requests ask for gigabytes.
//! So contents are shared with the cache and never copied, and the rest counts against the budget of the connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use envoy_types::pb::envoy::service::status::v3::ClientStatusRequest;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::{Body as _, Frame};
use prost::Message as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;

use super::matcher::ClientMatcher;
use super::state::{Selection, clients};
use crate::calls::{CallError, Decoder, MemoryShare, MemoryUse, Peer};
use crate::clients::OtherRegistration;
use crate::context::Context;
use crate::metrics::DeniedBy;

/// Bytes of a request: node matchers of people and tools are far shorter.
const MAX_REQUEST: usize = 1 << 20;

/// `envoy.service.status.v3.ClientStatusDiscoveryService`.
#[derive(Clone)]
pub(crate) struct StatusService {
    context: Arc<Context>,
    /// Responses that are made at the same time: each takes a processor for a while.
    making: Arc<Semaphore>,
}

/// The methods of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// One request.
    Fetch,
    /// Any number of requests.
    Stream,
}

impl StatusService {
    /// The route of the methods.
    pub(crate) const PATH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/{method}";

    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self {
            context: Arc::clone(context),
            making: Arc::new(Semaphore::new(1)),
        }
    }

    /// Checks that the client may see the state of other clients (S-78).
    fn may_ask(&self, peer: &Peer) -> Result<(), Status> {
        let server = &self.context.server;
        if !server.security.is_authorizing() && !server.csds.allows(peer.address.ip()) {
            server.metrics.denied(DeniedBy::Authorization);
            let text = "CSDS is for clients of this machine; `oxds serve` answers others with `--csds all` or a rule of --authorize";
            return Err(Status::permission_denied(text));
        }
        let allowed = self.context.may_inspect(peer);
        allowed.map_err(|denied| Status::permission_denied(denied.to_string()))
    }

    fn open(&self, request: Request<axum::body::Body>) -> Result<StatusStream, Status> {
        let (server, streams) = (&self.context.server, &self.context.clients.streams);
        let method = match request.uri().path().rsplit('/').next() {
            Some("FetchClientStatus") => Method::Fetch,
            Some("StreamClientStatus") => Method::Stream,
            _ => return Err(Status::unimplemented("unknown method")),
        };
        let peer = Peer::of(request.extensions())?;
        self.may_ask(&peer)?;
        let registration = streams
            .register_other(peer.address.ip(), &server.limits)
            .map_err(|error| error.status(&server.metrics))?;
        let end = CancellationToken::new();
        Ok(StatusStream {
            service: self.clone(),
            method,
            share: peer.budgets.share(end.clone()),
            end,
            peer,
            requests: Body::new(request.into_body()),
            decoder: Decoder::new(MAX_REQUEST.min(server.limits.message_bytes)),
            deadline: Some(Instant::now() + server.limits.timers.first_request),
            pieces: VecDeque::new(),
            status: None,
            _registration: registration,
        })
    }
}

impl tower_service::Service<Request<axum::body::Body>> for StatusService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<axum::body::Body>) -> Self::Future {
        std::future::ready(Ok(match self.open(request) {
            Ok(stream) => {
                let mut response = Response::new(stream.into_body());
                let grpc = HeaderValue::from_static("application/grpc");
                response.headers_mut().insert(header::CONTENT_TYPE, grpc);
                response
            }
            Err(status) => status.into_http(),
        }))
    }
}

/// One call.
struct StatusStream {
    service: StatusService,
    method: Method,
    peer: Peer,
    requests: Body,
    decoder: Decoder,
    /// The time by which the first request must arrive. `None` after it.
    deadline: Option<Instant>,
    share: MemoryShare,
    /// Cancelled if another call needs the memory of this one.
    end: CancellationToken,
    /// The rest of the response.
    pieces: VecDeque<Bytes>,
    /// The status with which the call has ended.
    status: Option<Status>,
    _registration: OtherRegistration,
}

impl StatusStream {
    fn into_body(self) -> Body {
        let frames = unfold(self, |mut stream| async move {
            let frame = stream.next_frame().await?;
            Some((frame, stream))
        });
        Body::new(FrameBody(Box::pin(frames)))
    }

    /// Returns the next piece of a response, the trailers, or `None` after them.
    async fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(Frame::data(piece));
            }
            if self.status.is_some() {
                return None;
            }
            // Sent: fewer bytes never exceed a budget.
            let _ = self.share.set(MemoryUse::Response, 0);
            match self.respond().await {
                Ok(Some(pieces)) => self.pieces = pieces,
                Ok(None) => return Some(self.trailers(Status::ok(""))),
                Err(status) => return Some(self.trailers(status)),
            }
        }
    }

    fn trailers(&mut self, status: Status) -> Frame<Bytes> {
        let mut trailers = HeaderMap::new();
        // Fails only for invalid metadata, and the server's statuses have none. 13 is INTERNAL.
        if status.add_header(&mut trailers).is_err() {
            trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("13"));
        }
        self.status = Some(status);
        Frame::trailers(trailers)
    }

    /// Returns the response to the next request; `None` after the last request.
    async fn respond(&mut self) -> Result<Option<VecDeque<Bytes>>, Status> {
        let context = Arc::clone(&self.service.context);
        let (closing, end) = (context.server.closing.clone(), self.end.clone());
        let deadline = self.deadline.take();
        let is_first = deadline.is_some();
        let answered = tokio::select! {
            answered = self.answer(is_first, deadline) => answered,
            () = closing.cancelled() => return Ok(None),
            () = end.cancelled() => Ok(None),
        };
        let answered = match self.share.ended() {
            Some(over) => Err(over.into()),
            None => answered,
        };
        answered.map_err(|error| match error {
            CallError::Hook { code, message } => Status::new(code, message),
            error => error.status(&context.server.metrics),
        })
    }

    async fn answer(
        &mut self,
        is_first: bool,
        deadline: Option<Instant>,
    ) -> Result<Option<VecDeque<Bytes>>, CallError> {
        if self.method == Method::Fetch && !is_first {
            return Ok(None);
        }
        let request = tokio::select! {
            request = read(&mut self.requests, &mut self.decoder, &mut self.share) => request?,
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                return Err(CallError::NoRequest);
            }
        };
        let Some(request) = request else {
            return Ok(None);
        };
        // Checked for each request: authorization rules may change during the stream.
        self.service.may_ask(&self.peer)?;
        let matchers = request.node_matchers.iter().map(ClientMatcher::new);
        let matchers = matchers.collect::<Result<_, _>>();
        let selection = Selection {
            matchers: matchers.map_err(|error| Status::invalid_argument(error.to_string()))?,
            with_contents: !request.exclude_resource_contents,
        };
        let making = Arc::clone(&self.service.making);
        // The semaphore is never closed.
        let _permit = making.acquire_owned().await;
        let response = clients(&self.service.context, &selection, &mut self.share).await?;
        let length = response.len();
        let pieces = response.into_grpc().ok_or_else(|| {
            let text =
                format!("response of {length} bytes: ask for fewer clients by node_matchers");
            Status::resource_exhausted(text)
        })?;
        Ok(Some(pieces))
    }
}

/// Reads the next request; `None` at the end of the body.
async fn read(
    requests: &mut Body,
    decoder: &mut Decoder,
    share: &mut MemoryShare,
) -> Result<Option<ClientStatusRequest>, CallError> {
    loop {
        if let Some(message) = decoder.next()? {
            // Decoded, matchers take up to this many times their encoded size.
            share.set(MemoryUse::Request, decoder.held() + 16 * message.len())?;
            return Ok(Some(ClientStatusRequest::decode(message)?));
        }
        match poll_fn(|cx| Pin::new(&mut *requests).poll_frame(cx)).await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    decoder.push(&data);
                    share.set(MemoryUse::Request, decoder.held())?;
                }
            }
            Some(Err(status)) => return Err(Status::cancelled(status.to_string()).into()),
            None if decoder.has_partial_message() => return Err(CallError::Truncated),
            None => return Ok(None),
        }
    }
}

/// A response body of frames.
struct FrameBody(Pin<Box<dyn Stream<Item = Frame<Bytes>> + Send>>);

impl http_body::Body for FrameBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.as_mut().poll_next(cx).map(|frame| frame.map(Ok))
    }
}

impl fmt::Debug for StatusService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusService").finish_non_exhaustive()
    }
}
