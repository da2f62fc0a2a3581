//! A backend in bytes: it does with frames what no HTTP/2 library allows, and shows those of requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const PREFACE: usize = 24;
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// End of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoAway {
    when: When,
    last_stream: u32,
    code: u32,
    close: bool,
    /// Number of pings before a request is answered.
    pings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    /// Nothing is sent after the SETTINGS.
    Silent,
    AtOnce,
    OnRequest,
}

impl GoAway {
    /// Requests are answered.
    pub(crate) fn never() -> Self {
        Self {
            when: When::Never,
            last_stream: 0,
            code: 0,
            close: false,
            pings: 0,
        }
    }

    /// Requests and pings are read, and never answered.
    pub(crate) fn silent() -> Self {
        Self {
            when: When::Silent,
            ..Self::never()
        }
    }

    /// A request is answered only after this number of pings.
    pub(crate) fn after_pings(self, pings: usize) -> Self {
        Self { pings, ..self }
    }

    /// GOAWAY(NO_ERROR) follows the server's SETTINGS.
    pub(crate) fn at_once(last_stream: u32) -> Self {
        Self {
            when: When::AtOnce,
            last_stream,
            ..Self::never()
        }
    }

    /// GOAWAY answers the first request.
    pub(crate) fn on_request(last_stream: u32, code: u32) -> Self {
        Self {
            when: When::OnRequest,
            last_stream,
            code,
            ..Self::never()
        }
    }

    /// The socket closes after the GOAWAY.
    pub(crate) fn and_close(self) -> Self {
        Self {
            close: true,
            ..self
        }
    }

    fn frame(self) -> Vec<u8> {
        let payload = [self.last_stream.to_be_bytes(), self.code.to_be_bytes()].concat();
        frame(GOAWAY, 0, 0, &payload)
    }
}

/// A server that answers unary calls with "hello", and ends connections on command.
#[derive(Debug)]
pub(crate) struct RawBackend {
    address: SocketAddr,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicUsize,
    requests: AtomicUsize,
    pings: AtomicUsize,
}

impl RawBackend {
    /// Starts a backend whose n-th connection, counted from 0, ends like `end(n)`.
    pub(crate) async fn start(end: impl Fn(usize) -> GoAway + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let counting = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let end = end(counting.accepted.fetch_add(1, Ordering::Relaxed));
                // An error means that the client has closed the connection.
                tokio::spawn(serve(socket, end, Arc::clone(&counting)));
            }
        });
        Self {
            address,
            counts,
            accepting,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// Number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Number of pings so far.
    pub(crate) fn pings(&self) -> usize {
        self.counts.pings.load(Ordering::Relaxed)
    }
}

impl Drop for RawBackend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut socket: TcpStream, end: GoAway, counts: Arc<Counts>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    if end.when == When::AtOnce {
        socket.write_all(&end.frame()).await?;
    }
    socket.read_exact(&mut [0; PREFACE]).await?;
    let mut pings = 0;
    let mut request = None;
    loop {
        let (kind, flags, stream, payload) = read(&mut socket).await?;
        if kind == HEADERS {
            counts.requests.fetch_add(1, Ordering::Relaxed);
            if end.when == When::OnRequest {
                socket.write_all(&end.frame()).await?;
                if end.close {
                    return Ok(());
                }
            }
        }
        if kind == PING {
            pings += 1;
            counts.pings.fetch_add(1, Ordering::Relaxed);
        }
        if end.when == When::Silent {
            continue;
        }
        match kind {
            SETTINGS if flags & ACK == 0 => {
                socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            PING if flags & ACK == 0 => socket.write_all(&frame(PING, ACK, 0, &payload)).await?,
            DATA | HEADERS if flags & END_STREAM != 0 && end.when == When::Never => {
                request = Some(stream);
            }
            _ => {}
        }
        if let Some(stream) = request.take_if(|_| pings >= end.pings) {
            socket.write_all(&answer(stream)).await?;
        }
    }
}

/// Accepts a connection, answers its first request, and returns the frames of this request: type, flags, payload.
pub(crate) async fn record_request(listener: TcpListener) -> io::Result<Vec<(u8, u8, Bytes)>> {
    let (mut socket, _) = listener.accept().await?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
    socket.read_exact(&mut [0; PREFACE]).await?;
    let mut frames = Vec::new();
    loop {
        let (kind, flags, stream, payload) = read(&mut socket).await?;
        if stream > 0 {
            frames.push((kind, flags, payload.into()));
            if flags & END_STREAM != 0 {
                socket.write_all(&answer(stream)).await?;
                return Ok(frames);
            }
        }
    }
}

async fn read(socket: &mut TcpStream) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut header = [0; 9];
    socket.read_exact(&mut header).await?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).await?;
    Ok((header[3], header[4], stream, payload))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Status 200, the message "hello", and grpc-status 0.
fn answer(stream: u32) -> Vec<u8> {
    // HPACK: entry 8 of the static table is `:status: 200`; 0x00 begins a literal header with a literal name.
    let head = frame(HEADERS, END_HEADERS, stream, &[0x88]);
    let body = frame(DATA, 0, stream, b"\0\0\0\0\x05hello");
    let trailers = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        b"\0\x0bgrpc-status\x010",
    );
    [head, body, trailers].concat()
}
