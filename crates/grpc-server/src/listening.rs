//! The task of a listening address: configurations, connections, serving mode.
//!
//! ```text
//!            ┌──────────── one loop ───────────┐
//!  configs ─►│ serving mode, listener in use    │─► on_serving_mode, status
//!  socket  ─►│ filter chain ─► connection task ─┼─► GOAWAY when the listener is replaced
//!  signal  ─►│ shutdown                         │
//!            └──────────────────────────────────┘
//! ```

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oxds_client::channelz::CountedServer;
use oxds_client::{ServerConfigWatch, WatchError};
use oxds_core::resolve::ServerConfig;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::Accepted;
use crate::handshake::Handshakes;
use crate::mode::ServingMode;
use crate::serving::Serving;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::status::ListenerState;

/// Time until the next try to listen on a port that another process has taken.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Pause after a failed accept, such as one without a free file descriptor.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Time between two log lines about failed accepts, which fail many times a second.
const WARN_AGAIN: Duration = Duration::from_secs(10);

/// The task of a listening address.
#[derive(Debug)]
pub(crate) struct Listening {
    shared: Arc<Shared>,
    state: Arc<ListenerState>,
    configs: ServerConfigWatch,
    socket: Socket,
    serving: Option<Serving>,
    /// Next try to listen, after one that failed.
    retry: Option<Instant>,
    /// Last log line about a failed accept.
    warned: Option<Instant>,
    connections: JoinSet<()>,
    handshakes: Arc<Handshakes>,
    counted: CountedServer,
}

impl Listening {
    pub(crate) fn new(
        shared: Arc<Shared>,
        socket: Socket,
        state: Arc<ListenerState>,
        configs: ServerConfigWatch,
    ) -> Self {
        let name = shared.name.clone();
        let name = name.unwrap_or_else(|| state.listener.as_ref().to_owned());
        Self {
            counted: shared.clients.channelz().server(name, state.address),
            handshakes: Arc::new(Handshakes::new(shared.settings.max_handshakes)),
            shared,
            state,
            configs,
            socket,
            serving: None,
            retry: None,
            warned: None,
            connections: JoinSet::new(),
        }
    }

    /// Serves until `signal` completes, then drains the connections.
    pub(crate) async fn run(mut self, signal: impl Future<Output = ()>) {
        let mut signal = pin!(signal);
        loop {
            // The end of a connection's task makes room again, and ends the wait below.
            let live = self.state.handshakes.load(Ordering::Relaxed);
            let has_room = self.handshakes.has_room(live);
            tokio::select! {
                () = &mut signal => break,
                config = self.configs.next() => self.configure(config),
                accepted = self.socket.accept(), if has_room => match accepted {
                    Ok((socket, peer)) => self.accept(socket, peer),
                    Err(error) => self.accept_failed(&error).await,
                },
                () = at(self.retry) => self.listen(),
                Some(_) = self.connections.join_next() => {}
            }
        }
        self.set_mode(ServingMode::NotServing("the server shuts down".into()));
        self.stop();
        // Connections end after the grace period at the latest.
        while self.connections.join_next().await.is_some() {}
    }

    fn configure(&mut self, config: Result<Arc<ServerConfig>, WatchError>) {
        let config = match config {
            Ok(config) => config,
            Err(error) => {
                self.set_mode(ServingMode::NotServing(error.to_string().into()));
                self.stop();
                return;
            }
        };
        let serving = self.serving.as_ref();
        if serving.is_some_and(|serving| serving.update(&config)) {
            return;
        }
        let serving = Serving::new(&config, self.shared.clients.bootstrap());
        // gRFC A36: connections of the listener before drain, so that their clients connect again.
        if let Some(before) = self.serving.replace(serving) {
            before.drain();
        }
        let generation = &self.state.generation;
        generation.store(config.generation, Ordering::Relaxed);
        self.listen();
    }

    /// Listens, if there is a configuration. If it fails, it is tried again later (gRFC A36).
    fn listen(&mut self) {
        self.retry = None;
        match self.socket.listen() {
            Ok(()) => self.set_mode(ServingMode::Serving),
            Err(error) => {
                let address = self.state.address;
                let reason = format!("cannot listen on {address}: {error}");
                self.set_mode(ServingMode::NotServing(reason.into()));
                self.retry = Instant::now().checked_add(LISTEN_AGAIN);
            }
        }
    }

    /// Stops to listen, and drains all connections.
    fn stop(&mut self) {
        self.retry = None;
        self.socket.close();
        // gRFC A36: connections are closed, and RPCs under way go on.
        if let Some(before) = self.serving.take() {
            before.drain();
        }
        self.handshakes.close_all();
    }

    fn set_mode(&self, mode: ServingMode) {
        if **self.state.mode.load() == mode {
            return;
        }
        let mode = Arc::new(mode);
        self.state.mode.store(Arc::clone(&mode));
        let (address, listener) = (self.state.address, &self.state.listener);
        match &*mode {
            ServingMode::Starting => {}
            ServingMode::Serving => {
                tracing::info!(target: "oxds::grpc_server", %address, listener = %listener, "serving");
            }
            ServingMode::NotServing(reason) => {
                tracing::warn!(target: "oxds::grpc_server", %address, listener = %listener, %reason, "not serving");
            }
        }
        if let Some(on_mode) = &self.shared.on_mode {
            on_mode.call(address, &mode);
        }
    }

    fn accept(&mut self, socket: TcpStream, peer: SocketAddr) {
        // The socket listens only while there is a configuration. A connection that came before that ended is closed.
        let Some(serving) = &self.serving else {
            return;
        };
        let Ok(local) = socket.local_addr() else {
            return;
        };
        let Some(chain) = serving.chain(local, peer) else {
            // gRFC A36: closed without any byte.
            tracing::debug!(target: "oxds::grpc_server", %local, %peer, "connection closed: no filter chain matches it");
            return;
        };
        let accepted = Accepted {
            shared: Arc::clone(&self.shared),
            state: Arc::clone(&self.state),
            counted: self.counted.clone(),
            chain: Arc::clone(chain),
            drain: serving.draining(),
            handshake: Handshakes::begin(&self.handshakes, &self.state),
            local,
            peer,
        };
        self.connections.spawn(accepted.run(socket));
    }

    /// Makes the next accept possible. Clients wait in the meantime; the operating system holds their connections.
    async fn accept_failed(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        // The client has gone: that concerns no other connection.
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset
        ) {
            return;
        }
        // Other errors are a lack of file descriptors or memory. Clients that do not finish their handshake must not
        // hold them all.
        let closed = self.handshakes.close_oldest();
        let now = Instant::now();
        let is_news = |warned: Instant| now.duration_since(warned) >= WARN_AGAIN;
        if self.warned.is_none_or(is_news) {
            self.warned = Some(now);
            let address = self.state.address;
            tracing::warn!(target: "oxds::grpc_server", %address, %error, closed_handshakes = closed, "connection not accepted");
        }
        sleep(ACCEPT_AGAIN).await;
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
