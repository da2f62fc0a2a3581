//! Request bodies of gRPC whose unfinished message counts against the budgets of their connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Frame;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::budget::{MemoryShare, MemoryUse, OverBudget};
use super::peer::Peer;
use super::shared::Shared;
use crate::metrics::Limit;

/// Middleware for services that read their requests with tonic, which buffers a message until it is complete.
pub(crate) async fn meter(
    State(server): State<std::sync::Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let end = CancellationToken::new();
    let metered = |body| MeteredBody {
        body,
        share: peer.budgets.share(end.clone()),
        ended: Box::pin(end.cancelled_owned()),
        framing: Framing::default(),
        server,
    };
    next.run(request.map(|body| Body::new(metered(body)))).await
}

struct MeteredBody {
    body: Body,
    share: MemoryShare,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    framing: Framing,
    server: std::sync::Arc<Shared>,
}

impl MeteredBody {
    fn error(&self, over: OverBudget) -> axum::Error {
        self.server.metrics.over_limit(Limit::Memory);
        axum::Error::new(Status::resource_exhausted(over.to_string()))
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(cx).is_ready()
            && let Some(over) = self.share.ended()
        {
            return Poll::Ready(Some(Err(self.error(over))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(data)) = frame
            .as_ref()
            .map(|frame| frame.as_ref().map(Frame::data_ref))
            && let Some(data) = data
        {
            let unfinished = self.framing.push(data);
            // The buffer of a decoder grows to twice its content.
            if let Err(over) = self.share.set(MemoryUse::Request, 2 * unfinished) {
                return Poll::Ready(Some(Err(self.error(over))));
            }
        }
        Poll::Ready(frame)
    }
}

/// Position in a sequence of gRPC messages: a prefix of a flag and four bytes of length, then the message.
#[derive(Debug, Default)]
struct Framing {
    /// Bytes of the prefix that have arrived, and their length so far.
    prefix: usize,
    length: usize,
    /// Bytes of the unfinished message that have arrived.
    arrived: usize,
}

impl Framing {
    /// Follows the next bytes, and returns how many bytes of an unfinished message have arrived.
    fn push(&mut self, mut bytes: &[u8]) -> usize {
        const PREFIX: usize = 5;
        while let Some((first, rest)) = bytes.split_first() {
            if self.prefix < PREFIX {
                if self.prefix > 0 {
                    self.length = self.length << 8 | usize::from(*first);
                }
                self.prefix += 1;
                bytes = rest;
            } else {
                let taken = bytes.len().min(self.length - self.arrived);
                self.arrived += taken;
                bytes = &bytes[taken..];
            }
            if self.prefix == PREFIX && self.arrived == self.length {
                *self = Self::default();
            }
        }
        self.prefix + self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s60_unfinished_messages_are_followed_at_any_chunk_size() {
        let bytes = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\x01\0";
        for size in 1..=bytes.len() {
            let mut framing = Framing::default();
            let unfinished: Vec<usize> = bytes
                .chunks(size)
                .map(|chunk| framing.push(chunk))
                .collect();
            // The last message has 256 bytes. None has arrived.
            assert_eq!(*unfinished.last().unwrap(), 5, "chunks of {size}");
            assert!(size != 1 || unfinished[6..8] == [7, 0], "{unfinished:?}");
        }
        let mut framing = Framing::default();
        assert_eq!(framing.push(b"\0\0\0\x01\0"), 5);
        assert_eq!(framing.push(&[0; 100]), 105);
        assert_eq!(framing.push(&[0; 157]), 1);
    }
}
