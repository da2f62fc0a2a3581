//! Response bodies: an RPC lasts until its body ends or is dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::attempt::{CallRecorder, status};
use crate::stream::Incoming;

type FrameResult = Option<Result<Frame<Bytes>, tonic::Status>>;

/// Body of an endpoint's response. Empty if the status came with the headers.
///
/// After the deadline a frame fails with `DEADLINE_EXCEEDED`; if the connection fails, with the status
/// that gRPC maps the HTTP/2 error to. The first error ends the body.
///
/// # Cancel safety
///
/// Dropping the body before its end cancels the RPC (`RST_STREAM`).
#[derive(Default)]
pub struct ResponseBody {
    open: Option<OpenBody>,
}

/// State of an unfinished RPC; dropped as a whole at its end.
struct OpenBody {
    incoming: Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
    recorder: CallRecorder,
}

impl ResponseBody {
    pub(crate) fn new(
        incoming: Incoming,
        recorder: CallRecorder,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        // gRPC over HTTP/2, "Trailers-Only": the RPC ended with its headers.
        let open = (!incoming.is_end_stream()).then_some(OpenBody {
            incoming,
            deadline,
            recorder,
        });
        Self { open }
    }
}

impl OpenBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<FrameResult> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            let frame = frame.map(|frame| frame.map_err(|error| status::of_transport(&error)));
            return Poll::Ready(frame);
        }
        if let Some(sleep) = &mut self.deadline {
            std::task::ready!(sleep.as_mut().poll(cx));
            let late = status::deadline_exceeded("waiting for the rest of the response");
            return Poll::Ready(Some(Err(late)));
        }
        Poll::Pending
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FrameResult> {
        let Some(open) = &mut self.open else {
            return Poll::Ready(None);
        };
        let polled = open.poll_frame(cx);
        let ended = match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    open.recorder.receive(data);
                }
                let trailers = frame.trailers_ref();
                if trailers.is_some() {
                    open.recorder.end(trailers);
                }
                trailers.is_some()
            }
            Poll::Ready(None) => {
                open.recorder.end(None);
                true
            }
            Poll::Ready(Some(Err(status))) => {
                open.recorder.fail(status.code());
                true
            }
            Poll::Pending => false,
        };
        if ended {
            self.open = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.open
            .as_ref()
            .is_none_or(|open| open.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.open
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), |open| open.incoming.size_hint())
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("open", &self.open.is_some())
            .finish()
    }
}
