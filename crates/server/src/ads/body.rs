//! The response body of a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use oxds_core::session::Frame as GrpcFrame;
use tonic::Status;

use super::stream::Stream;

/// Messages up to this size go out in one piece: a copy is cheaper than two more DATA frames. HTTP/2's default for
/// the largest frame.
const COALESCE: usize = 16 << 10;

/// Yields what the stream's session transmits, then the status with which it ended.
///
/// ```text
///            session transmits            session ends
///  ┌─────────┐ ─────▶ parts ─┐   ┌─────────┐          ┌───────┐
///  │ Running │ ◀─────────────┘   │ Ended   │ trailers │ Done  │
///  └─────────┘ ────────────────▶ └─────────┘ ───────▶ └───────┘
/// ```
#[derive(Debug)]
pub(super) struct StreamBody {
    state: State,
    /// The rest of what was transmitted. Large bodies in it are shared with other streams.
    parts: VecDeque<Bytes>,
}

#[derive(Debug)]
enum State {
    Running(Box<Stream>),
    Ended(Status),
    Done,
}

impl StreamBody {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            state: State::Running(Box::new(stream)),
            parts: VecDeque::new(),
        }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            if let Some(part) = this.parts.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            match &mut this.state {
                State::Running(stream) => {
                    let parts = &mut this.parts;
                    let polled = stream.poll(cx, |frame| push(parts, frame));
                    match polled {
                        // What was transmitted on the way still goes out, before the trailers.
                        Poll::Ready(status) => this.state = State::Ended(status),
                        Poll::Pending if parts.is_empty() => return Poll::Pending,
                        Poll::Pending => {}
                    }
                }
                State::Ended(status) => {
                    let trailers = trailers(status);
                    this.state = State::Done;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done)
    }
}

fn push(parts: &mut VecDeque<Bytes>, mut frame: GrpcFrame) {
    if frame.remaining() <= COALESCE {
        parts.push_back(frame.copy_to_bytes(frame.remaining()));
    } else {
        parts.extend(frame.parts().cloned());
    }
}

fn trailers(status: &Status) -> http::HeaderMap {
    let mut trailers = http::HeaderMap::new();
    // It fails only for metadata that is no header value, and a status of ours has none.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("13"));
    }
    trailers
}
