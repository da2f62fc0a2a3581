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

/// Parts of a message below this size, in bytes, are copied together: a copy costs less than one more DATA frame. It is
/// the default of HTTP/2 for the largest frame (`SETTINGS_MAX_FRAME_SIZE`).
const LARGE: usize = 16 << 10;

/// Response body: the messages of the session, then its status as trailers.
///
/// ```text
///            session transmits            session ends
///  ┌─────────┐ ─────▶ parts ─┐   ┌─────────┐          ┌───────┐
///  │ Running │ ◀─────────────┘   │ Ended   │ trailers │ Done  │
///  └─────────┘ ────────────────▶ └─────────┘ ───────▶ └───────┘
/// ```
#[derive(Debug)]
pub(crate) struct StreamBody {
    state: BodyState,
    /// Messages that the transport has not taken yet. Their bytes are shared with other streams, and copied, if at all,
    /// when the transport has room: unread responses cost a client only this list.
    frames: VecDeque<GrpcFrame>,
}

#[derive(Debug)]
enum BodyState {
    Running(Box<Stream>),
    Ended(Status),
    Done,
}

impl StreamBody {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            state: BodyState::Running(Box::new(stream)),
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
                BodyState::Running(stream) => {
                    let frames = &mut this.frames;
                    let polled = stream.poll(cx, |frame| frames.push_back(frame));
                    match polled {
                        // Responses that the last poll transmitted go out before the trailers.
                        Poll::Ready(status) => this.state = BodyState::Ended(status),
                        Poll::Pending if frames.is_empty() => return Poll::Pending,
                        Poll::Pending => {}
                    }
                }
                BodyState::Ended(status) => {
                    let trailers = trailers(status);
                    this.state = BodyState::Done;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                BodyState::Done => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }
}

fn trailers(status: &Status) -> http::HeaderMap {
    let mut trailers = http::HeaderMap::new();
    // Fails only for invalid metadata, and the server's statuses have none. 13 is INTERNAL.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("13"));
    }
    trailers
}
