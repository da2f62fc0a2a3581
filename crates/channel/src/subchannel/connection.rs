//! One HTTP/2 connection as the request path sees it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::preface::Preface;
use crate::body::RequestBody;

/// gRPC's minimum connect timeout (connection-backoff.md).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Drives a connection; ends when it takes no more requests.
///
/// RPCs that are on it go on: hyper keeps the socket in a task of its own until the last one ended.
pub(crate) type Driver = http2::Connection<TokioIo<Preface<TcpStream>>, RequestBody, TokioExecutor>;

/// When an unanswered ping ends a connection (gRPC A8). Servers refuse clients that ping more often
/// than every 5 minutes unless told otherwise, hence the default interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keepalive {
    /// Time without traffic after which a ping is sent.
    pub interval: Duration,
    /// Time the answer may take.
    pub timeout: Duration,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(300),
            timeout: Duration::from_secs(20),
        }
    }
}

/// Why an endpoint could not be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Io(Arc<io::Error>),
    #[error("no answer within {CONNECT_TIMEOUT:?}")]
    Timeout,
    #[error("the peer closed the connection before its HTTP/2 preface")]
    NoPreface,
    #[error("HTTP/2 handshake: {0}")]
    Handshake(Arc<hyper::Error>),
}

/// A ready connection. Cheap to share; the last clone's drop lets the socket close.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: http2::SendRequest<RequestBody>,
    in_flight: AtomicU32,
    max_streams: u32,
}

/// An RPC counted on its connection, until dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Connection>);

impl Connection {
    /// A handle to send one request with.
    pub(crate) fn sender(&self) -> http2::SendRequest<RequestBody> {
        self.sender.clone()
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Whether another stream may start at once.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.max_streams
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one RPC from now until the drop of the guard.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects, and waits for the server's preface (see [`super::preface`]).
///
/// Cancel-safe: dropping the future closes the socket.
pub(crate) async fn dial(
    address: SocketAddr,
    keepalive: Keepalive,
) -> Result<(Arc<Connection>, Driver), ConnectError> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, handshake(address, keepalive));
    connected.await.map_err(|_| ConnectError::Timeout)?
}

async fn handshake(
    address: SocketAddr,
    keepalive: Keepalive,
) -> Result<(Arc<Connection>, Driver), ConnectError> {
    let io = |error| ConnectError::Io(Arc::new(error));
    let failed = |error| ConnectError::Handshake(Arc::new(error));
    let socket = TcpStream::connect(address).await.map_err(io)?;
    // RPC messages are small and latency matters: no Nagle.
    socket.set_nodelay(true).map_err(io)?;
    let (socket, settings) = Preface::watch(socket);
    let (sender, mut driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(failed)?;
    let settings = tokio::select! {
        settings = settings => settings.map_err(|_| ConnectError::NoPreface)?,
        // How it ended says less than when it did.
        _ = &mut driver => return Err(ConnectError::NoPreface),
    };
    let connection = Connection {
        sender,
        in_flight: AtomicU32::new(0),
        max_streams: settings.max_concurrent_streams.unwrap_or(u32::MAX),
    };
    Ok((Arc::new(connection), driver))
}
