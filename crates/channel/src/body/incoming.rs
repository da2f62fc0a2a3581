//! The body of a response, as HTTP/2 delivers it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame};

use super::pump::Pump;
use crate::subchannel::{StreamError, StreamSlot};

type FrameResult = Option<Result<Frame<Bytes>, StreamError>>;

/// Body of a response. Dropping it before its end cancels the stream (`RST_STREAM`), with the rest of the request.
pub(crate) struct Incoming {
    /// The rest of the request. First, so that it is stopped before the stream is released.
    pump: Option<Pump>,
    stream: RecvStream,
    data_ended: bool,
    /// Last, so that the slot is free after the stream is.
    slot: StreamSlot,
}

impl Incoming {
    pub(crate) fn new(stream: RecvStream, pump: Option<Pump>, slot: StreamSlot) -> Self {
        Self {
            pump,
            stream,
            data_ended: false,
            slot,
        }
    }

    fn failed(&self, error: h2::Error) -> FrameResult {
        if let Some(status) = self.pump.as_ref().and_then(Pump::failure) {
            return Some(Err(StreamError::RequestBody(status)));
        }
        match error.reason() {
            // RFC 9113 §8.1: a server that needs no more of the request ends the stream so after its response.
            Some(Reason::NO_ERROR) if error.is_reset() => None,
            _ => Some(Err(self.slot.reason(error))),
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FrameResult> {
        if !self.data_ended {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // An error means that the stream has ended, and needs no window.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(self.failed(error)),
                None => self.data_ended = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => self.failed(error),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}
