//! The pump of a streaming request body: takes frames from the application and gives them to HTTP/2.
//!
//! A frame is taken when those before it have room in the endpoint's windows, so that few wait here: two, and small
//! ones of together 16 KiB. The end of the stream goes with the last data frame, if the application ends the body at
//! once; a frame never waits for the next.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body as _, Frame};
use tokio::task::AbortHandle;
use tonic::Status;

use super::request::StreamedBody;

/// Bytes that are handed over without a look at the endpoint's windows, which costs more than a small message. As much
/// as one frame of HTTP/2 may have.
const MAX_UNCHECKED: usize = 16 << 10;

/// A request body that is sent in a task of its own. Dropping it stops the task, and cancels the stream unless the body
/// was sent to its end.
#[derive(Debug)]
pub(crate) struct Pump {
    task: AbortHandle,
    /// The status with which the body failed.
    failure: Arc<OnceLock<Status>>,
}

impl Pump {
    /// Sends the frames that are ready, on the caller's task, and the rest in a new one. Returns `None` if the body has
    /// ended, and the status of the body if it has failed.
    ///
    /// Dropping the future cancels the stream.
    pub(crate) async fn start(
        body: Box<StreamedBody>,
        stream: SendStream<Bytes>,
    ) -> Result<Option<Self>, Status> {
        let mut sending = Sending {
            body,
            stream,
            next: None,
            unchecked: 0,
            needs_room: false,
        };
        if let Poll::Ready(sent) = poll_fn(|cx| Poll::Ready(sending.poll_send(cx))).await {
            return sent.map(|()| None);
        }
        let failure = Arc::new(OnceLock::new());
        let task = tokio::spawn(sending.run(Arc::clone(&failure)));
        Ok(Some(Self {
            task: task.abort_handle(),
            failure,
        }))
    }

    /// Returns the status with which the body has failed, if it has.
    pub(crate) fn failure(&self) -> Option<Status> {
        self.failure.get().cloned()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// State of the pump.
struct Sending {
    body: Box<StreamedBody>,
    stream: SendStream<Bytes>,
    /// Data that is not sent yet: it waits for room, or for the end of the body.
    next: Option<Bytes>,
    /// Bytes that were sent since there was room.
    unchecked: usize,
    /// Whether `next` waits for room that was requested from h2.
    needs_room: bool,
}

impl Sending {
    async fn run(mut self, failure: Arc<OnceLock<Status>>) {
        if let Err(status) = poll_fn(|cx| self.poll_send(cx)).await {
            let _ = failure.set(status);
            // gRPC: a client that cannot finish its request cancels the RPC. The response fails then, and has the
            // status.
            self.stream.send_reset(Reason::CANCEL);
        }
    }

    /// Sends until the body has ended, or nothing can be sent now. Completes also when the endpoint has ended the
    /// stream: the response has the reason.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            if self.needs_room && !ready!(self.poll_room(cx)) {
                return Poll::Ready(Ok(()));
            }
            // Look one frame ahead: at the end of the body, the end of the stream goes with its last data.
            let Poll::Ready(frame) = Pin::new(&mut *self.body).poll_frame(cx) else {
                return if self.flush(false) {
                    Poll::Pending
                } else {
                    Poll::Ready(Ok(()))
                };
            };
            match frame.transpose()?.map(Frame::into_data) {
                None => {
                    self.next.get_or_insert_default();
                    self.flush(true);
                    return Poll::Ready(Ok(()));
                }
                // An empty frame carries no data, and servers count many of them as an attack.
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => {
                    if !self.flush(false) {
                        return Poll::Ready(Ok(()));
                    }
                    if self.unchecked + data.len() > MAX_UNCHECKED {
                        // One byte asks for room; h2 asks for the rest when it has the data.
                        self.stream.reserve_capacity(1);
                        self.needs_room = true;
                    }
                    self.next = Some(data);
                }
                Some(Err(frame)) => {
                    self.flush(false);
                    if let Ok(trailers) = frame.into_trailers() {
                        let _ = self.stream.send_trailers(trailers);
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Waits until the endpoint has room for data. Returns false if the stream has ended.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(false),
            }
        }
        self.needs_room = false;
        self.unchecked = 0;
        Poll::Ready(true)
    }

    /// Hands the data over that waits. Returns false if the stream has ended.
    fn flush(&mut self, end_of_stream: bool) -> bool {
        let Some(data) = self.next.take() else {
            return true;
        };
        self.unchecked += data.len();
        self.stream.send_data(data, end_of_stream).is_ok()
    }
}
