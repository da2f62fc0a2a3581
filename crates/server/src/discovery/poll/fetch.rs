//! The `Fetch*` methods: one request, one response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as _, Frame};
use oxds_core::session::Scope;
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse};
use prost::Message as _;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;

use super::request::FetchRequest;
use super::wait::{Polled, current, poll};
use crate::calls::{CallError, Decoder, MemoryShare, MemoryUse, Peer, cost};
use crate::clients::PollKind;
use crate::context::Context;
use crate::discovery::service_scope::ServiceScope;
use crate::hooks::{Call, CallObserver};

/// Answers a call.
///
/// A client that has the current version gets the response after a change. Without a change in time it gets the state
/// again that it has accepted, since an empty response would mean that all resources were removed. What it has rejected
/// is not sent again (S-80).
pub(crate) async fn answer(
    context: &Context,
    service_scope: &ServiceScope,
    peer: &Peer,
    call: impl FnOnce() -> Call,
    requests: Body,
) -> Result<Body, Status> {
    let Scope::Single(resource_type) = &service_scope.scope else {
        return Err(Status::unimplemented("unknown method"));
    };
    let server = &context.server;
    let observer = CallObserver::open(server.hooks.as_deref(), call).await;
    let mut observer =
        observer.map_err(|denied| CallError::from(denied).status(&server.metrics))?;
    let answered = async {
        let timeout = server.limits.timers.first_request;
        let mut share = peer.budgets.share(CancellationToken::new());
        let message = tokio::time::timeout(timeout, read(context, &mut share, requests))
            .await
            .map_err(|_| CallError::NoRequest)??;
        if let Some(node) = &message.node {
            share.set(MemoryUse::Node, cost::of_node(node, &server.limits)?)?;
        }
        let served = (resource_type, service_scope.api);
        let message = observer.single_request(served, message).await?;
        let (request, grant) = context.fetch_request(peer, PollKind::Fetch, served, message)?;
        let response = respond(context, &request).await?;
        context.confirm(peer, &request, &grant)?;
        observer.single_response(resource_type, &response)?;
        Ok(response)
    };
    let answered = answered.await.map_err(|end: End| end.status(context));
    observer.close(answered.as_ref().err().unwrap_or(&Status::ok("")));
    answered.map(|response| Body::new(SingleMessage::new(&response)))
}

async fn respond(context: &Context, request: &FetchRequest) -> Result<DiscoveryResponse, End> {
    let hold = context.server.limits.timers.poll_hold;
    let unavailable = |text: &str| End::Status(Status::unavailable(text));
    match poll(context, request, hold).await? {
        Polled::Response(response) => Ok(response),
        Polled::NotModified(open) => current(context, request, &open)
            .ok_or_else(|| unavailable("nothing to send: the client rejected the current resources, and accepted none before")),
        Polled::NotLoaded => Err(unavailable("no configuration loaded yet")),
    }
}

/// Why a call ends without a response.
enum End {
    /// The client is to blame; counted as such.
    Error(CallError),
    /// The transport failed, or nothing is loaded.
    Status(Status),
}

impl<E: Into<CallError>> From<E> for End {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl End {
    fn status(self, context: &Context) -> Status {
        match self {
            Self::Error(error) => error.status(&context.server.metrics),
            Self::Status(status) => status,
        }
    }
}

async fn read(
    context: &Context,
    share: &mut MemoryShare,
    mut requests: Body,
) -> Result<DiscoveryRequest, End> {
    let mut decoder = Decoder::new(context.server.limits.message_bytes);
    loop {
        if let Some(message) = decoder.next()? {
            context.server.metrics.request();
            let limits = &context.server.limits;
            let decoded = cost::of_request(&message, Protocol::Sotw, limits)?;
            share.set(MemoryUse::Request, decoded)?;
            return Ok(DiscoveryRequest::decode(message)?);
        }
        let frame = std::future::poll_fn(|cx| Pin::new(&mut requests).poll_frame(cx)).await;
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    decoder.push(&data);
                    share.set(MemoryUse::Request, decoder.held())?;
                }
            }
            Some(Err(status)) => {
                return Err(End::Status(Status::cancelled(status.to_string())));
            }
            None => return Err(CallError::Truncated.into()),
        }
    }
}

/// Response body of one gRPC message and the status OK.
struct SingleMessage {
    message: Option<Bytes>,
    trailers: Option<http::HeaderMap>,
}

impl SingleMessage {
    fn new(message: &impl prost::Message) -> Self {
        let len = message.encoded_len();
        let mut bytes = BytesMut::with_capacity(5 + len);
        bytes.put_u8(0);
        // The length has 32 bits. A message of 4 GiB reaches the limits of memory before that.
        bytes.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
        message.encode_raw(&mut bytes);
        let mut trailers = http::HeaderMap::new();
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("0"));
        Self {
            message: Some(bytes.freeze()),
            trailers: Some(trailers),
        }
    }
}

impl http_body::Body for SingleMessage {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let message = self.message.take().map(Frame::data);
        let frame = message.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}
