//! Connects a socket, and performs the handshakes of TLS and HTTP/2.

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

use super::http::Http;
use super::preface::{Preface, Settings};
use super::socket::Socket;
use super::uri::{DialTarget, ServerUri};
use crate::net::credentials::{ChannelCredentials, Insecure};

/// Time limit for each address: gRPC's minimum connect timeout (connection-backoff.md).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP/2 keepalive: when an unanswered ping closes a connection (gRFC A8).
///
/// The default interval is 5 minutes because servers reject clients that ping more often, unless configured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keepalive {
    /// Time without traffic after which a ping is sent: 5 min by default.
    pub interval: Duration,
    /// Time limit for the answer to a ping: 20 s by default.
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

/// Reason why a connection could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The socket could not be connected.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The host name resolves to no address.
    #[error("the name has no address")]
    NoAddress,
    /// The server did not answer in time.
    #[error("no answer within {CONNECT_TIMEOUT:?}")]
    Timeout,
    /// The server does not speak HTTP/2, or closed the connection.
    #[error("the peer closed the connection before its HTTP/2 preface")]
    NoPreface,
    /// The security handshake failed: this client rejected the server's credentials, or the server this client's.
    #[error("security handshake: {0}")]
    Security(Arc<io::Error>),
    /// The HTTP/2 handshake failed.
    #[error("HTTP/2 handshake: {0}")]
    Handshake(Arc<hyper::Error>),
}

/// Future that drives a connection; it ends when the connection accepts no more requests.
///
/// Requests in progress continue after that: hyper keeps the socket in a task of its own until the last one has ended.
pub type Driver<B> = http2::Connection<TokioIo<Preface<Socket>>, B, TokioExecutor>;

/// A ready connection.
#[derive(Debug)]
pub struct Connected<B> {
    /// Handle that sends requests; cheap to clone. The socket closes after the last clone is dropped.
    pub sender: http2::SendRequest<B>,
    /// Values of the server's first SETTINGS frame.
    pub settings: Settings,
    /// Local and remote address of the socket.
    pub addresses: SocketAddresses,
}

/// Local and remote address of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddresses {
    /// Addresses of a TCP connection.
    Tcp {
        /// Address of this process.
        local: SocketAddr,
        /// Address of the peer.
        remote: SocketAddr,
    },
    /// Path of a Unix domain socket, which both sides share.
    Unix(PathBuf),
}

/// Request body that hyper can send.
pub trait RequestBody:
    Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// Connects in plaintext, and waits for the server's SETTINGS frame.
///
/// The addresses are tried in order, 20 s each; the first one that answers is used.
///
/// # Errors
/// The error of the last address, if none answers.
///
/// # Cancel safety
/// Dropping the future closes the socket.
pub async fn dial<B: RequestBody>(
    uri: &ServerUri,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError> {
    dial_with(uri, &Insecure, keepalive).await
}

/// Connects with these channel credentials, and waits for the server's SETTINGS frame.
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
    first_of(uri, |address| async move {
        let (socket, addresses) = secured(address, uri, credentials, Http::Two).await?;
        handshake(socket, addresses, keepalive).await
    })
    .await
}

/// Opens a socket with these channel credentials, without an HTTP handshake: for REST polls and other clients.
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
    let (socket, _) = first_of(uri, |address| secured(address, uri, credentials, http)).await?;
    Ok(socket)
}

/// Returns the result of the first address that answers.
async fn first_of<T, F: Future<Output = Result<T, DialError>>>(
    uri: &ServerUri,
    attempt: impl Fn(ResolvedAddress) -> F,
) -> Result<T, DialError> {
    let resolving = timeout(CONNECT_TIMEOUT, resolve(uri.target()));
    let addresses = resolving.await.map_err(|_| DialError::Timeout)??;
    let mut failure = DialError::NoAddress;
    for address in addresses {
        // Each address has its own time limit: one that never answers must not use up the time of the next.
        match timeout(CONNECT_TIMEOUT, attempt(address)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = DialError::Timeout,
        }
    }
    Err(failure)
}

async fn secured(
    address: ResolvedAddress,
    uri: &ServerUri,
    credentials: &dyn ChannelCredentials,
    http: Http,
) -> Result<(Socket, SocketAddresses), DialError> {
    let connected = connect(address).await;
    let (socket, addresses) = connected.map_err(|error| DialError::Io(Arc::new(error)))?;
    let secured = credentials.secure(socket, uri.host(), http).await;
    let socket = secured.map_err(|error| DialError::Security(Arc::new(error)))?;
    Ok((socket, addresses))
}

/// One address to connect a socket to.
enum ResolvedAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

async fn resolve(target: &DialTarget) -> Result<Vec<ResolvedAddress>, DialError> {
    Ok(match target {
        DialTarget::Addresses(addresses) => addresses
            .iter()
            .copied()
            .map(ResolvedAddress::Tcp)
            .collect(),
        DialTarget::Name(host, port) => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            let found = found.map_err(|error| DialError::Io(Arc::new(error)))?;
            found.map(ResolvedAddress::Tcp).collect()
        }
        DialTarget::Unix(path) => vec![ResolvedAddress::Unix(path.clone())],
    })
}

async fn handshake<B: RequestBody>(
    socket: Socket,
    addresses: SocketAddresses,
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
    let received = tokio::select! {
        received = &mut settings => received.ok(),
        _ = &mut driver => settings.try_recv().ok(),
    };
    match received {
        Some(Ok(settings)) => {
            let connected = Connected {
                sender,
                settings,
                addresses,
            };
            Ok((connected, driver))
        }
        // This is a TLS error: in TLS 1.3 a server checks the client's certificate after the client's handshake is complete.
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(DialError::Security(Arc::new(error)))
        }
        // For the user, it matters that the connection ended before SETTINGS, not with which error.
        Some(Err(_)) | None => Err(DialError::NoPreface),
    }
}

async fn connect(address: ResolvedAddress) -> io::Result<(Socket, SocketAddresses)> {
    let tcp = match address {
        ResolvedAddress::Tcp(address) => TcpStream::connect(address).await?,
        ResolvedAddress::Unix(path) => {
            let unix = UnixStream::connect(&path).await?;
            return Ok((Socket::Unix(unix), SocketAddresses::Unix(path)));
        }
    };
    // RPC messages are small and latency matters, so Nagle's algorithm is off.
    tcp.set_nodelay(true)?;
    let addresses = SocketAddresses::Tcp {
        local: tcp.local_addr()?,
        remote: tcp.peer_addr()?,
    };
    Ok((Socket::Tcp(tcp), addresses))
}
