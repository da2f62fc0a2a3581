//! The response body of a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use oxds_core::session::Frame as GrpcFrame;
use tonic::Status;

use super::Stream;

/// A part of a message that is smaller than this is copied, together with those beside it: a copy is cheaper than one
/// more DATA frame. HTTP/2's default for the largest frame.
const LARGE: usize = 16 << 10;

/// Yields what the stream's session transmits, then the status with which it ended.
///
/// ```text
///            session transmits            session ends
///  ┌─────────┐ ─────▶ parts ─┐   ┌─────────┐          ┌───────┐
///  │ Running │ ◀─────────────┘   │ Ended   │ trailers │ Done  │
///  └─────────┘ ────────────────▶ └─────────┘ ───────▶ └───────┘
/// ```
#[derive(Debug)]
pub(crate) struct StreamBody {
    state: State,
    /// The rest of what was transmitted. What is in it is shared with other streams, and copied, if at all, when the
    /// transport has room for it: what a client leaves unread takes no more memory than a list of it.
    frames: VecDeque<GrpcFrame>,
}

#[derive(Debug)]
enum State {
    Running(Box<Stream>),
    Ended(Status),
    Done,
}

impl StreamBody {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            state: State::Running(Box::new(stream)),
            frames: VecDeque::new(),
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
            while let Some(frame) = this.frames.front_mut() {
                if let Some(piece) = frame.next_piece(LARGE) {
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                this.frames.pop_front();
            }
            match &mut this.state {
                State::Running(stream) => {
                    let frames = &mut this.frames;
                    let polled = stream.poll(cx, |frame| frames.push_back(frame));
                    match polled {
                        // What was transmitted on the way still goes out, before the trailers.
                        Poll::Ready(status) => this.state = State::Ended(status),
                        Poll::Pending if frames.is_empty() => return Poll::Pending,
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

fn trailers(status: &Status) -> http::HeaderMap {
    let mut trailers = http::HeaderMap::new();
    // It fails only for metadata that is no header value, and a status of ours has none.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("13"));
    }
    trailers
}
