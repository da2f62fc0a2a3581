//! Connects, and shakes hands in HTTP/2.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::preface::{Preface, Settings};
use super::uri::{Place, ServerUri};

/// gRPC's minimum connect timeout (connection-backoff.md): for each address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// When an unanswered ping ends a connection (gRFC A8). Servers refuse clients that ping more often than every
/// 5 minutes unless told otherwise, hence the default interval.
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

/// Why a server could not be connected to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The socket.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The name has no address.
    #[error("the name has no address")]
    NoAddress,
    /// Nobody answered.
    #[error("no answer within {CONNECT_TIMEOUT:?}")]
    Timeout,
    /// The peer does not speak HTTP/2, or hung up.
    #[error("the peer closed the connection before its HTTP/2 preface")]
    NoPreface,
    /// HTTP/2 itself.
    #[error("HTTP/2 handshake: {0}")]
    Handshake(Arc<hyper::Error>),
}

/// Moves a connection; ends when it takes no more requests.
///
/// Requests that are on it go on: hyper keeps the socket in a task of its own until the last one ended.
pub type Driver<B> = http2::Connection<TokioIo<Preface<Socket>>, B, TokioExecutor>;

/// A connection that is ready.
#[derive(Debug)]
pub struct Connected<B> {
    /// Sends requests; cheap to clone. The socket closes after the last clone is dropped.
    pub sender: http2::SendRequest<B>,
    /// What the server said of itself.
    pub settings: Settings,
}

/// Connects, and waits for the server's preface.
///
/// # Errors
/// [`DialError`]: that of the last address; the first one that answers is enough.
///
/// # Cancel safety
/// Dropping the future closes the socket.
pub async fn dial<B>(
    uri: &ServerUri,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let resolving = timeout(CONNECT_TIMEOUT, targets(uri.place()));
    let targets = resolving.await.map_err(|_| DialError::Timeout)??;
    let mut failure = DialError::NoAddress;
    for target in &targets {
        // Each has its own time: one that swallows everything does not take it from the next.
        match timeout(CONNECT_TIMEOUT, handshake(target, keepalive)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = DialError::Timeout,
        }
    }
    Err(failure)
}

/// One thing to connect a socket to.
enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

async fn targets(place: &Place) -> Result<Vec<Target>, DialError> {
    Ok(match place {
        Place::Addresses(addresses) => addresses.iter().copied().map(Target::Tcp).collect(),
        Place::Name(host, port) => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            let found = found.map_err(|error| DialError::Io(Arc::new(error)))?;
            found.map(Target::Tcp).collect()
        }
        Place::Unix(path) => vec![Target::Unix(path.clone())],
    })
}

async fn handshake<B>(
    target: &Target,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let failed = |error| DialError::Handshake(Arc::new(error));
    let socket = connect(target)
        .await
        .map_err(|error| DialError::Io(Arc::new(error)))?;
    let (socket, settings) = Preface::watch(socket);
    let (sender, mut driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(failed)?;
    let settings = tokio::select! {
        settings = settings => settings.map_err(|_| DialError::NoPreface)?,
        // When it ended says more than how.
        _ = &mut driver => return Err(DialError::NoPreface),
    };
    Ok((Connected { sender, settings }, driver))
}

async fn connect(target: &Target) -> io::Result<Socket> {
    let tcp = match target {
        Target::Tcp(address) => TcpStream::connect(address).await?,
        Target::Unix(path) => return UnixStream::connect(path).await.map(Socket::Unix),
    };
    // RPC messages are small and latency matters: no Nagle.
    tcp.set_nodelay(true)?;
    Ok(Socket::Tcp(tcp))
}

/// A stream socket of any kind.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// In the file system.
    Unix(UnixStream),
}

macro_rules! either {
    ($self:ident, $socket:ident => $call:expr) => {
        match $self.get_mut() {
            Socket::Tcp($socket) => $call,
            Socket::Unix($socket) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, socket => Pin::new(socket).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, socket => Pin::new(socket).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
