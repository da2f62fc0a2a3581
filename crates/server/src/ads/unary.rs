//! The `Fetch*` methods: one request in, one response out.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body as _, Frame};
use oxds_core::session::Scope;
use oxds_types::discovery::DiscoveryRequest;
use prost::Message as _;
use tonic::Status;
use tonic::body::Body;

use super::decoder::Decoder;
use super::service::Offer;
use super::stream::Context;
use crate::clients::Via;
use crate::fetch::{Fetched, Question, fetch};

/// Answers a call. A client that has the current version is answered when that changes, or, as an empty answer would
/// mean that there is nothing, with the same again at the end of its patience.
pub(super) async fn answer(
    context: &Context,
    offer: &Offer,
    requests: Body,
) -> Result<Body, Status> {
    let Scope::Single(kind) = &offer.scope else {
        return Err(Status::unimplemented("no such method"));
    };
    let request = read(context, requests).await?;
    let mut question = Question::new(Via::Fetch, kind, offer.api, request, &context.config)
        .map_err(|refused| Status::invalid_argument(refused.to_string()))?;
    let hold = context.limits.poll_hold;
    let mut fetched = fetch(context, &question, hold).await;
    if fetched == Fetched::NotModified {
        question.anyway();
        fetched = fetch(context, &question, hold).await;
    }
    match fetched {
        Fetched::Response(response) => Ok(Body::new(Single::new(&response))),
        Fetched::NotModified | Fetched::NotLoaded => {
            Err(Status::unavailable("nothing is loaded yet"))
        }
    }
}

async fn read(context: &Context, mut requests: Body) -> Result<DiscoveryRequest, Status> {
    let mut decoder = Decoder::new(context.limits.message_bytes);
    loop {
        if let Some(message) = decoder.next()? {
            context.metrics.request();
            return DiscoveryRequest::decode(message).map_err(|error| {
                Status::invalid_argument(format!("no discovery request: {error}"))
            });
        }
        let frame = std::future::poll_fn(|cx| Pin::new(&mut requests).poll_frame(cx)).await;
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    decoder.push(&data);
                }
            }
            Some(Err(status)) => return Err(Status::cancelled(status.to_string())),
            None => return Err(Status::invalid_argument("the request is incomplete")),
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
