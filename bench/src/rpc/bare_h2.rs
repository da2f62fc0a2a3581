//! Round robin over connections of the `h2` crate, and nothing else: the floor of a channel in Rust.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http_body::{Body as _, Frame};
use tokio::net::TcpStream;
use tonic::body::Body;
use tower_service::Service;

/// Windows of hyper's client by default, so that both floors differ in nothing else.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 5 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connections in turn. No deadlines, no keepalive, no retries, no counts.
#[derive(Debug, Clone)]
pub(crate) struct H2RoundRobin {
    connections: Arc<[SendRequest<Bytes>]>,
    next: Arc<AtomicUsize>,
}

impl H2RoundRobin {
    /// Connects to every address.
    pub(crate) async fn connect(addresses: &[String]) -> Result<Self, String> {
        let mut connections = Vec::new();
        for address in addresses {
            let connected = connect(address).await;
            connections.push(connected.map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(Self {
            connections: connections.into(),
            next: Arc::default(),
        })
    }
}

async fn connect(address: &str) -> Result<SendRequest<Bytes>, BoxError> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake(socket)
        .await?;
    tokio::spawn(connection);
    Ok(sender)
}

impl Service<http::Request<Body>> for H2RoundRobin {
    type Response = http::Response<H2Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let mut sender = self.connections[index].clone();
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let head = http::Request::from_parts(head, ());
            let (response, mut stream) = sender.send_request(head, false)?;
            // A unary request is one frame and the end, both ready at once.
            let first = poll_fn(|cx| Poll::Ready(poll_data(&mut body, cx))).await;
            let second = match &first {
                Poll::Ready(Some(_)) => poll_fn(|cx| Poll::Ready(poll_data(&mut body, cx))).await,
                _ => Poll::Pending,
            };
            match (first, second) {
                (Poll::Ready(Some(data)), Poll::Ready(None)) => {
                    stream.send_data(data?, true)?;
                    drop(stream);
                }
                (first, second) => {
                    let taken = [first, second].into_iter().filter_map(|frame| match frame {
                        Poll::Ready(frame) => frame,
                        Poll::Pending => None,
                    });
                    for data in taken {
                        stream.send_data(data?, false)?;
                    }
                    tokio::spawn(pump(body, stream));
                }
            }
            Ok(response.await?.map(H2Body))
        })
    }
}

fn poll_data(body: &mut Body, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, tonic::Status>>> {
    let frame = ready!(Pin::new(body).poll_frame(cx));
    Poll::Ready(frame.map(|frame| Ok(frame?.into_data().unwrap_or_default())))
}

async fn pump(mut body: Body, mut stream: SendStream<Bytes>) {
    while let Some(Ok(data)) = poll_fn(|cx| poll_data(&mut body, cx)).await {
        if stream.send_data(data, false).is_err() {
            return;
        }
    }
    // An error means that the stream has ended already.
    let _ = stream.send_data(Bytes::new(), true);
}

/// Body of a response.
pub(crate) struct H2Body(RecvStream);

impl http_body::Body for H2Body {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(data) = ready!(self.0.poll_data(cx)) {
            let data = data?;
            self.0.flow_control().release_capacity(data.len())?;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.0.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
