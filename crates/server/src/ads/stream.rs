//! The driver of a session: bytes in, time in, snapshots in; frames and events out.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use http_body::Body as _;
use oxds_core::session::{Config, Event, Frame, Request, Session};
use oxds_core::snapshot::Protocol;
use oxds_core::time::Instant;
use oxds_types::ApiVersion;
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use prost::Message as _;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::{debug, info, warn};

use super::clock::Clock;
use super::decoder::Decoder;
use super::refusal::Refusal;
use super::service::{Offer, Peer};
use super::streams::{Open, Place, Streams};
use super::throttle::Throttle;
use crate::cache::{Cache, Watcher};
use crate::clients::Polls;
use crate::hooks::{Call, Hooks, Later, Observed, Sent};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::on_nack::{Reaction, Rejected};
use crate::security::{Denied, Security};
use crate::withheld::Withheld;

/// Messages read before the stream yields to others of its thread (S-60: a request flood).
const BATCH: usize = 32;

/// What all streams of a server share.
pub(crate) struct Context {
    pub(crate) cache: Cache,
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Limits,
    pub(crate) security: Security,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) polls: Arc<Polls>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) withheld: Withheld,
    pub(crate) clock: Clock,
    /// Cancelled when the server begins to shut down.
    pub(crate) closing: CancellationToken,
    pub(crate) on_nack: Reaction,
}

/// One stream of a discovery service.
pub(super) struct Stream {
    context: Arc<Context>,
    offer: Offer,
    open: Arc<Open>,
    place: Place,
    /// Of what the node sees; none before the first request.
    watcher: Option<Watcher>,
    /// Whether the session has seen anything of what `watcher` watches.
    shown: bool,
    /// The state of who is in which group that `watcher` was chosen by.
    memberships: u64,
    observed: Observed,
    /// The first request, while it is found out whom it is from.
    naming: Option<(Request, Later<'static, Node>)>,
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
    ) -> Result<Self, Refusal> {
        let (now, limits) = (context.clock.now(), &context.limits);
        let session = Session::new(protocol, offer.scope.clone(), Arc::clone(&context.config));
        let open = Arc::new(Open {
            peer,
            protocol,
            since: now,
            end: context.closing.child_token(),
            grant: Mutex::default(),
            reported: AtomicBool::new(false),
            session: Mutex::new(session),
            view: Mutex::default(),
        });
        let place = context.streams.enter(&open, limits)?;
        context.metrics.stream_opened(protocol);
        debug!(stream = place.id(), peer = %open.peer, ?protocol, "stream opened");
        let first_request = now + limits.first_request;
        Ok(Self {
            offer,
            place,
            watcher: None,
            shown: false,
            memberships: 0,
            observed: Observed::NOBODY,
            naming: None,
            refused: None,
            requests,
            decoder: Decoder::new(limits.message_bytes),
            throttle: Throttle::new(limits.request_rate, limits.request_burst),
            timer: Box::pin(tokio::time::sleep_until(context.clock.at(first_request))),
            end: Box::pin(open.end.clone().cancelled_owned()),
            first_request: Some(first_request),
            read_again: None,
            open,
            context: Arc::clone(context),
        })
    }

    /// Asks the program whether the call may go on, and tells it what happens from here on.
    pub(super) async fn observe(&mut self, call: impl FnOnce() -> Call) -> Result<(), Refusal> {
        self.observed = Observed::open(self.context.hooks.as_deref(), call).await?;
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
            status = Refusal::from(refused).status(&self.context);
        }
        self.observed.close(&status);
        debug!(stream = self.place.id(), %status, "stream ended");
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
            self.open.review(&self.context);
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
                return Poll::Ready(refusal.status(&self.context));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Why the stream had to end.
    fn last_word(&self) -> Status {
        if self.context.closing.is_cancelled() {
            Status::unavailable("the server is shutting down")
        } else {
            Refusal::Denied(Denied::Changed).status(&self.context)
        }
    }

    /// Hands every request that has arrived to the session, as fast as it may; ready when the stream ends.
    fn read(&mut self, cx: &mut TaskContext<'_>) -> Poll<Status> {
        for _ in 0..BATCH {
            self.read_again = self.throttle.wait(self.context.clock.now());
            if self.read_again.is_some() {
                self.context.metrics.throttled();
                return Poll::Pending;
            }
            match ready!(self.read_one(cx)) {
                Err(refusal) => return Poll::Ready(refusal.status(&self.context)),
                Ok(true) => continue,
                Ok(false) => {}
            }
            match ready!(Pin::new(&mut self.requests).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                Some(Err(status)) => return Poll::Ready(Status::cancelled(status.to_string())),
                None if self.decoder.is_torn() => {
                    return Poll::Ready(Refusal::Torn.status(&self.context));
                }
                // The client has said all it has to say, and no acknowledgement can come any more.
                None => return Poll::Ready(Status::ok("")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles the next request, if all of it has arrived, and it is known whom it is from.
    fn read_one(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<bool, Refusal>> {
        let (mut request, mut node) = match self.naming.take() {
            Some(naming) => naming,
            None => {
                let Some(message) = self.decoder.next()? else {
                    return Poll::Ready(Ok(false));
                };
                self.throttle.pass(self.context.clock.now());
                let mut request = self.decode(message)?;
                self.context.metrics.request();
                let is_first = self.first_request.take().is_some();
                let node = is_first.then(|| self.observed.node(&mut request));
                match node.flatten() {
                    Some(node) => (request, node),
                    None => return Poll::Ready(self.handle(request).map(|()| true)),
                }
            }
        };
        match node.as_mut().poll(cx)? {
            Poll::Ready(node) => {
                *request.node_mut() = Some(node);
                Poll::Ready(self.handle(request).map(|()| true))
            }
            Poll::Pending => {
                self.naming = Some((request, node));
                Poll::Pending
            }
        }
    }

    fn decode(&self, message: Bytes) -> Result<Request, Refusal> {
        let implied = |type_url: &mut String| {
            if let Some(url) = self.offer.type_url().filter(|_| type_url.is_empty()) {
                url.clone_into(type_url);
            }
        };
        match self.open.protocol {
            Protocol::Sotw => {
                let mut request = DiscoveryRequest::decode(message)?;
                implied(&mut request.type_url);
                Ok(request.into())
            }
            Protocol::Delta => {
                let mut request = DeltaDiscoveryRequest::decode(message)?;
                implied(&mut request.type_url);
                Ok(request.into())
            }
        }
    }

    fn handle(&mut self, mut request: Request) -> Result<(), Refusal> {
        self.observed.request(&request)?;
        self.open.permit(&self.context, &mut request)?;
        let now = self.context.clock.now();
        let mut session = self.open.session();
        session.handle_request(now, request)?;
        if self.watcher.is_none() {
            let node = session.node();
            let id = node.map_or("", |node| &node.id);
            let cluster = node.map_or("", |node| &node.cluster);
            info!(stream = self.place.id(), peer = %self.open.peer, id, cluster, "client");
            self.memberships = self.context.cache.memberships();
            let watcher = self.context.cache.enrol(node.unwrap_or(&Node::default()));
            self.open.look_at(Arc::clone(watcher.view()));
            self.watcher = Some(watcher);
        }
        drop(session);
        self.handle_events();
        Ok(())
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
        let next = cache.enrol(session.node().unwrap_or(&Node::default()));
        if Arc::ptr_eq(next.view(), watcher.view()) {
            return false;
        }
        if !self.shown {
            self.open.look_at(Arc::clone(next.view()));
            watcher.move_to(next);
        }
        true
    }

    /// Waits for the next timeout; ready when one was handled, or ended the stream.
    fn poll_timer(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Refusal>> {
        let timeout = self.open.session().poll_timeout();
        let own = self.first_request.into_iter().chain(self.read_again);
        let Some(next) = own.chain(timeout).min() else {
            return Poll::Pending;
        };
        let at = self.context.clock.at(next);
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        ready!(self.timer.as_mut().poll(cx));
        // The runtime's timer has a coarser grain than the machine's time.
        let now = self.context.clock.now().max(next);
        if self.first_request.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(Err(Refusal::Silent));
        }
        if self.read_again.take_if(|again| *again <= now).is_some() {
            cx.waker().wake_by_ref();
        }
        self.open.session().handle_timeout(now);
        Poll::Ready(Ok(()))
    }

    /// Sends all that the session wants to send, until what it watches and what it saw agree.
    fn transmit(&mut self, transmit: &mut impl FnMut(Frame)) {
        loop {
            let Some(view) = self.watcher.as_ref().map(Watcher::view).map(Arc::clone) else {
                return;
            };
            let snapshot = view.load();
            self.shown |= snapshot.is_loaded();
            let mut sent_any = false;
            let mut session = self.open.session();
            while let Some(out) = session.poll_transmit(self.context.clock.now(), &snapshot) {
                self.context.metrics.response(&out);
                let (kind, version, nonce) = (&out.kind, out.version, out.nonce);
                let (resources, removed) = (out.resources, out.removed);
                debug!(stream = self.place.id(), %kind, %version, %nonce, resources, removed, "sent");
                let sent = Sent {
                    kind,
                    version: version.as_str(),
                    resources,
                    removed,
                    bytes: out.frame.len(),
                };
                if let Err(refused) = self.observed.response(&sent) {
                    self.refused = Some(refused);
                    return;
                }
                if out.api == ApiVersion::V2 {
                    self.context.withheld.tell(&snapshot, kind);
                }
                transmit(out.frame);
                sent_any = true;
            }
            drop(session);
            if sent_any {
                self.context.cache.pulse().beat();
            }
            let revision = snapshot.revision();
            drop(snapshot);
            // A name that is watched only since now may have changed after the snapshot was loaded.
            let watched_more = self.handle_events();
            if !watched_more || view.load().revision() == revision {
                return;
            }
        }
    }

    /// Acts on the session's events; whether it watches something new.
    fn handle_events(&mut self) -> bool {
        let mut watched_more = false;
        let mut refused = Vec::new();
        let mut happened = false;
        let stream = self.place.id();
        let mut session = self.open.session();
        while let Some(event) = session.poll_event() {
            happened = true;
            self.context.metrics.event(&event);
            if let Err(refused) = self.observed.event(&event) {
                self.refused.get_or_insert(refused);
            }
            match event {
                Event::Watched(kind, interests) => {
                    if let Some(watcher) = &mut self.watcher {
                        watcher.watch(kind, interests);
                    }
                    watched_more = true;
                }
                Event::Unwatched(kind, interests) => {
                    if let Some(watcher) = &mut self.watcher {
                        watcher.unwatch(&kind, &interests);
                    }
                }
                Event::Acked {
                    kind,
                    version,
                    after,
                } => {
                    debug!(stream, %kind, %version, ?after, "accepted");
                }
                Event::Nacked {
                    kind,
                    version,
                    reason,
                    resources,
                } => {
                    warn!(stream, %kind, %version, ?resources, %reason, "rejected by the client");
                    refused.extend(resources.into_iter().filter_map(|name| {
                        let rejection = session.resource_status(&kind, &name)?.rejected?;
                        let kind = kind.clone();
                        Some(Rejected {
                            kind,
                            name,
                            rejection,
                        })
                    }));
                }
                Event::StaleNonce(kind) => debug!(stream, %kind, "stale nonce"),
                Event::UnknownKind(kind) => warn!(stream, %kind, "asked for an unknown kind"),
                Event::HeldTooLong { kind, held } => {
                    warn!(stream, %kind, ?held, "sent although the client was not ready for it");
                }
            }
        }
        let node = session.node().map(|node| node.id.clone());
        drop(session);
        let node = node.unwrap_or_default();
        self.context.on_nack.refused(&self.context, &node, &refused);
        if happened {
            self.context.cache.pulse().beat();
        }
        watched_more
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("config", &self.config)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.metrics.stream_closed(self.open.protocol);
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
