//! Request bodies: a unary request is taken whole before the endpoint is called.
//!
//! A front end's unary body is one frame that is ready when asked. [`RequestBody::prime`] asks once,
//! on the caller's task. If that was all, the body is just [`Bytes`]: cheap to keep for a transparent
//! retry (no copy), one virtual call less, and the end of the stream travels with the data instead of
//! in an empty frame of its own. Any other body is passed on as it comes, behind what was taken.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

type Item = Option<Result<Frame<Bytes>, tonic::Status>>;

/// What hyper sends.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// Frames taken from `rest` by `prime`, in order.
    taken: [Option<Frame<Bytes>>; 2],
    rest: tonic::body::Body,
}

impl RequestBody {
    /// Takes what is ready now. An error of the body itself ends the call.
    pub(crate) fn prime(
        mut rest: tonic::body::Body,
        cx: &mut Context<'_>,
    ) -> Result<Self, tonic::Status> {
        let mut taken = [None, None];
        for slot in &mut taken {
            match Pin::new(&mut rest).poll_frame(cx) {
                Poll::Ready(Some(frame)) => *slot = Some(frame?),
                Poll::Ready(None) => {
                    rest = tonic::body::Body::empty();
                    break;
                }
                Poll::Pending => break,
            }
        }
        Ok(Self { taken, rest })
    }

    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            taken: [None, None],
            rest: tonic::body::Body::empty(),
        }
    }

    /// A copy that shares the data, if the body is known to its end: then it can be sent again.
    pub(crate) fn replay(&self) -> Option<Self> {
        if !self.rest.is_end_stream() || self.taken[1].is_some() {
            return None;
        }
        let data = match &self.taken[0] {
            Some(frame) => Some(Frame::data(frame.data_ref()?.clone())),
            None => None,
        };
        Some(Self {
            taken: [data, None],
            rest: tonic::body::Body::empty(),
        })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Item> {
        let this = &mut *self;
        if let Some(frame) = this.taken.iter_mut().find_map(Option::take) {
            return Poll::Ready(Some(Ok(frame)));
        }
        Pin::new(&mut this.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.taken.iter().all(Option::is_none) && self.rest.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn primed(body: tonic::body::Body) -> RequestBody {
        RequestBody::prime(body, &mut Context::from_waker(Waker::noop())).unwrap()
    }

    async fn collect(body: RequestBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_unary_body_can_be_sent_again() {
        let body = primed(tonic::body::Body::new(Full::from("message")));
        let again = body.replay().unwrap();
        assert_eq!(collect(body).await, "message");
        assert!(again.replay().is_some());
        assert_eq!(collect(again).await, "message");
    }

    #[tokio::test]
    async fn a_unary_body_ends_with_its_data() {
        let mut body = primed(tonic::body::Body::new(Full::from("message")));
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn a_stream_keeps_its_order_and_is_not_replayed() {
        let frames = ["a", "b", "c"].map(|s| Ok::<_, tonic::Status>(Frame::data(Bytes::from(s))));
        let stream = StreamBody::new(tokio_stream::iter(frames));
        let body = primed(tonic::body::Body::new(stream));
        assert!(body.replay().is_none());
        assert_eq!(collect(body).await, "abc");
    }
}
