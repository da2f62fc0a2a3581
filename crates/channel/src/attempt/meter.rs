//! One attempt of an RPC: its start, its endpoint, and the bytes of its messages.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use oxds_client::metrics::MessageBytes;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::picked::Picked;
use crate::metrics::AttemptValues;
use crate::stream::RequestBody;

/// State of an attempt.
#[derive(Debug)]
pub(super) struct AttemptMeter {
    started: Instant,
    picked: Option<Arc<Picked>>,
    sent: Arc<AtomicU64>,
    received: MessageBytes,
}

impl AttemptMeter {
    pub(super) fn start(now: Instant) -> Self {
        Self {
            started: now,
            picked: None,
            sent: Arc::default(),
            received: MessageBytes::default(),
        }
    }

    pub(super) fn set_picked(&mut self, picked: &Arc<Picked>) {
        self.picked = Some(Arc::clone(picked));
    }

    /// Counts the messages of the request: those of a unary one at once, and those of a stream as they are sent.
    pub(super) fn send(&mut self, body: &mut RequestBody) {
        if let Some(data) = body.whole() {
            let mut bytes = MessageBytes::default();
            bytes.add(data);
            self.sent.store(bytes.total(), Ordering::Relaxed);
            return;
        }
        let counted = CountedBody {
            inner: std::mem::replace(body, RequestBody::empty()),
            bytes: MessageBytes::default(),
            sent: Arc::clone(&self.sent),
        };
        *body = RequestBody::of_stream(tonic::body::Body::new(counted));
    }

    pub(super) fn receive(&mut self, data: &Bytes) {
        self.received.add(data);
    }

    /// Returns the measurements of an attempt that ends. `cluster` is that of its RPC, for an attempt without an
    /// endpoint.
    pub(super) fn end<'a>(
        &'a self,
        now: Instant,
        status: Code,
        cluster: Option<&'a str>,
    ) -> AttemptValues<'a> {
        let picked = self.picked.as_deref();
        AttemptValues {
            status,
            cluster: picked
                .map(|picked| &*picked.cluster)
                .or(cluster)
                .unwrap_or_default(),
            locality: picked.map(|picked| &*picked.locality).unwrap_or_default(),
            duration: now.saturating_duration_since(self.started),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.total(),
        }
    }
}

/// A streaming request body whose messages are counted.
#[derive(Debug)]
struct CountedBody {
    inner: RequestBody,
    bytes: MessageBytes,
    sent: Arc<AtomicU64>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.bytes.add(data);
            self.sent.store(self.bytes.total(), Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
