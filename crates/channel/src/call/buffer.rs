//! Buffered request bodies: the messages of an RPC that may be retried (gRFC A6).
//!
//! ```text
//!             ┌──────────── AttemptBody 0 ──► connection
//!  source ─► buffer ─────── AttemptBody 1 ──► another connection
//!             │
//!             └─ committed, or the limit is reached: frames are passed on and no longer kept
//! ```
//!
//! One attempt reads at a time: the first poll of a later body ends the earlier one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tonic::Status;

use crate::memory::{Reservation, RetryMemory};
use crate::stream::RequestBody;

/// A streaming request body, and the frames that attempts have read of it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct BufferedBody(Arc<Mutex<Buffer>>);

#[derive(Debug)]
struct Buffer {
    source: RequestBody,
    /// Frames that were read of the source. After the commit, only those that the attempt has not read.
    frames: VecDeque<Bytes>,
    /// Number of `frames` that the current attempt has read; zero after the commit.
    read: usize,
    /// Number of the attempt that reads.
    attempt: u32,
    has_ended: bool,
    /// Memory of the frames; `None` after the commit.
    reserved: Option<Reservation>,
}

impl BufferedBody {
    pub(crate) fn new(source: RequestBody, memory: &Arc<RetryMemory>) -> Self {
        Self(Arc::new(Mutex::new(Buffer {
            source,
            frames: VecDeque::new(),
            read: 0,
            attempt: 0,
            has_ended: false,
            reserved: Some(Reservation::new(memory)),
        })))
    }

    /// Returns the body of an attempt, numbered from 0. Once it is polled, earlier bodies fail.
    pub(crate) fn attempt(&self, attempt: u32) -> RequestBody {
        let body = AttemptBody {
            body: self.clone(),
            attempt,
        };
        RequestBody::of_stream(tonic::body::Body::new(body))
    }

    /// Ends the buffering: no other attempt follows.
    pub(crate) fn commit(&self) {
        self.lock().commit();
    }

    /// Returns whether another attempt is impossible.
    pub(crate) fn is_committed(&self) -> bool {
        self.lock().reserved.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // A body that panics leaves frames that were read in order.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    fn commit(&mut self) {
        if self.reserved.take().is_some() {
            self.frames.drain(..self.read);
            self.read = 0;
        }
    }

    fn next_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.reserved.is_none() {
            if let Some(frame) = self.frames.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(frame))));
            }
        } else if let Some(frame) = self.frames.get(self.read).cloned() {
            self.read += 1;
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        let polled = std::task::ready!(Pin::new(&mut self.source).poll_frame(cx));
        match &polled {
            None => self.has_ended = true,
            Some(Ok(frame)) => self.keep(frame),
            // The application's body failed: no attempt could send it.
            Some(Err(_)) => self.commit(),
        }
        Poll::Ready(polled)
    }

    /// Keeps a frame that the current attempt reads, or commits if it cannot be kept.
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let kept = frame.data_ref().filter(|data| {
            let reserved = self.reserved.as_mut();
            reserved.is_some_and(|reserved| reserved.grow(data.len()))
        });
        match kept {
            Some(data) => {
                self.frames.push_back(data.clone());
                self.read += 1;
            }
            // gRFC A6: an RPC that exceeds the buffer is committed.
            None => self.commit(),
        }
    }
}

/// Body of one attempt.
#[derive(Debug)]
struct AttemptBody {
    body: BufferedBody,
    attempt: u32,
}

impl Body for AttemptBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut buffer = self.body.lock();
        if self.attempt > buffer.attempt {
            buffer.attempt = self.attempt;
            buffer.read = 0;
        }
        if self.attempt < buffer.attempt {
            let replaced = Status::cancelled("a later attempt has taken the request over");
            return Poll::Ready(Some(Err(replaced)));
        }
        buffer.next_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let buffer = self.body.lock();
        let is_current = self.attempt == buffer.attempt;
        let all_read = buffer.frames.len() == buffer.read;
        is_current && all_read && (buffer.has_ended || buffer.source.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// A body of frames of one byte, each of which is ready later.
    fn stream(text: &'static str) -> RequestBody {
        let frames = text.as_bytes().chunks(1);
        let frames = frames.map(|chunk| Ok::<_, Status>(Frame::data(Bytes::from_static(chunk))));
        let stream = StreamBody::new(tokio_stream::iter(frames));
        RequestBody::of_stream(tonic::body::Body::new(stream))
    }

    async fn next(body: &mut RequestBody) -> String {
        let frame = body.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    async fn rest(body: RequestBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn later_attempt_reads_from_the_beginning() {
        let memory = RetryMemory::new(100, 100);
        let body = BufferedBody::new(stream("abc"), &memory);
        let mut first = body.attempt(0);
        assert_eq!(next(&mut first).await, "a");
        assert_eq!(next(&mut first).await, "b");
        assert_eq!(memory.used(), 2);
        let second = body.attempt(1);
        assert_eq!(rest(second).await, "abc");
        assert!(first.frame().await.unwrap().is_err());
        assert_eq!(rest(body.attempt(2)).await, "abc");
        drop((first, body));
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn committed_body_releases_memory_and_loses_no_frame() {
        let memory = RetryMemory::new(100, 100);
        let body = BufferedBody::new(stream("abcd"), &memory);
        let mut first = body.attempt(0);
        for _ in 0..3 {
            next(&mut first).await;
        }
        let mut second = body.attempt(1);
        assert_eq!(next(&mut second).await, "a");
        body.commit();
        assert!(body.is_committed());
        assert_eq!(memory.used(), 0);
        assert_eq!(rest(second).await, "bcd");
    }

    #[tokio::test]
    async fn limits_commit_the_call() {
        for (per_call, per_channel) in [(2, 100), (100, 2)] {
            let memory = RetryMemory::new(per_call, per_channel);
            let body = BufferedBody::new(stream("abcd"), &memory);
            let mut first = body.attempt(0);
            next(&mut first).await;
            next(&mut first).await;
            assert!(!body.is_committed());
            next(&mut first).await;
            assert!(body.is_committed());
            assert_eq!(memory.used(), 0);
            assert_eq!(rest(first).await, "d");
        }
    }

    #[tokio::test]
    async fn failed_body_is_never_sent_again() {
        let failing = tokio_stream::once(Err::<Frame<Bytes>, _>(Status::unavailable("gone")));
        let source = RequestBody::of_stream(tonic::body::Body::new(StreamBody::new(failing)));
        let body = BufferedBody::new(source, &RetryMemory::new(100, 100));
        let mut first = body.attempt(0);
        assert!(first.frame().await.unwrap().is_err());
        assert!(body.is_committed());
    }
}
