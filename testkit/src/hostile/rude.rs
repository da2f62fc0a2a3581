//! A client that obeys HTTP/2 and nothing above it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::SOON;

/// One HTTP/2 connection.
#[derive(Debug)]
pub struct Rude {
    send: SendRequest<Bytes>,
    alive: watch::Sender<bool>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// A gRPC status.
    Status(u32, String),
    /// An HTTP status other than 200.
    Http(u16),
    /// A reset of the stream or its connection.
    Reset(Option<Reason>),
}

/// One call on a connection.
#[derive(Debug)]
pub struct Call {
    send: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    head: HeaderMap,
    buffer: BytesMut,
}

impl Rude {
    /// Connects. `window` is the number of bytes per stream that the server may send before the client reads.
    ///
    /// # Errors
    /// When the server does not answer with HTTP/2.
    pub async fn connect(server: SocketAddr, window: u32) -> io::Result<Self> {
        Self::over(TcpStream::connect(server).await?, window).await
    }

    /// Starts HTTP/2 on a socket.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn over<S>(socket: S, window: u32) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = Builder::new()
            .initial_window_size(window)
            .max_concurrent_reset_streams(usize::MAX)
            .handshake(socket)
            .await;
        let (send, connection) = shaken.map_err(io::Error::other)?;
        let (alive, mut living) = watch::channel(true);
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                // The socket stays open but is not polled any more: neither for data nor for pings.
                () = gone(&mut living) => {
                    while living.changed().await.is_ok() {}
                }
            }
        });
        Ok(Self { send, alive })
    }

    /// Stops answering, as a machine that has lost power.
    pub fn vanish(&self) {
        self.alive.send_replace(false);
    }

    /// Opens a call without waiting for the server.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn call(&mut self, path: &str) -> io::Result<Call> {
        self.call_with(path, &[]).await
    }

    /// Opens a call with further headers.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn call_with(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<Call> {
        let mut request = Request::post(format!("http://test{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.begin(request).await
    }

    /// Opens a call that is not gRPC: with this method and content type.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn call_as(&mut self, method: &str, path: &str, content: &str) -> io::Result<Call> {
        let request = Request::builder().method(method);
        let request = request.uri(format!("http://test{path}"));
        self.begin(request.header("content-type", content)).await
    }

    async fn begin(&mut self, request: http::request::Builder) -> io::Result<Call> {
        let ready = poll_fn(|cx| self.send.poll_ready(cx)).await;
        ready.map_err(io::Error::other)?;
        let request = request.body(()).map_err(io::Error::other)?;
        let (response, send) = self
            .send
            .send_request(request, false)
            .map_err(io::Error::other)?;
        Ok(Call {
            send,
            response: Some(response),
            body: None,
            head: HeaderMap::new(),
            buffer: BytesMut::new(),
        })
    }
}

impl Call {
    /// Sends bytes regardless of the server's window: bytes that do not fit wait in this process.
    pub fn send(&mut self, bytes: Bytes) {
        // If the call has ended, reading it reports that.
        let _ = self.send.send_data(bytes, false);
    }

    /// Sends copies of the bytes until the server has taken nothing for `pause`. Returns the number of whole copies
    /// that left.
    pub async fn flood(&mut self, bytes: &Bytes, pause: Duration) -> usize {
        for copies in 0.. {
            self.send.reserve_capacity(bytes.len());
            while self.send.capacity() < bytes.len() {
                let more = timeout(pause, poll_fn(|cx| self.send.poll_capacity(cx))).await;
                if !matches!(more, Ok(Some(Ok(_)))) {
                    return copies;
                }
            }
            self.send(bytes.clone());
        }
        unreachable!("the loop returns")
    }

    /// Resets the stream of the call.
    pub fn reset(mut self) {
        self.send.send_reset(Reason::CANCEL);
    }

    /// Returns the next message, or the end of the call. Reads nothing before it is called.
    pub async fn message(&mut self) -> Result<Bytes, Ended> {
        match timeout(SOON, self.read()).await {
            Ok(read) => read,
            Err(_) => Err(Ended::Status(u32::MAX, "nothing came".into())),
        }
    }

    /// Waits for the end of the call, and ignores messages before it.
    pub async fn ended(mut self) -> Ended {
        loop {
            if let Err(ended) = self.message().await {
                return ended;
            }
        }
    }

    async fn read(&mut self) -> Result<Bytes, Ended> {
        if let Some(response) = self.response.take() {
            let response = response.await.map_err(|error| reset(&error))?;
            if response.status() != 200 {
                return Err(Ended::Http(response.status().as_u16()));
            }
            self.head = response.headers().clone();
            self.body = Some(response.into_body());
        }
        let Some(body) = &mut self.body else {
            return Err(Ended::Reset(None));
        };
        loop {
            if let Some(message) = take(&mut self.buffer) {
                return Ok(message);
            }
            match body.data().await {
                Some(Ok(data)) => {
                    let _ = body.flow_control().release_capacity(data.len());
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(error)) => return Err(reset(&error)),
                None => {
                    let trailers = body.trailers().await.map_err(|error| reset(&error))?;
                    return Err(status(&trailers.unwrap_or_else(|| self.head.clone())));
                }
            }
        }
    }
}

/// Takes the first whole message, without its prefix.
fn take(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(*buffer.get(1..)?.first_chunk()?) as usize;
    if buffer.len() < 5 + length {
        return None;
    }
    buffer.advance(5);
    Some(buffer.split_to(length).freeze())
}

fn status(trailers: &HeaderMap) -> Ended {
    let text = |name| {
        let value = trailers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().replace("%20", " ")
    };
    let code = text("grpc-status").parse();
    code.map_or(Ended::Reset(None), |code| {
        Ended::Status(code, text("grpc-message"))
    })
}

fn reset(error: &h2::Error) -> Ended {
    Ended::Reset(error.reason())
}

/// Waits until the client vanishes. A dropped client does not: its connection ends with its last call.
async fn gone(living: &mut watch::Receiver<bool>) {
    if living.wait_for(|alive| !alive).await.is_err() {
        std::future::pending::<()>().await;
    }
}
