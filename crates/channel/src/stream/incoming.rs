//! The body of a response, as HTTP/2 delivers it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame};

use super::pump::Pump;
use super::slot::{StreamError, StreamSlot};

type FrameResult = Option<Result<Frame<Bytes>, StreamError>>;

/// Bytes whose window may be held back until the next poll, so that a small response gives its window back only once,
/// with its stream. 1 KiB: ten thousand streams that are not polled hold less than the window of their connection.
const MAX_UNRELEASED: usize = 1 << 10;

/// Body of a response. Dropping it before its end cancels the stream (`RST_STREAM`), with the rest of the request.
pub(crate) struct Incoming {
    /// The rest of the request. First, so that it is stopped before the stream is released.
    pump: Option<Pump>,
    stream: RecvStream,
    /// Bytes that were read, and whose window was not given back yet.
    unreleased: usize,
    data_ended: bool,
    /// Whether the response ended with its head.
    is_empty: bool,
    /// Last, so that the slot is free after the stream is.
    slot: StreamSlot,
}

impl Incoming {
    pub(crate) fn new(stream: RecvStream, pump: Option<Pump>, slot: StreamSlot) -> Self {
        Self {
            is_empty: stream.is_end_stream(),
            pump,
            stream,
            unreleased: 0,
            data_ended: false,
            slot,
        }
    }

    /// Gives the window of read data back to the endpoint.
    fn release(&mut self) {
        let read = std::mem::take(&mut self.unreleased);
        // An error means that the stream has ended, and needs no window.
        let _ = self.stream.flow_control().release_capacity(read);
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
            match self.stream.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.unreleased += data.len();
                    if self.unreleased > MAX_UNRELEASED {
                        self.release();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(self.failed(error)),
                // At the end, the window goes back with the stream.
                Poll::Ready(None) => self.data_ended = true,
                Poll::Pending => {
                    if self.unreleased > 0 {
                        self.release();
                    }
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => self.failed(error),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}
