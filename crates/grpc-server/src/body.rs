//! Bodies of an RPC: messages are counted, and the response ends at the deadline.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use oxds_client::metrics::MessageBytes;
use tokio::time::Sleep;
use tonic::Status;

use crate::meter::CallMeter;

/// Timer of a deadline.
pub(crate) type Timer = Pin<Box<Sleep>>;

/// Body of a request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    inner: Incoming,
    /// Counter of messages, and where the count goes; `None` without metrics.
    count: Option<(MessageBytes, Arc<AtomicU64>)>,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, received: Option<&Arc<AtomicU64>>) -> Self {
        let count = received.map(|total| (MessageBytes::default(), Arc::clone(total)));
        Self { inner, count }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let data = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref());
        if let (Some((bytes, total)), Some(data)) = (&mut self.count, data) {
            bytes.add(data);
            total.store(bytes.total(), Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Body of a response. Its end, or its drop, is the end of the RPC.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    inner: tonic::body::Body,
    /// The RPC, until its end.
    meter: Option<CallMeter>,
    /// Deadline of the RPC, until its end.
    timer: Option<Timer>,
}

impl ResponseBody {
    /// Makes the response of an RPC, at whose end the RPC ends.
    pub(crate) fn respond(
        mut meter: CallMeter,
        response: Response<tonic::body::Body>,
        timer: Option<Timer>,
    ) -> Response<Self> {
        let is_complete = meter.read_head(response.headers());
        let (meter, timer) = if is_complete {
            (None, None)
        } else {
            (Some(meter), timer)
        };
        response.map(|inner| Self {
            inner,
            meter,
            timer,
        })
    }

    /// Ends the RPC by its deadline.
    fn expire(&mut self) -> HeaderMap {
        let status = Status::deadline_exceeded("deadline exceeded during the response");
        let mut trailers = HeaderMap::new();
        // The text is a valid header value.
        let _ = status.add_header(&mut trailers);
        self.inner = tonic::body::Body::empty();
        self.end(Some(&trailers));
        trailers
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) {
        self.timer = None;
        if let (Some(mut meter), Some(trailers)) = (self.meter.take(), trailers) {
            meter.read_status(trailers);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let Some(timer) = &mut self.timer else {
                    return Poll::Pending;
                };
                ready!(timer.as_mut().poll(cx));
                return Poll::Ready(Some(Ok(Frame::trailers(self.expire()))));
            }
        };
        match &frame {
            Some(Ok(frame)) => match (frame.data_ref(), frame.trailers_ref()) {
                (Some(data), _) => {
                    if let Some(meter) = &mut self.meter {
                        meter.sent(data);
                    }
                }
                (None, trailers) => self.end(trailers),
            },
            Some(Err(_)) | None => self.end(None),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
