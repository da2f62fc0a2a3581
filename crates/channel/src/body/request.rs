//! Request bodies: a unary request is taken whole before an endpoint is called.
//!
//! A front end's unary body is one frame that is ready when asked. [`RequestBody::take`] asks once, on
//! the caller's task. If that was all, the body is just [`Bytes`]: cheap to keep for a transparent
//! retry (no copy), no virtual calls, and the end of the stream travels with the data instead of in an
//! empty frame of its own. Any other body is passed on as it comes, behind what was taken.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};

type Item = Option<Result<Frame<Bytes>, tonic::Status>>;

/// What hyper sends.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// All of it; empty is no frame.
    Whole(Bytes),
    /// Boxed, so that calls with the other kind do not make room for it.
    Stream(Box<Stream>),
}

/// Frames that were taken, and the rest.
#[derive(Debug)]
pub(crate) struct Stream {
    taken: [Option<Frame<Bytes>>; 2],
    rest: tonic::body::Body,
}

impl RequestBody {
    /// Takes what is ready now. An error of the body itself ends the call.
    pub(crate) fn take(mut rest: tonic::body::Body) -> Result<Self, tonic::Status> {
        // Whoever polls next, which is hyper, leaves its own waker.
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

    fn stream(taken: [Option<Frame<Bytes>>; 2], rest: tonic::body::Body) -> Self {
        Self::Stream(Box::new(Stream { taken, rest }))
    }

    /// All of its data, if that is known: then it can be sent again.
    pub(super) fn whole(&self) -> Option<&Bytes> {
        match self {
            Self::Whole(data) => Some(data),
            Self::Stream(_) => None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Item> {
        match &mut *self {
            Self::Whole(data) if data.is_empty() => Poll::Ready(None),
            Self::Whole(data) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data))))),
            Self::Stream(stream) => match stream.taken.iter_mut().find_map(Option::take) {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => Pin::new(&mut stream.rest).poll_frame(cx),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(data) => data.is_empty(),
            Self::Stream(stream) => {
                stream.taken.iter().all(Option::is_none) && stream.rest.is_end_stream()
            }
        }
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
    async fn a_unary_body_is_known_as_a_whole() {
        let body = taken(Full::from("message"));
        assert_eq!(body.whole().unwrap(), "message");
        assert_eq!(collect(body).await, "message");
    }

    #[tokio::test]
    async fn a_unary_body_ends_with_its_data() {
        let mut body = taken(Full::from("message"));
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
        assert!(body.is_end_stream());
        assert!(taken(Full::from("")).is_end_stream());
    }

    #[tokio::test]
    async fn a_stream_keeps_its_order_and_is_not_replayed() {
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
    async fn a_body_that_begins_later_is_a_stream() {
        let (say, said) = tokio::sync::mpsc::channel(1);
        let stream = StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(said));
        let body = RequestBody::take(tonic::body::Body::new(stream)).unwrap();
        let collected = tokio::spawn(collect(body));
        say.send(Ok::<_, tonic::Status>(Frame::data(Bytes::from("late"))))
            .await
            .unwrap();
        drop(say);
        assert_eq!(collected.await.unwrap(), "late");
    }

    #[test]
    fn an_error_of_the_body_ends_the_call() {
        let failing = tokio_stream::once(Err::<Frame<Bytes>, _>(tonic::Status::data_loss("gone")));
        let body = RequestBody::take(tonic::body::Body::new(StreamBody::new(failing)));
        assert_eq!(body.unwrap_err().code(), tonic::Code::DataLoss);
    }
}
