//! The line to one server: the machine, shared by who counts, and the task that runs it while there is something to report.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::lrs::{ClusterKey, ClusterLoad, LrsTransmit, Reporter};
use oxds_core::time::Instant;
use oxds_types::discovery::Node;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::stream::{Io, LoadStream};
use crate::bootstrap::Server;
use crate::client::{Options, sleep_until};
use crate::random::random;

/// No decision about the protocol is made here.
pub(super) struct Line {
    server: Server,
    options: Options,
    state: Mutex<State>,
    /// The machine was told something.
    told: Notify,
    /// Where the task runs.
    runtime: Handle,
    /// The machine's clock starts here.
    epoch: tokio::time::Instant,
    /// Its receivers are held by whoever has yet to tell something: the task, and streams that end.
    telling: watch::Sender<()>,
}

struct State {
    reporter: Reporter,
    /// There is a task.
    is_running: bool,
}

impl Line {
    /// Needs a tokio runtime.
    pub(super) fn new(server: Server, node: Node, options: Options) -> Arc<Self> {
        Arc::new(Self {
            server,
            options,
            state: Mutex::new(State {
                reporter: Reporter::new(node),
                is_running: false,
            }),
            told: Notify::new(),
            runtime: Handle::current(),
            epoch: tokio::time::Instant::now(),
            telling: watch::Sender::new(()),
        })
    }

    pub(super) fn enter(self: &Arc<Self>, key: &ClusterKey) -> Arc<ClusterLoad> {
        let mut state = self.lock();
        let load = state.reporter.enter(self.now(), key);
        if !std::mem::replace(&mut state.is_running, true) {
            let telling = self.telling.subscribe();
            self.runtime.spawn(Arc::clone(self).run(telling));
        }
        drop(state);
        self.told.notify_one();
        load
    }

    pub(super) fn leave(&self, key: &ClusterKey) {
        self.lock().reporter.leave(self.now(), key);
        self.told.notify_one();
    }

    /// Waits until all is told of clusters that were in use, or given up; not while one is in use.
    pub(super) async fn settled(&self) {
        let is_used = self.lock().reporter.is_used();
        if !is_used {
            self.telling.closed().await;
        }
    }

    /// Runs until all is told of clusters that are no longer in use; the socket is closed then.
    async fn run(self: Arc<Self>, _telling: watch::Receiver<()>) {
        let mut stream = LoadStream::closed();
        while let Some(timeout) = self.settle(&mut stream) {
            tokio::select! {
                io = stream.next() => self.take_in(io),
                () = self.told.notified() => {}
                () = sleep_until(timeout) => {}
            }
        }
    }

    /// Does what is to be done, and says until when to wait for more; `None` when there will be none.
    fn settle(&self, stream: &mut LoadStream) -> Option<Option<tokio::time::Instant>> {
        let mut state = self.lock();
        while let Some(transmit) = state.reporter.poll_transmit(self.now()) {
            match transmit {
                LrsTransmit::Open => *stream = LoadStream::open(&self.server, &self.options),
                LrsTransmit::Request(request) => {
                    tracing::trace!(target: "oxds::lrs", server = %self.server.uri, ?request, "request");
                    stream.write(*request);
                }
                LrsTransmit::Finish => std::mem::take(stream).finish(self.telling.subscribe()),
                LrsTransmit::Close => *stream = LoadStream::closed(),
            }
        }
        if state.reporter.is_idle() {
            state.is_running = false;
            return None;
        }
        let timeout = state.reporter.poll_timeout();
        Some(timeout.map(|at| self.epoch + at.since_epoch()))
    }

    fn take_in(&self, io: Io) {
        let (mut state, now) = (self.lock(), self.now());
        match io {
            Io::Opened => state.reporter.handle_opened(),
            Io::Response(response) => {
                tracing::trace!(target: "oxds::lrs", server = %self.server.uri, ?response, "response");
                state.reporter.handle_response(now, response);
            }
            Io::Closed(cause) => {
                tracing::info!(target: "oxds::lrs", server = %self.server.uri, %cause, "stream closed");
                state.reporter.handle_closed(now, random());
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it; if it did, the machine would still be a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("server", &self.server.uri)
            .finish_non_exhaustive()
    }
}
