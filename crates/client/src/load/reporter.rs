//! Reporter to one server: the state machine, and the task that runs it while there is something to report.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::lrs::{ClusterKey, ClusterLoad, LrsTransmit, Reporter};
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use oxds_types::discovery::Node;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::stream::{LoadStream, LoadStreamEvent};
use crate::bootstrap::Server;
use crate::link::{ServerLink, ServerLinks};
use crate::supervise::{RESTART_DELAY, caught};
use crate::timer::{at, sleep_until};

/// Reporter to one server. It makes no decision about the protocol: the state machine does.
pub(super) struct ServerReporter {
    server: Server,
    links: ServerLinks,
    max_response_bytes: usize,
    state: Mutex<ReporterState>,
    /// Notified when the state machine has got new input.
    changed: Notify,
    /// Runtime of the task.
    runtime: Handle,
    /// Start of the state machine's clock.
    epoch: tokio::time::Instant,
    /// The task, and streams that are ending, hold a receiver until they have sent everything.
    sending: watch::Sender<()>,
}

struct ReporterState {
    machine: Reporter,
    /// The task is running.
    is_running: bool,
}

impl ServerReporter {
    /// Creates an idle reporter. Must be called in a tokio runtime.
    pub(super) fn new(
        server: Server,
        node: Node,
        links: ServerLinks,
        max_response_bytes: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            links,
            max_response_bytes,
            state: Mutex::new(ReporterState {
                machine: Reporter::new(node),
                is_running: false,
            }),
            changed: Notify::new(),
            runtime: Handle::current(),
            epoch: tokio::time::Instant::now(),
            sending: watch::Sender::new(()),
        })
    }

    /// Starts reporting a cluster, and the task if it is not running.
    pub(super) fn enter(self: &Arc<Self>, key: &ClusterKey) -> Arc<ClusterLoad> {
        let mut state = self.lock();
        let load = state.machine.enter(self.now(), key);
        if !std::mem::replace(&mut state.is_running, true) {
            let sending = self.sending.subscribe();
            self.runtime.spawn(Arc::clone(self).run(sending));
        }
        drop(state);
        self.changed.notify_one();
        load
    }

    /// Stops reporting a cluster, after its last counts are sent.
    pub(super) fn leave(&self, key: &ClusterKey) {
        self.lock().machine.leave(self.now(), key);
        self.changed.notify_one();
    }

    /// Waits until the counts of all dropped clusters are sent or given up. Returns at once while a cluster is in use.
    pub(super) async fn settled(&self) {
        let is_used = self.lock().machine.is_used();
        if !is_used {
            self.sending.closed().await;
        }
    }

    /// Runs until no cluster is in use and all counts are sent. After a panic, it starts again with a new stream.
    async fn run(self: Arc<Self>, _sending: watch::Receiver<()>) {
        while let Err(panic) = caught(self.report()).await {
            tracing::error!(target: "oxds::lrs", server = %self.server.uri, panic, "task panicked, it starts again");
            sleep(RESTART_DELAY).await;
            let (mut state, now) = (self.lock(), self.now());
            state.machine.handle_closed(now, random());
        }
    }

    /// Reports until no cluster is in use and all counts are sent. The socket closes then.
    async fn report(&self) {
        // Held between the attempts, so that a retry finds the connection.
        let link = self.links.link(&self.server);
        let mut stream = LoadStream::closed();
        while let Some(timeout) = self.settle(&link, &mut stream) {
            tokio::select! {
                event = stream.next() => self.handle_event(event),
                () = self.changed.notified() => {}
                () = sleep_until(timeout) => {}
            }
        }
    }

    /// Does everything that the state machine asks for. Returns the time to wait until, if any; `None` when the task is
    /// done.
    fn settle(
        &self,
        link: &Arc<ServerLink>,
        stream: &mut LoadStream,
    ) -> Option<Option<tokio::time::Instant>> {
        let mut state = self.lock();
        while let Some(transmit) = state.machine.poll_transmit(self.now()) {
            match transmit {
                LrsTransmit::Open => {
                    *stream = LoadStream::open(Arc::clone(link), self.max_response_bytes);
                }
                LrsTransmit::Request(request) => {
                    tracing::trace!(target: "oxds::lrs", server = %self.server.uri, ?request, "request");
                    stream.write(*request);
                }
                LrsTransmit::Finish => std::mem::take(stream).finish(self.sending.subscribe()),
                LrsTransmit::Close => *stream = LoadStream::closed(),
            }
        }
        if state.machine.is_idle() {
            state.is_running = false;
            return None;
        }
        let timeout = state.machine.poll_timeout();
        Some(timeout.map(|time| at(self.epoch, time)))
    }

    fn handle_event(&self, event: LoadStreamEvent) {
        let (mut state, now) = (self.lock(), self.now());
        match event {
            LoadStreamEvent::Opened => state.machine.handle_opened(),
            LoadStreamEvent::Response(response) => {
                tracing::trace!(target: "oxds::lrs", server = %self.server.uri, ?response, "response");
                state.machine.handle_response(now, response);
            }
            LoadStreamEvent::Closed(cause) => {
                tracing::info!(target: "oxds::lrs", server = %self.server.uri, %cause, "stream closed");
                // gRFC A27: RPCs are unaffected; the stream is retried with backoff, as ADS (C-141).
                state.machine.handle_closed(now, random());
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, ReporterState> {
        // The state machine is consistent after every call, so a poisoned lock can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ServerReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerReporter")
            .field("server", &self.server.uri)
            .finish_non_exhaustive()
    }
}
