//! Sender of requests on a connection, and the driver that closes it.
//!
//! hyper's sender and its connection share a queue. A request that is put there at the moment when the connection drops
//! its end is lost until the queue itself is dropped, with the last sender: the call would wait without end, because
//! its own clone keeps the queue. So the only sender lies in a slot that the [`Driver`] empties at its end, and a call
//! holds none while it waits. The queue is dropped then, and hyper returns the request, which never left the process.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arc_swap::ArcSwapOption;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::inbound::Inbound;
use super::read_first::ReadFirst;
use crate::socket::Socket;

type HyperConnection<B> = http2::Connection<TokioIo<Inbound<ReadFirst<Socket>>>, B, TokioExecutor>;

type Slot<B> = Arc<ArcSwapOption<http2::SendRequest<B>>>;

/// Request body that hyper can send.
pub trait RequestBody:
    Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// Handle that sends requests on a connection. Cheap to clone.
///
/// The socket closes after the last clone is dropped and all requests have ended.
pub struct RequestSender<B>(Slot<B>);

/// Reason why a request has no response.
#[derive(Debug)]
pub enum SendError<B> {
    /// The connection was closed before the request was written, so the request is returned.
    Unsent(Box<Request<B>>),
    /// The connection or the stream failed.
    Failed(hyper::Error),
}

impl<B: RequestBody> RequestSender<B> {
    /// Sends a request, and waits for the head of the response.
    ///
    /// # Errors
    /// [`SendError`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, SendError<B>> {
        let sent = match &*self.0.load() {
            // The clone is dropped before the wait: see the module's documentation.
            Some(sender) => http2::SendRequest::clone(sender).try_send_request(request),
            None => return Err(SendError::Unsent(Box::new(request))),
        };
        sent.await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => SendError::Failed(error.into_error()),
        })
    }
}

impl<B> RequestSender<B> {
    /// Returns whether the connection takes no more requests.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let sender = self.0.load();
        sender.as_ref().is_none_or(|sender| sender.is_closed())
    }
}

impl<B> Clone for RequestSender<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for RequestSender<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestSender").finish_non_exhaustive()
    }
}

/// Future that drives a connection; it ends when the connection accepts no more requests.
///
/// Requests in progress continue after that: hyper keeps the socket in a task of its own until the last one has ended.
pub struct Driver<B: RequestBody> {
    /// `None` after its end.
    connection: Option<HyperConnection<B>>,
    /// Weak, because the connection closes when the last sender is dropped.
    slot: std::sync::Weak<ArcSwapOption<http2::SendRequest<B>>>,
}

impl<B: RequestBody> Driver<B> {
    /// Returns the sender and the driver of a connection.
    pub(super) fn new(
        sender: http2::SendRequest<B>,
        connection: HyperConnection<B>,
    ) -> (RequestSender<B>, Self) {
        let slot = Arc::new(ArcSwapOption::from_pointee(sender));
        let driver = Self {
            connection: Some(connection),
            slot: Arc::downgrade(&slot),
        };
        (RequestSender(slot), driver)
    }

    /// Drops the connection's end of the queue, then the sender's.
    fn close(&mut self) {
        self.connection = None;
        if let Some(slot) = self.slot.upgrade() {
            slot.store(None);
        }
    }
}

impl<B: RequestBody> Future for Driver<B> {
    type Output = Result<(), hyper::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connection) = &mut self.connection else {
            return Poll::Ready(Ok(()));
        };
        let ended = ready!(Pin::new(connection).poll(cx));
        self.close();
        Poll::Ready(ended)
    }
}

impl<B: RequestBody> Drop for Driver<B> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<B: RequestBody> fmt::Debug for Driver<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
