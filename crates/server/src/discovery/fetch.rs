//! The `Fetch*` methods: one request in, one response out.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as _, Frame};
use oxds_core::session::Scope;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse};
use prost::Message as _;
use tonic::Status;
use tonic::body::Body;

use super::clients::Via;
use super::context::Context;
use super::decoder::Decoder;
use super::error::CallError;
use super::poll::{Fetched, Question, fetch};
use super::service::Offer;
use crate::hooks::{Call, Observed};
use crate::server::Peer;

/// Answers a call. A client that has the current version is answered when that changes, or, as an empty answer would
/// mean that there is nothing, with the same again at the end of its patience.
pub(super) async fn answer(
    context: &Context,
    offer: &Offer,
    peer: &Peer,
    call: impl FnOnce() -> Call,
    requests: Body,
) -> Result<Body, Status> {
    let Scope::Single(resource_type) = &offer.scope else {
        return Err(Status::unimplemented("no such method"));
    };
    let refused = |refused| CallError::from(refused).status(&context.server.metrics);
    let observed = Observed::open(context.server.hooks.as_deref(), call).await;
    let mut observed = observed.map_err(refused)?;
    let answered = async {
        let patience = context.server.limits.first_request;
        let request = tokio::time::timeout(patience, read(context, requests))
            .await
            .map_err(|_| CallError::NoRequest)??;
        let served = (resource_type, offer.api);
        let request = observed.ask(served, request).await?;
        let (question, grant) = context.question(peer, Via::Fetch, served, request)?;
        let response = respond(context, question.clone()).await?;
        context.confirm(peer, &question, &grant)?;
        observed.fetched(resource_type, &response)?;
        Ok(response)
    };
    let answered = answered.await.map_err(|stop: Stop| stop.status(context));
    observed.close(answered.as_ref().err().unwrap_or(&Status::ok("")));
    answered.map(|response| Body::new(Single::new(&response)))
}

async fn respond(context: &Context, mut question: Question) -> Result<DiscoveryResponse, Stop> {
    let hold = context.server.limits.poll_hold;
    let mut fetched = fetch(context, &question, hold).await;
    if fetched == Fetched::NotModified {
        question.anyway();
        fetched = fetch(context, &question, hold).await;
    }
    match fetched {
        Fetched::Response(response) => Ok(response),
        Fetched::NotModified | Fetched::NotLoaded => {
            let status = Status::unavailable("nothing is loaded yet");
            Err(Stop::Broken(status))
        }
    }
}

/// Why there is no request to answer.
enum Stop {
    Refused(CallError),
    /// Nobody is to blame but the transport, or the time.
    Broken(Status),
}

impl<E: Into<CallError>> From<E> for Stop {
    fn from(refusal: E) -> Self {
        Self::Refused(refusal.into())
    }
}

impl Stop {
    fn status(self, context: &Context) -> Status {
        match self {
            Self::Refused(refusal) => refusal.status(&context.server.metrics),
            Self::Broken(status) => status,
        }
    }
}

async fn read(context: &Context, mut requests: Body) -> Result<DiscoveryRequest, Stop> {
    let mut decoder = Decoder::new(context.server.limits.message_bytes);
    loop {
        if let Some(message) = decoder.next()? {
            context.server.metrics.request();
            return Ok(DiscoveryRequest::decode(message)?);
        }
        let frame = std::future::poll_fn(|cx| Pin::new(&mut requests).poll_frame(cx)).await;
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    decoder.push(&data);
                }
            }
            Some(Err(status)) => {
                return Err(Stop::Broken(Status::cancelled(status.to_string())));
            }
            None => return Err(CallError::Truncated.into()),
        }
    }
}

/// A body of one message, and the status that all went well.
struct Single {
    message: Option<Bytes>,
    trailers: Option<http::HeaderMap>,
}

impl Single {
    fn new(message: &impl prost::Message) -> Self {
        let len = message.encoded_len();
        let mut bytes = BytesMut::with_capacity(5 + len);
        bytes.put_u8(0);
        // A message of 4 GiB does not fit memory limits long before it fails to fit this.
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

impl http_body::Body for Single {
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
