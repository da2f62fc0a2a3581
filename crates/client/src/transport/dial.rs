//! Connects, and shakes hands in HTTP/2.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::preface::{Preface, Settings};
use super::socket::Socket;
use super::uri::{Place, ServerUri};
use crate::credentials::{ChannelCredentials, Insecure};

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

/// What is spoken over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Http {
    /// HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

impl Http {
    /// Its name in TLS (RFC 7301).
    #[must_use]
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::One => b"http/1.1",
            Self::Two => b"h2",
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
    /// The credentials of the connection: theirs are not good enough for us, or ours for them.
    #[error("security handshake: {0}")]
    Security(Arc<io::Error>),
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
    /// Between whom it is.
    pub ends: Ends,
}

/// The two ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Over TCP.
    Tcp {
        /// This one.
        local: SocketAddr,
        /// The other one.
        remote: SocketAddr,
    },
    /// In the file system; both have the path.
    Unix(PathBuf),
}

/// A body that can be sent: what hyper asks of one.
pub trait RequestBody:
    Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// Connects in plaintext, and waits for the server's preface.
///
/// # Errors
/// [`DialError`]: that of the last address; the first one that answers is enough.
///
/// # Cancel safety
/// Dropping the future closes the socket.
pub async fn dial<B: RequestBody>(
    uri: &ServerUri,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError> {
    dial_with(uri, &Insecure, keepalive).await
}

/// Connects as these credentials say, and waits for the server's preface.
///
/// # Errors
/// As [`dial`].
///
/// # Cancel safety
/// As [`dial`].
pub async fn dial_with<B: RequestBody>(
    uri: &ServerUri,
    credentials: &dyn ChannelCredentials,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError> {
    first_of(uri, |target| async move {
        let (socket, ends) = secured(target, uri, credentials, Http::Two).await?;
        handshake(socket, ends, keepalive).await
    })
    .await
}

/// Connects as these credentials say, for what is neither HTTP/2 nor counted here.
///
/// # Errors
/// As [`dial`].
///
/// # Cancel safety
/// As [`dial`].
pub async fn open(
    uri: &ServerUri,
    credentials: &dyn ChannelCredentials,
    http: Http,
) -> Result<Socket, DialError> {
    let (socket, _) = first_of(uri, |target| secured(target, uri, credentials, http)).await?;
    Ok(socket)
}

/// What comes of the first address that answers.
async fn first_of<T, F: Future<Output = Result<T, DialError>>>(
    uri: &ServerUri,
    attempt: impl Fn(Target) -> F,
) -> Result<T, DialError> {
    let resolving = timeout(CONNECT_TIMEOUT, targets(uri.place()));
    let targets = resolving.await.map_err(|_| DialError::Timeout)??;
    let mut failure = DialError::NoAddress;
    for target in targets {
        // Each has its own time: one that swallows everything does not take it from the next.
        match timeout(CONNECT_TIMEOUT, attempt(target)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = DialError::Timeout,
        }
    }
    Err(failure)
}

async fn secured(
    target: Target,
    uri: &ServerUri,
    credentials: &dyn ChannelCredentials,
    http: Http,
) -> Result<(Socket, Ends), DialError> {
    let connected = connect(target).await;
    let (socket, ends) = connected.map_err(|error| DialError::Io(Arc::new(error)))?;
    let secured = credentials.secure(socket, uri.host(), http).await;
    let socket = secured.map_err(|error| DialError::Security(Arc::new(error)))?;
    Ok((socket, ends))
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

async fn handshake<B: RequestBody>(
    socket: Socket,
    ends: Ends,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError> {
    let failed = |error| DialError::Handshake(Arc::new(error));
    let (socket, mut settings) = Preface::watch(socket);
    let (sender, mut driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(failed)?;
    let told = tokio::select! {
        told = &mut settings => told.ok(),
        _ = &mut driver => settings.try_recv().ok(),
    };
    match told {
        Some(Ok(settings)) => {
            let connected = Connected {
                sender,
                settings,
                ends,
            };
            Ok((connected, driver))
        }
        // That is TLS speaking: in 1.3 a server looks at its client's certificate when the client thinks that the
        // handshake is over.
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(DialError::Security(Arc::new(error)))
        }
        // When it ended says more than how.
        Some(Err(_)) | None => Err(DialError::NoPreface),
    }
}

async fn connect(target: Target) -> io::Result<(Socket, Ends)> {
    let tcp = match target {
        Target::Tcp(address) => TcpStream::connect(address).await?,
        Target::Unix(path) => {
            let unix = UnixStream::connect(&path).await?;
            return Ok((Socket::Unix(unix), Ends::Unix(path)));
        }
    };
    // RPC messages are small and latency matters: no Nagle.
    tcp.set_nodelay(true)?;
    let ends = Ends::Tcp {
        local: tcp.local_addr()?,
        remote: tcp.peer_addr()?,
    };
    Ok((Socket::Tcp(tcp), ends))
}
