//! Request bodies: a unary request is taken whole before an endpoint is called.
//!
//! The unary body of a front end is one frame that is ready at the first poll. [`RequestBody::take`]
//! polls it on the caller's task. If that is the whole body, it becomes plain [`Bytes`]: cheap to keep
//! for a transparent retry (no copy), no virtual calls, and the end of the stream is sent with the data
//! instead of in an empty frame. Any other body is sent by a [`Pump`](super::Pump) as it comes, after the
//! frames already taken.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};

type FrameResult = Option<Result<Frame<Bytes>, tonic::Status>>;

/// The body of a request.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// The whole body; no frame if it is empty.
    Whole(Bytes),
    /// A streaming body. Boxed, so that it does not enlarge unary calls.
    Stream(Box<StreamedBody>),
}

/// Frames already taken, and the rest of the body.
#[derive(Debug)]
pub(crate) struct StreamedBody {
    taken: [Option<Frame<Bytes>>; 2],
    rest: tonic::body::Body,
}

impl RequestBody {
    /// Takes the frames that are ready now, at most two. An error of the body ends the call.
    pub(crate) fn take(mut rest: tonic::body::Body) -> Result<Self, tonic::Status> {
        // The pump polls next, with a waker.
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = || match Pin::new(&mut rest).poll_frame(&mut cx) {
            Poll::Ready(frame) => frame.transpose().map(Poll::Ready),
            Poll::Pending => Ok(Poll::Pending),
        };
        let first = match next()? {
            Poll::Ready(None) => return Ok(Self::Whole(Bytes::new())),
            Poll::Ready(first) => first,
            Poll::Pending => return Ok(Self::stream([None, None], rest)),
        };
        let second = match next()? {
            Poll::Ready(second) => second,
            Poll::Pending => return Ok(Self::stream([first, None], rest)),
        };
        Ok(match (first.map(Frame::into_data), second) {
            (Some(Ok(data)), None) => Self::Whole(data),
            (first, second) => {
                let first = first.map(|frame| frame.map_or_else(|frame| frame, Frame::data));
                Self::stream([first, second], rest)
            }
        })
    }

    /// Returns a body without data.
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// Returns a body that is sent as it comes, without taking a frame first.
    pub(crate) fn of_stream(rest: tonic::body::Body) -> Self {
        Self::stream([None, None], rest)
    }

    fn stream(taken: [Option<Frame<Bytes>>; 2], rest: tonic::body::Body) -> Self {
        Self::Stream(Box::new(StreamedBody { taken, rest }))
    }

    /// Returns all data of a unary body, which can be sent again; `None` for a stream.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match self {
            Self::Whole(data) => Some(data),
            Self::Stream(_) => None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FrameResult> {
        match &mut *self {
            Self::Whole(data) if data.is_empty() => Poll::Ready(None),
            Self::Whole(data) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data))))),
            Self::Stream(stream) => Pin::new(&mut **stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(data) => data.is_empty(),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FrameResult> {
        match self.taken.iter_mut().find_map(Option::take) {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.taken.iter().all(Option::is_none) && self.rest.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn taken(body: Full<Bytes>) -> RequestBody {
        RequestBody::take(tonic::body::Body::new(body)).unwrap()
    }

    async fn collect(body: RequestBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn unary_body_is_taken_whole() {
        let body = taken(Full::from("message"));
        assert_eq!(body.whole().unwrap(), "message");
        assert_eq!(collect(body).await, "message");
    }

    #[tokio::test]
    async fn unary_body_ends_with_its_data() {
        let mut body = taken(Full::from("message"));
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
        assert!(body.is_end_stream());
        assert!(taken(Full::from("")).is_end_stream());
    }

    #[tokio::test]
    async fn streamed_body_keeps_order_and_cannot_be_replayed() {
        for n in 2..5 {
            let frames =
                (0..n).map(|i| Ok::<_, tonic::Status>(Frame::data(Bytes::from(i.to_string()))));
            let stream = StreamBody::new(tokio_stream::iter(frames));
            let body = RequestBody::take(tonic::body::Body::new(stream)).unwrap();
            assert!(body.whole().is_none());
            assert_eq!(collect(body).await, "01234"[..n]);
        }
    }

    #[tokio::test]
    async fn body_without_ready_frame_is_a_stream() {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let stream = StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(receiver));
        let body = RequestBody::take(tonic::body::Body::new(stream)).unwrap();
        let collected = tokio::spawn(collect(body));
        let frame = Ok::<_, tonic::Status>(Frame::data(Bytes::from("late")));
        sender.send(frame).await.unwrap();
        drop(sender);
        assert_eq!(collected.await.unwrap(), "late");
    }

    #[test]
    fn body_error_ends_the_call() {
        let failing = tokio_stream::once(Err::<Frame<Bytes>, _>(tonic::Status::data_loss("gone")));
        let body = RequestBody::take(tonic::body::Body::new(StreamBody::new(failing)));
        assert_eq!(body.unwrap_err().code(), tonic::Code::DataLoss);
    }
}
