//! The driver of a session: reads requests, follows the cache and the time, and writes responses.

mod body;
mod read;
mod send;
mod throttle;

pub(crate) use body::StreamBody;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use oxds_core::session::{Frame, Request, Session};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::{debug, info};

use self::throttle::Throttle;
use super::service_scope::ServiceScope;
use crate::cache::Watcher;
use crate::calls::{Admitted, CallError, ClientLine, Decoder, MemoryShare, Peer};
use crate::clients::{OpenStream, StreamRegistration};
use crate::context::Context;
use crate::hooks::{Call, CallObserver, HookFuture};
use crate::security::Denied;

/// Messages that a stream handles before it yields to other streams of its thread (S-60: a request flood).
const BATCH: usize = 32;

/// One stream of a discovery service.
pub(crate) struct Stream {
    context: Arc<Context>,
    service_scope: ServiceScope,
    open: Arc<OpenStream>,
    registration: StreamRegistration,
    input: Input,
    /// Registration for changes; `None` before the first request.
    watching: Option<Watching>,
    /// Whether the session has seen a loaded snapshot. From then on it must not change to another view.
    has_seen_snapshot: bool,
    observer: CallObserver,
    /// Error of a hook or of a limit, which ends the stream.
    failure: Option<CallError>,
    /// Code with which the stream ended; `None` while it is open, and if the client went away.
    status: Option<Code>,
    /// Bytes that the stream keeps, against the budgets of its connection and the server.
    share: MemoryShare,
    /// Bytes of NACK texts by resource type.
    nack_bytes: BTreeMap<ResourceType, usize>,
    /// Deadline of the first request; `None` once it has arrived.
    first_request: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// The requests of a stream.
struct Input {
    body: Body,
    decoder: Decoder,
    throttle: Throttle,
    /// Time at which reading resumes, while the stream exceeds its request rate.
    read_again: Option<Instant>,
    /// First request, while a hook identifies its node.
    identifying: Option<(Request, HookFuture<'static, Node>)>,
}

/// Registration of a stream for changes of the resources that its node sees.
struct Watching {
    watcher: Watcher,
    /// State of the node groups by which the view was selected, see [`Cache::memberships`](crate::Cache).
    memberships: u64,
}

impl Stream {
    /// Opens a stream with the request body of a call.
    ///
    /// # Errors
    /// A limit on streams is reached (S-77), or the major of the service is not served.
    pub(crate) fn open(
        context: &Arc<Context>,
        protocol: Protocol,
        service_scope: ServiceScope,
        peer: Peer,
        requests: Body,
    ) -> Result<Self, CallError> {
        context.check_api(service_scope.api, &peer)?;
        let (server, limits) = (&context.server, &context.server.limits);
        let now = server.clock.now();
        let session = Session::new(
            protocol,
            service_scope.scope.clone(),
            Arc::clone(&context.config),
        );
        let end = peer.moving.child_token();
        let share = peer.budgets.share(end.clone());
        let open = Arc::new(OpenStream::new(peer, protocol, now, end, session));
        let registration = context.clients.streams.register(&open, limits)?;
        server.metrics.stream_opened(protocol);
        debug!(stream = registration.id(), peer = %open.peer, ?protocol, "stream opened");
        let first_request = now + limits.timers.first_request;
        Ok(Self {
            service_scope,
            registration,
            input: Input {
                body: requests,
                decoder: Decoder::new(limits.message_bytes),
                throttle: Throttle::new(limits.request_rate, limits.request_burst),
                read_again: None,
                identifying: None,
            },
            watching: None,
            has_seen_snapshot: false,
            observer: CallObserver::NONE,
            failure: None,
            status: None,
            share,
            nack_bytes: BTreeMap::new(),
            first_request: Some(first_request),
            timer: Box::pin(tokio::time::sleep_until(server.clock.at(first_request))),
            end: Box::pin(open.end.clone().cancelled_owned()),
            open,
            context: Arc::clone(context),
        })
    }

    /// Asks the hooks whether the call may proceed. Their observer sees it from here on.
    pub(crate) async fn observe(&mut self, call: impl FnOnce() -> Call) -> Result<(), CallError> {
        self.observer = CallObserver::open(self.context.server.hooks.as_deref(), call).await?;
        Ok(())
    }

    /// Handles requests, changes and timeouts, and transmits responses. Ready with the status when the stream ends.
    pub(super) fn poll(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut transmit: impl FnMut(Frame),
    ) -> Poll<Status> {
        let poll = self.run(cx, &mut transmit);
        if poll.is_pending() {
            self.note_answers();
        }
        self.open.polled();
        let mut status = ready!(poll);
        self.handle_events();
        if let Some(error) = self.failure.take() {
            status = self.count(&error);
        }
        self.observer.close(&status);
        self.status = Some(status.code());
        debug!(stream = self.registration.id(), %status, "stream ended");
        Poll::Ready(status)
    }

    fn run(&mut self, cx: &mut TaskContext<'_>, transmit: &mut impl FnMut(Frame)) -> Poll<Status> {
        if let Poll::Ready(status) = self.read(cx) {
            // gRPC: a client may half-close after its request, and still gets the responses.
            if status.code() == Code::Ok {
                self.transmit(transmit);
            }
            return Poll::Ready(status);
        }
        while self.has_moved(cx) {
            if self.has_seen_snapshot {
                // S-74: the view is another one. A session cannot change its view, so the client must reconnect.
                let text = "node groups changed: reconnect";
                return Poll::Ready(Status::unavailable(text));
            }
            // The grant of the client may exclude the new groups (S-78).
            self.context.review(&self.open);
        }
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.end_status());
        }
        for _ in 0..BATCH {
            self.transmit(transmit);
            if let Some(error) = &self.failure {
                // Counted once, where the stream ends.
                return Poll::Ready(Status::unknown(error.to_string()));
            }
            if let Err(error) = ready!(self.poll_timer(cx)) {
                return Poll::Ready(self.count(&error));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Notes the changes that the client has answered. Costs a lock of the session's own unless a change concerned the
    /// stream.
    fn note_answers(&self) {
        let Some(watching) = &self.watching else {
            return;
        };
        let watcher = &watching.watcher;
        // Read before the snapshot: a later change keeps the stream behind.
        let Some(latest) = watcher.latest_unanswered() else {
            return;
        };
        let snapshot = watcher.view().load();
        if self.open.session().has_answered_all(&snapshot) {
            watcher.answered(latest);
            return;
        }
        let through = self.open.session().answered_through(&snapshot);
        if let Some(revision) = through {
            watcher.answered_through(revision);
        }
    }

    /// Returns the status of a stream that the server ends.
    fn end_status(&self) -> Status {
        if self.context.server.closing.is_cancelled() {
            Status::unavailable("the server is shutting down")
        } else if self.open.peer.moving.is_cancelled() {
            // Not an error: clients reconnect at once, to any server.
            Status::unavailable("connection moved to another server: reconnect")
        } else if let Some(over) = self.share.ended() {
            self.count(&over.into())
        } else {
            self.count(&CallError::Denied(Denied::Changed))
        }
    }

    /// Counts an error, and returns its status.
    fn count(&self, error: &CallError) -> Status {
        error.status(&self.context.server.metrics)
    }

    /// Whether the node sees another view than before (S-74). A session that has seen no snapshot yet, as before the
    /// first load, changes to the new view.
    fn has_moved(&mut self, cx: &TaskContext<'_>) -> bool {
        let cache = &self.context.cache;
        let Some(watching) = &mut self.watching else {
            return false;
        };
        // Before anything is read: what is published from here on wakes this task again.
        watching.watcher.register(cx.waker());
        let memberships = cache.memberships();
        if watching.memberships == memberships {
            return false;
        }
        watching.memberships = memberships;
        let session = self.open.session();
        let next = cache.register_session(session.node().unwrap_or(&Node::default()));
        if Arc::ptr_eq(next.view(), watching.watcher.view()) {
            return false;
        }
        if !self.has_seen_snapshot {
            watching.watcher.move_to(next);
            self.open.set_watcher(&watching.watcher);
        }
        true
    }

    /// Waits for the next timeout. Ready after it was handled, or when it ends the stream.
    fn poll_timer(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), CallError>> {
        let timeout = self.open.session().poll_timeout();
        let own = self.first_request.into_iter().chain(self.input.read_again);
        let Some(next) = own.chain(timeout).min() else {
            return Poll::Pending;
        };
        let clock = self.context.server.clock;
        let at = clock.at(next);
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        ready!(self.timer.as_mut().poll(cx));
        // Tokio's timer is coarser than `Instant`, and may fire a little early.
        let now = clock.now().max(next);
        if self.first_request.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(Err(CallError::NoRequest));
        }
        let read_again = &mut self.input.read_again;
        if read_again.take_if(|again| *again <= now).is_some() {
            cx.waker().wake_by_ref();
        }
        self.open.session().handle_timeout(now);
        Poll::Ready(Ok(()))
    }
}

impl Stream {
    /// Logs the end of a stream whose first request was accepted.
    fn log_end(&self) {
        let server = &self.context.server;
        let now = server.clock.now();
        if self.watching.is_none() {
            return;
        }
        let Some(Admitted { suppressed }) = server.log.admit(ClientLine::Disconnected, now) else {
            return;
        };
        let stream = self.registration.id();
        let session = self.open.session();
        let node = session.node().map_or("", |node| &node.id);
        let status = self
            .status
            .map_or_else(|| "none".to_owned(), |code| format!("{code:?}"));
        let seconds = (now - self.open.since).as_secs();
        info!(stream, peer = %self.open.peer, node, seconds, %status, suppressed, "client disconnected");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let metrics = &self.context.server.metrics;
        metrics.stream_closed(self.open.protocol);
        self.log_end();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
