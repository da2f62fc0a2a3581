//! Streams of messages in both directions.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tonic::{Status, Streaming};

use super::classify;
use super::error::EtcdError;

/// A stream in both directions. The call ends when it is dropped.
pub(super) struct OpenStream<Q, R> {
    pub(super) member: Arc<str>,
    pub(super) requests: UnboundedSender<Q>,
    pub(super) responses: Streaming<R>,
}

impl<Q, R> OpenStream<Q, R> {
    /// Sends a request. An error of the stream is reported by [`next`](Self::next).
    pub(super) fn send(&self, request: Q) {
        let _ = self.requests.send(request);
    }

    /// Waits for the next response.
    ///
    /// # Errors
    /// The stream has ended, for any reason.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> Result<R, EtcdError> {
        let received = self.receive().await;
        received.map_err(|status| EtcdError::new(&self.member, classify::call(&status)))
    }

    /// As [`next`](Self::next), with the status of the call.
    pub(super) async fn receive(&mut self) -> Result<R, Status> {
        let message = self.responses.message().await?;
        // etcd ends a stream without a status only when it stops.
        message.ok_or_else(|| Status::unavailable("the member ended the stream"))
    }
}
