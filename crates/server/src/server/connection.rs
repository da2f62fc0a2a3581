//! Connections: accepted up to the limit, driven to their end, shut down gracefully.
//!
//! ```text
//!   accept ──▶ (TLS handshake) ──▶ HTTP ──▶ first call ──▶ serve ──▶ closed by the client, or keepalive timeout
//!     │        └────── within Limits::first_request ────┘     │
//!     └ at most Limits::connections                           └ shutdown ──▶ GOAWAY ──▶ drained, or aborted
//! ```

use std::fmt::Display;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error};

use super::listener::Bound;
use super::shared::Shared;

/// Pause after a failed accept. The usual reason is that no file descriptor is left, which takes a while to change.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// State that the ports of a server share.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) server: Arc<Shared>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the drain time of a shutdown is over.
    pub(crate) abort: CancellationToken,
}

impl Ports {
    /// Accepts connections until a shutdown begins, and serves each in its own task.
    pub(crate) async fn accept<F>(
        &self,
        bound: Bound,
        serve: impl Fn(Connection, TcpStream, SocketAddr) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let limits = &self.server.limits;
        let permits = Arc::new(Semaphore::new(limits.connections));
        loop {
            let accepted = tokio::select! {
                accepted = bound.listener.accept() => accepted,
                () = self.server.closing.cancelled() => return,
            };
            match accepted {
                Ok((socket, address)) => {
                    let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                        self.server.metrics.refused("connections");
                        continue;
                    };
                    // TCP_NODELAY: responses are small, and a client waits for each, so Nagle's algorithm only delays.
                    let _ = socket.set_nodelay(true);
                    let connection = Connection {
                        server: Arc::clone(&self.server),
                        abort: self.abort.clone(),
                        deadline: Instant::now() + limits.first_request,
                        called: Arc::default(),
                        _permit: permit,
                    };
                    self.tasks.spawn(serve(connection, socket, address));
                }
                Err(error) => {
                    error!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// An accepted connection, whatever protocol it speaks.
pub(crate) struct Connection {
    pub(crate) server: Arc<Shared>,
    abort: CancellationToken,
    /// Deadline of the first call.
    pub(crate) deadline: Instant,
    called: Arc<AtomicBool>,
    /// Counts against [`Limits::connections`](super::limits::Limits::connections) until dropped.
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Returns the flag that the service sets at the first call.
    pub(crate) fn called(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.called)
    }

    /// Makes the TLS handshake. Returns `None` if it fails, if it takes too long, or if a shutdown begins.
    #[cfg(feature = "tls")]
    pub(crate) async fn handshake(
        &self,
        acceptor: tokio_rustls::TlsAcceptor,
        socket: TcpStream,
        address: SocketAddr,
    ) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
        let server = &self.server;
        let handshake = tokio::time::timeout_at(self.deadline, acceptor.accept(socket));
        let finished = tokio::select! {
            finished = handshake => finished,
            () = server.closing.cancelled() => return None,
        };
        match finished {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => {
                server.metrics.refused("handshake");
                debug!(peer = %address, %error, "TLS handshake failed");
            }
            Err(_) => server.metrics.refused("silence"),
        }
        None
    }

    /// Drives an HTTP connection until it ends, is drained after a shutdown, or misses the deadline of its first call.
    ///
    /// The caller pins it: a future that took the connection by value would have room for it twice.
    pub(crate) async fn drive<C, E: Display>(
        &self,
        mut connection: Pin<&mut C>,
        shut_down: impl Fn(Pin<&mut C>),
        from: &impl Display,
    ) where
        C: Future<Output = Result<(), E>>,
    {
        let mut first_call = pin!(tokio::time::sleep_until(self.deadline));
        let mut is_waiting = true;
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = self.server.closing.cancelled() => {
                    shut_down(connection.as_mut());
                    tokio::select! {
                        ended = connection.as_mut() => break ended,
                        () = self.abort.cancelled() => return,
                    }
                }
                () = first_call.as_mut(), if is_waiting => {
                    is_waiting = false;
                    // Without a graceful shutdown: the client may not even have started HTTP.
                    if !self.called.load(Ordering::Relaxed) {
                        self.server.metrics.refused("silence");
                        return;
                    }
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = %from, %error, "connection failed");
        }
    }
}
