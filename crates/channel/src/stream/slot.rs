//! One stream of a connection: its slot, and the reasons of its failure.

use std::sync::Arc;

use tonic::Status;

use super::connection::Connection;
use super::request::RequestBody;

/// Reason why a request has no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The request was not sent, because the connection takes no more requests. The body is returned.
    Unsent(RequestBody),
    /// The connection or the stream failed.
    Failed(StreamError),
}

/// Reason why a stream failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// HTTP/2: the stream was reset, the connection goes away or was closed.
    #[error("{0}")]
    Http2(#[from] h2::Error),
    /// The endpoint did not answer a keepalive ping.
    #[error("the backend did not answer a keepalive ping")]
    Silent,
    /// The application's request body failed.
    #[error("request body: {0}")]
    RequestBody(Status),
}

/// A slot for one stream of a connection, until dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot(Arc<Connection>);

impl StreamSlot {
    /// Waits for a slot. Returns `None` if the connection takes no more requests.
    pub(super) async fn take(connection: Arc<Connection>) -> Option<Self> {
        let taken = connection.slots.take().await;
        taken.then(|| Self(connection))
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }

    /// Returns the reason why the stream failed with an error of HTTP/2.
    pub(crate) fn reason(&self, error: h2::Error) -> StreamError {
        if self.0.is_silent() {
            StreamError::Silent
        } else {
            StreamError::Http2(error)
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.slots.release();
    }
}
