//! The driver of a session: bytes in, time in, snapshots in; frames and events out.

mod body;
mod read;
mod send;
mod throttle;

pub(crate) use body::StreamBody;

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use oxds_core::session::{Frame, Request, Session};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::discovery::Node;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::debug;

use self::throttle::Throttle;
use super::clients::{OpenStream, StreamRegistration};
use super::context::Context;
use super::decoder::Decoder;
use super::error::CallError;
use super::service::Offer;
use crate::cache::Watcher;
use crate::hooks::{Call, HookFuture, Observed};
use crate::security::Denied;
use crate::server::Peer;

/// Messages read before the stream yields to others of its thread (S-60: a request flood).
const BATCH: usize = 32;

/// One stream of a discovery service.
pub(crate) struct Stream {
    context: Arc<Context>,
    offer: Offer,
    open: Arc<OpenStream>,
    registration: StreamRegistration,
    /// Of what the node sees; none before the first request.
    watcher: Option<Watcher>,
    /// Whether the session has seen anything of what `watcher` watches.
    shown: bool,
    /// The state of who is in which group that `watcher` was chosen by.
    memberships: u64,
    observed: Observed,
    /// The first request, while it is found out whom it is from.
    naming: Option<(Request, HookFuture<'static, Node>)>,
    /// What the program did not let pass.
    refused: Option<Status>,
    requests: Body,
    decoder: Decoder,
    throttle: Throttle,
    timer: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the first request: when patience ends.
    first_request: Option<Instant>,
    /// While requests came too fast: when the next is read.
    read_again: Option<Instant>,
}

impl Stream {
    /// Takes a call's request body, unless the server is full.
    pub(super) fn open(
        context: &Arc<Context>,
        protocol: Protocol,
        offer: Offer,
        peer: Peer,
        requests: Body,
    ) -> Result<Self, CallError> {
        let (now, limits) = (context.server.clock.now(), &context.server.limits);
        let session = Session::new(protocol, offer.scope.clone(), Arc::clone(&context.config));
        let end = context.server.closing.child_token();
        let open = Arc::new(OpenStream::new(peer, protocol, now, end, session));
        let registration = context.clients.streams.register(&open, limits)?;
        context.server.metrics.stream_opened(protocol);
        debug!(stream = registration.id(), peer = %open.peer, ?protocol, "stream opened");
        let first_request = now + limits.first_request;
        Ok(Self {
            offer,
            registration,
            watcher: None,
            shown: false,
            memberships: 0,
            observed: Observed::NOBODY,
            naming: None,
            refused: None,
            requests,
            decoder: Decoder::new(limits.message_bytes),
            throttle: Throttle::new(limits.request_rate, limits.request_burst),
            timer: Box::pin(tokio::time::sleep_until(
                context.server.clock.at(first_request),
            )),
            end: Box::pin(open.end.clone().cancelled_owned()),
            first_request: Some(first_request),
            read_again: None,
            open,
            context: Arc::clone(context),
        })
    }

    /// Asks the program whether the call may go on, and tells it what happens from here on.
    pub(super) async fn observe(&mut self, call: impl FnOnce() -> Call) -> Result<(), CallError> {
        self.observed = Observed::open(self.context.server.hooks.as_deref(), call).await?;
        Ok(())
    }

    /// Does all there is to do; ready when the stream ends.
    pub(super) fn poll(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut transmit: impl FnMut(Frame),
    ) -> Poll<Status> {
        let mut status = ready!(self.run(cx, &mut transmit));
        self.handle_events();
        if let Some(refused) = self.refused.take() {
            status = CallError::from(refused).status(&self.context.server.metrics);
        }
        self.observed.close(&status);
        debug!(stream = self.registration.id(), %status, "stream ended");
        Poll::Ready(status)
    }

    fn run(&mut self, cx: &mut TaskContext<'_>, transmit: &mut impl FnMut(Frame)) -> Poll<Status> {
        if let Poll::Ready(status) = self.read(cx) {
            // A client that asks and half-closes at once still gets its answer.
            if status.code() == Code::Ok {
                self.transmit(transmit);
            }
            return Poll::Ready(status);
        }
        while self.has_moved(cx) {
            if self.shown {
                let text = "this node is in other groups now: connect again";
                return Poll::Ready(Status::unavailable(text));
            }
            // It may not be in these groups.
            self.context.review(&self.open);
        }
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.last_word());
        }
        for _ in 0..BATCH {
            self.transmit(transmit);
            if let Some(refused) = &self.refused {
                return Poll::Ready(refused.clone());
            }
            if let Err(refusal) = ready!(self.poll_timer(cx)) {
                return Poll::Ready(refusal.status(&self.context.server.metrics));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Why the stream had to end.
    fn last_word(&self) -> Status {
        if self.context.server.closing.is_cancelled() {
            Status::unavailable("the server is shutting down")
        } else {
            CallError::Denied(Denied::Changed).status(&self.context.server.metrics)
        }
    }

    /// Whether the node sees another view than before (S-74). A session that was shown nothing yet, as before the first
    /// load, just looks there from now on.
    fn has_moved(&mut self, cx: &TaskContext<'_>) -> bool {
        let cache = &self.context.cache;
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        // Before anything is looked at: whatever is published from here on wakes this task again.
        watcher.register(cx.waker());
        let memberships = cache.memberships();
        if self.memberships == memberships {
            return false;
        }
        self.memberships = memberships;
        let session = self.open.session();
        let next = cache.register_session(session.node().unwrap_or(&Node::default()));
        if Arc::ptr_eq(next.view(), watcher.view()) {
            return false;
        }
        if !self.shown {
            self.open.set_view(Arc::clone(next.view()));
            watcher.move_to(next);
        }
        true
    }

    /// Waits for the next timeout; ready when one was handled, or ended the stream.
    fn poll_timer(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), CallError>> {
        let timeout = self.open.session().poll_timeout();
        let own = self.first_request.into_iter().chain(self.read_again);
        let Some(next) = own.chain(timeout).min() else {
            return Poll::Pending;
        };
        let at = self.context.server.clock.at(next);
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        ready!(self.timer.as_mut().poll(cx));
        // The runtime's timer has a coarser grain than the machine's time.
        let now = self.context.server.clock.now().max(next);
        if self.first_request.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(Err(CallError::NoRequest));
        }
        if self.read_again.take_if(|again| *again <= now).is_some() {
            cx.waker().wake_by_ref();
        }
        self.open.session().handle_timeout(now);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context
            .server
            .metrics
            .stream_closed(self.open.protocol);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
