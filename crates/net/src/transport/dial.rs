//! Connects a socket, and performs the handshakes of TLS and HTTP/2.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::error::{CONNECT_TIMEOUT, DialError};
use super::first_of::{first_of, interleaved};
use super::inbound::{GoingAway, Inbound, ReadActivity, Settings};
use super::preface::Preface;
use super::read_first::ReadFirst;
use super::sender::{Driver, RequestBody, RequestSender};
use super::uri::{DialTarget, ServerUri};
use crate::credentials::{ChannelCredentials, Insecure};
use crate::http::Http;
use crate::socket::Socket;

/// HTTP/2 keepalive: when an unanswered ping closes a connection (gRFC A8).
///
/// The default interval is 5 minutes because servers reject clients that ping more often, unless configured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Keepalive {
    /// Time without traffic after which a ping is sent: 5 min by default.
    pub interval: Duration,
    /// Time limit for the answer to a ping: 20 s by default.
    pub timeout: Duration,
}

impl Keepalive {
    /// Sends a ping after this time without traffic, and waits this long for its answer.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration) -> Self {
        Self { interval, timeout }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self::new(Duration::from_secs(300), Duration::from_secs(20))
    }
}

/// A ready connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connected<B> {
    /// Handle that sends requests.
    pub sender: RequestSender<B>,
    /// Values of the server's first SETTINGS frame.
    pub settings: Settings,
    /// Local and remote address of the socket.
    pub addresses: SocketAddresses,
    /// Whether the server has announced the end of the connection.
    pub going_away: GoingAway,
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

/// A connected socket that is ready for a client's HTTP/2 handshake.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The socket. It reports a failed write only after all bytes of the server have been read.
    pub socket: Http2Socket,
    /// Local and remote address of the socket.
    pub addresses: SocketAddresses,
    /// Whether the server has announced the end of the connection.
    pub going_away: GoingAway,
    /// Whether bytes have arrived.
    pub activity: ReadActivity,
    /// The server's SETTINGS frame, which makes the connection ready.
    pub preface: Preface,
}

/// Socket of an HTTP/2 connection, whose inbound frames are watched.
pub type Http2Socket = Inbound<ReadFirst<Socket>>;

/// Connects in plaintext, and makes the connection with `handshake`, which should wait for the [`Preface`].
///
/// The addresses are tried in order: an attempt starts when the one before it has failed or has taken 250 ms, and has
/// 20 s. The first one that succeeds is used (RFC 8305, gRFC A61).
///
/// # Errors
/// The last error, if all attempts fail.
///
/// # Cancel safety
/// Dropping the future closes the socket.
pub async fn dial<T, F: Future<Output = Result<T, DialError>>>(
    uri: &ServerUri,
    handshake: impl Fn(Opened) -> F,
) -> Result<T, DialError> {
    dial_secured(uri, &Insecure, handshake).await
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
    dial_secured(uri, credentials, |opened| handshake(opened, keepalive)).await
}

/// Connects with these channel credentials, and makes the connection with `handshake`, which should wait for the
/// [`Preface`].
///
/// # Errors
/// As [`dial`].
///
/// # Cancel safety
/// As [`dial`].
pub async fn dial_secured<T, F: Future<Output = Result<T, DialError>>>(
    uri: &ServerUri,
    credentials: &dyn ChannelCredentials,
    handshake: impl Fn(Opened) -> F,
) -> Result<T, DialError> {
    let handshake = &handshake;
    first_of(resolve(uri.target()).await?, |address| async move {
        let (socket, addresses) = secured(address, uri, credentials, Http::Two).await?;
        handshake(Opened::new(socket, addresses)).await
    })
    .await
}

impl Opened {
    fn new(socket: Socket, addresses: SocketAddresses) -> Self {
        let (socket, settings, going_away) = Inbound::watch(ReadFirst::new(socket));
        Self {
            activity: socket.activity(),
            socket,
            addresses,
            going_away,
            preface: Preface::new(settings),
        }
    }
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
    let addresses = resolve(uri.target()).await?;
    let attempt = |address| secured(address, uri, credentials, http);
    let (socket, _) = first_of(addresses, attempt).await?;
    Ok(socket)
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
            let looking_up = tokio::net::lookup_host((host.as_str(), *port));
            let found = timeout(CONNECT_TIMEOUT, looking_up).await;
            let found = found.map_err(|_| DialError::Timeout)?;
            let found = found.map_err(|error| DialError::Io(Arc::new(error)))?;
            let found = interleaved(found.collect());
            found.into_iter().map(ResolvedAddress::Tcp).collect()
        }
        DialTarget::Unix(path) => vec![ResolvedAddress::Unix(path.clone())],
    })
}

async fn handshake<B: RequestBody>(
    opened: Opened,
    keepalive: Keepalive,
) -> Result<(Connected<B>, Driver<B>), DialError> {
    let failed = |error| DialError::Handshake(Arc::new(error));
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .handshake(TokioIo::new(opened.socket))
        .await
        .map_err(failed)?;
    let (sender, mut driver) = Driver::new(sender, connection);
    let connected = Connected {
        sender,
        settings: opened.preface.received(&mut driver).await?,
        addresses: opened.addresses,
        going_away: opened.going_away,
    };
    Ok((connected, driver))
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::error::Error as _;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use http_body_util::Empty;
    use hyper::body::{Body, Frame, SizeHint};
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;
    use crate::transport::SendError;

    /// A peer that sends SETTINGS. Once closed, it has sent a GOAWAY that covers no stream and has closed the socket,
    /// so writes fail, and the client has not read the GOAWAY yet.
    #[derive(Debug, Default)]
    struct Closing {
        state: Arc<ClosingState>,
        /// Step of the script.
        reads: u32,
    }

    #[derive(Debug, Default)]
    struct ClosingState {
        closed: AtomicBool,
        /// The connection has dropped the socket.
        dropped: AtomicBool,
        reader: Mutex<Option<Waker>>,
    }

    impl ClosingState {
        fn close(&self) {
            self.closed.store(true, Ordering::SeqCst);
            if let Some(reader) = self.reader.lock().unwrap().take() {
                reader.wake();
            }
        }
    }

    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    impl Drop for Closing {
        fn drop(&mut self) {
            self.state.dropped.store(true, Ordering::SeqCst);
        }
    }

    impl AsyncRead for Closing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match self.reads {
                0 => buf.put_slice(&SETTINGS),
                1 => {
                    *self.state.reader.lock().unwrap() = Some(cx.waker().clone());
                    if !self.state.closed.load(Ordering::SeqCst) {
                        return Poll::Pending;
                    }
                    // The event of the socket comes after that of the failed write.
                    self.reads += 1;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                2 => buf.put_slice(&GOAWAY),
                _ => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
            self.reads += 1;
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Closing {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(if self.state.closed.load(Ordering::SeqCst) {
                Err(io::ErrorKind::BrokenPipe.into())
            } else {
                Ok(buf.len())
            })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// An empty body. hyper asks for its size between the check of the connection and the use of it; the peer closes
    /// then.
    struct ClosesPeer(Arc<ClosingState>);

    impl Body for ClosesPeer {
        type Data = bytes::Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<bytes::Bytes>, Infallible>>> {
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            self.0.close();
            // The task of the connection was woken on this thread, so another thread must take it over.
            tokio::task::block_in_place(|| {
                let began = Instant::now();
                while !self.0.dropped.load(Ordering::SeqCst) {
                    assert!(began.elapsed() < Duration::from_secs(20));
                    std::thread::yield_now();
                }
            });
            SizeHint::default()
        }
    }

    /// Connects to a peer, sends a request, and returns the cause of its failure.
    async fn failed_request<B: RequestBody>(body: impl FnOnce(Arc<ClosingState>) -> B) -> String {
        let peer = Closing::default();
        let state = Arc::clone(&peer.state);
        let addresses = SocketAddresses::Unix(PathBuf::new());
        let opened = Opened::new(Socket::secured(peer), addresses);
        let shaken = handshake(opened, Keepalive::default()).await;
        let (connected, driver) = shaken.unwrap();
        tokio::spawn(driver);
        // Lets the connection write the ACK of the SETTINGS.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let request = ::http::Request::post("http://test/").body(body(state));
        let sent = connected.sender.send(request.unwrap()).await;
        let Err(SendError::Failed(error)) = sent else {
            panic!("the request was written")
        };
        assert!(connected.going_away.is_received());
        error.source().unwrap().to_string()
    }

    #[tokio::test]
    async fn goaway_is_read_although_the_write_fails() {
        let cause = failed_request(|peer| {
            peer.closed.store(true, Ordering::SeqCst);
            Empty::<bytes::Bytes>::new()
        });
        let cause = cause.await;
        assert!(cause.starts_with("connection error received"), "{cause}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn goaway_stays_the_reason_after_the_end() {
        let cause = failed_request(ClosesPeer).await;
        assert!(cause.starts_with("connection error received"), "{cause}");
    }

    #[tokio::test]
    async fn ended_connection_returns_the_request() {
        let addresses = SocketAddresses::Unix(PathBuf::new());
        let peer = Socket::secured(Closing::default());
        let shaken = handshake(Opened::new(peer, addresses), Keepalive::default()).await;
        let (connected, driver) = shaken.unwrap();
        // A call that waits keeps no sender: otherwise hyper's queue, and a request in it, would outlive the
        // connection.
        let sender = connected.sender.clone();
        assert!(!sender.is_closed());
        drop(driver);
        assert!(sender.is_closed());
        let request = ::http::Request::post("http://test/").body(Empty::<bytes::Bytes>::new());
        let sent = sender.send(request.unwrap()).await;
        assert!(matches!(sent, Err(SendError::Unsent(_))));
    }
}
