//! Connections: accepted as many as are allowed, moved to their end, shut down in order.
//!
//! ```text
//!   accept ──▶ (TLS handshake) ──▶ HTTP ──▶ first call ──▶ serve ──▶ closed by the client, or silence
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

/// After a failed accept (no file descriptors left, mostly) it is tried again this much later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What the ports of a server share.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) server: Arc<Shared>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the patience with those that drain is over.
    pub(crate) abort: CancellationToken,
}

impl Ports {
    /// Accepts connections until a shutdown begins, and serves each in a task of its own.
    pub(crate) async fn accept<F>(
        &self,
        bound: Bound,
        serve: impl Fn(Connection, TcpStream, SocketAddr) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let limits = &self.server.limits;
        let room = Arc::new(Semaphore::new(limits.connections));
        loop {
            let accepted = tokio::select! {
                accepted = bound.listener.accept() => accepted,
                () = self.server.closing.cancelled() => return,
            };
            match accepted {
                Ok((socket, address)) => {
                    let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                        self.server.metrics.refused("connections");
                        continue;
                    };
                    // Responses are small and awaited: they must not wait for company.
                    let _ = socket.set_nodelay(true);
                    let connection = Connection {
                        server: Arc::clone(&self.server),
                        abort: self.abort.clone(),
                        deadline: Instant::now() + limits.first_request,
                        called: Arc::default(),
                        _place: place,
                    };
                    self.tasks.spawn(serve(connection, socket, address));
                }
                Err(error) => {
                    error!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) server: Arc<Shared>,
    abort: CancellationToken,
    /// Of the first call.
    pub(crate) deadline: Instant,
    called: Arc<AtomicBool>,
    /// Among those that are allowed.
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// To be set when the first call comes.
    pub(crate) fn called(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.called)
    }

    /// Moves it until it ends, or has to. Pinned by the caller: a future that takes it by value would hold it twice.
    pub(crate) async fn drive<C, E: Display>(
        &self,
        mut connection: Pin<&mut C>,
        shut_down: impl Fn(Pin<&mut C>),
        from: &impl Display,
    ) where
        C: Future<Output = Result<(), E>>,
    {
        let mut silence = pin!(tokio::time::sleep_until(self.deadline));
        let mut watching = true;
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
                () = silence.as_mut(), if watching => {
                    watching = false;
                    // It may not even have begun to speak HTTP: there is no shutting down in order.
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
