//! Connections: accepted up to the limit, driven to their end, shut down gracefully.
//!
//! ```text
//!   accept ──▶ (TLS handshake) ──▶ HTTP ──▶ first call ──▶ serve ──▶ closed by the client, or keepalive timeout
//!     │        └────── within Timers::first_request ────┘     │
//!     └ at most Limits::connections                           └ shutdown, age, balance ──▶ GOAWAY ──▶ drained or aborted
//! ```

use std::fmt::Display;
use std::hash::{BuildHasher as _, RandomState};
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
use crate::calls::Shared;
#[cfg(feature = "tls")]
use crate::metrics::InvalidPart;
use crate::metrics::Limit;

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
                        self.server.metrics.over_limit(Limit::Connections);
                        continue;
                    };
                    // TCP_NODELAY: responses are small, and a client waits for each, so Nagle's algorithm only delays.
                    let _ = socket.set_nodelay(true);
                    let connection = Connection {
                        server: Arc::clone(&self.server),
                        abort: self.abort.clone(),
                        deadline: Instant::now() + limits.timers.first_request,
                        age_at: limits
                            .timers
                            .connection_age
                            .map(|age| Instant::now() + jittered(age, random())),
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

/// An accepted connection of any protocol.
pub(crate) struct Connection {
    pub(crate) server: Arc<Shared>,
    abort: CancellationToken,
    /// Deadline of the first call.
    pub(crate) deadline: Instant,
    /// When the client is asked to reconnect.
    age_at: Option<Instant>,
    called: Arc<AtomicBool>,
    /// Counts against [`Limits::connections`](crate::calls::Limits::connections) until dropped.
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
                server.metrics.invalid(InvalidPart::Handshake);
                debug!(peer = %address, %error, "TLS handshake failed");
            }
            Err(_) => server.metrics.over_limit(Limit::FirstCall),
        }
        None
    }

    /// Drives an HTTP connection until it ends, is drained after a shutdown or `moving`, or misses the deadline of its
    /// first call.
    ///
    /// The caller pins it: a future that took the connection by value would have room for it twice.
    pub(crate) async fn drive<C, E: Display>(
        &self,
        mut connection: Pin<&mut C>,
        shut_down: impl Fn(Pin<&mut C>),
        from: &impl Display,
        moving: &CancellationToken,
    ) where
        C: Future<Output = Result<(), E>>,
    {
        let first = self
            .age_at
            .map_or(self.deadline, |age| age.min(self.deadline));
        let mut timer = pin!(tokio::time::sleep_until(first));
        let mut is_waiting = true;
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                // A shutdown cancels it, too.
                () = moving.cancelled() => {
                    shut_down(connection.as_mut());
                    // Discovery streams end now, others within the time for draining.
                    timer.as_mut().reset(Instant::now() + self.server.limits.timers.drain);
                    tokio::select! {
                        ended = connection.as_mut() => break ended,
                        () = self.abort.cancelled() => return,
                        () = timer.as_mut(), if !self.server.closing.is_cancelled() => return,
                    }
                }
                () = timer.as_mut(), if is_waiting => {
                    is_waiting = false;
                    let now = Instant::now();
                    // Without a graceful shutdown: the client may not even have started HTTP.
                    if self.deadline <= now && !self.called.load(Ordering::Relaxed) {
                        self.server.metrics.over_limit(Limit::FirstCall);
                        return;
                    }
                    match self.age_at {
                        Some(age) if age <= now => {
                            self.server.metrics.moved("age");
                            moving.cancel();
                        }
                        Some(age) => {
                            let is_young = now < self.deadline;
                            timer.as_mut().reset(if is_young { age.min(self.deadline) } else { age });
                            is_waiting = true;
                        }
                        None => {}
                    }
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = %from, %error, "connection failed");
        }
    }
}

/// Returns the age at which a connection ends: `age`, at most 10 % more or less. `random` is any number. Connections
/// that were made at the same time, as after a restart, do not end at the same time.
fn jittered(age: Duration, random: u64) -> Duration {
    // Thousandths from 900 to 1100.
    let thousandths = u32::try_from(900 + random % 201).unwrap_or(1000);
    age.saturating_mul(thousandths) / 1000
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g39_age_has_a_jitter_of_a_tenth() {
        let age = Duration::from_secs(1000);
        let ages: Vec<_> = (0..1000).map(|random| jittered(age, random * 7)).collect();
        assert_eq!(ages.iter().min(), Some(&Duration::from_secs(900)));
        assert_eq!(ages.iter().max(), Some(&Duration::from_secs(1100)));
        assert_eq!(jittered(Duration::MAX, 200), Duration::MAX / 1000);
    }
}
