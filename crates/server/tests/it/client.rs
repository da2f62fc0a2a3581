//! A gRPC client on bare hyper, which writes the bytes of each message itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::SOON;

pub(crate) const SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// A request body whose frames come from a channel.
pub(crate) struct Feed(mpsc::UnboundedReceiver<Bytes>);

impl Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A connection for several calls.
pub(crate) struct Client(SendRequest<Feed>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        Self::over(socket).await.unwrap()
    }

    /// Starts HTTP/2 on this socket.
    pub(crate) async fn over<S>(socket: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Opens a call. The server must send response headers before the first request (C-64).
    pub(crate) async fn open(&mut self, path: &str) -> Stream {
        self.try_open(path).await.unwrap()
    }

    /// Opens a call on a connection that may have ended.
    pub(crate) async fn try_open(&mut self, path: &str) -> hyper::Result<Stream> {
        let (feed, body) = mpsc::unbounded_channel();
        let response = self.call(path, Feed(body)).await?;
        Ok(Stream::new(Some(feed), response))
    }

    /// Opens a call with one request and half-closes it.
    pub(crate) async fn open_with(&mut self, path: &str, request: &impl Message) -> Stream {
        let (feed, body) = mpsc::unbounded_channel();
        feed.send(framed(request)).unwrap();
        drop(feed);
        let response = self.call(path, Feed(body)).await.unwrap();
        Stream::new(None, response)
    }

    /// Makes a unary call.
    pub(crate) async fn unary<M: Message + Default>(
        &mut self,
        path: &str,
        request: &impl Message,
    ) -> M {
        let (feed, body) = mpsc::unbounded_channel();
        feed.send(framed(request)).unwrap();
        drop(feed);
        let body = self.call(path, Feed(body)).await.unwrap().into_body();
        let bytes = timeout(SOON, body.collect())
            .await
            .unwrap()
            .unwrap()
            .to_bytes();
        M::decode(&bytes[5..]).unwrap()
    }

    /// Returns the HTTP status of a GET request.
    pub(crate) async fn get(&mut self, path: &str) -> http::StatusCode {
        let (feed, body) = mpsc::unbounded_channel();
        drop(feed);
        let request = Request::get(format!("http://test{path}")).body(Feed(body));
        let response = timeout(SOON, self.0.send_request(request.unwrap())).await;
        response.expect("no response").unwrap().status()
    }

    async fn call(&mut self, path: &str, body: Feed) -> hyper::Result<http::Response<Incoming>> {
        let request = Request::post(format!("http://test{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .unwrap();
        timeout(SOON, self.0.send_request(request))
            .await
            .expect("no response")
    }
}

/// Encodes a message with its gRPC prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}

/// One gRPC call, with the response headers received.
pub(crate) struct Stream {
    feed: Option<mpsc::UnboundedSender<Bytes>>,
    body: Incoming,
    buffer: BytesMut,
    headers: HeaderMap,
}

impl Stream {
    fn new(feed: Option<mpsc::UnboundedSender<Bytes>>, response: http::Response<Incoming>) -> Self {
        Self {
            feed,
            headers: response.headers().clone(),
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// Opens a call on its own connection.
    pub(crate) async fn open(address: SocketAddr, path: &str) -> Self {
        Client::connect(address).await.open(path).await
    }

    /// Sends bytes, which need not be a valid message.
    pub(crate) fn send_raw(&self, bytes: impl Into<Bytes>) {
        // The server may have ended the call. The test sees that elsewhere.
        let _ = self.feed.as_ref().unwrap().send(bytes.into());
    }

    pub(crate) fn send(&self, message: &impl Message) {
        self.send_raw(framed(message));
    }

    /// Half-closes the call: no request follows.
    pub(crate) fn half_close(&mut self) {
        self.feed = None;
    }

    pub(crate) async fn sotw(&mut self) -> DiscoveryResponse {
        self.message().await
    }

    /// Returns the next response after acknowledging it.
    pub(crate) async fn sotw_acked(&mut self) -> DiscoveryResponse {
        let response = self.sotw().await;
        self.send(&ack(&response));
        response
    }

    pub(crate) async fn delta(&mut self) -> DeltaDiscoveryResponse {
        self.message().await
    }

    /// Returns the next message of the stream.
    pub(crate) async fn message<M: Message + Default>(&mut self) -> M {
        timeout(SOON, async {
            loop {
                if let Some(message) = self.buffered() {
                    return message;
                }
                let frame = self
                    .body
                    .frame()
                    .await
                    .expect("the stream has ended")
                    .unwrap();
                match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => panic!("the stream has ended: {:?}", frame.trailers_ref()),
                }
            }
        })
        .await
        .expect("no message came")
    }

    fn buffered<M: Message + Default>(&mut self) -> Option<M> {
        let length = self
            .buffer
            .get(1..5)?
            .try_into()
            .map(u32::from_be_bytes)
            .unwrap() as usize;
        if self.buffer.len() < 5 + length {
            return None;
        }
        self.buffer.advance(5);
        Some(M::decode(self.buffer.split_to(length)).unwrap())
    }

    /// Waits for the end of the stream, with or without an error.
    pub(crate) async fn is_over(&mut self) {
        let over = async { while let Some(Ok(_)) = self.body.frame().await {} };
        timeout(SOON, over).await.expect("the stream does not end");
    }

    /// Waits for the end of the call. Returns its gRPC status code and message.
    pub(crate) async fn status(&mut self) -> (u32, String) {
        timeout(SOON, async {
            let mut found = self.headers.clone();
            while let Some(frame) = self.body.frame().await {
                if let Ok(trailers) = frame.unwrap().into_trailers() {
                    found = trailers;
                }
            }
            let text = |name| found.get(name).map_or("", |value| value.to_str().unwrap());
            (
                text("grpc-status").parse().expect("no grpc-status"),
                text("grpc-message").to_owned(),
            )
        })
        .await
        .expect("the stream does not end")
    }
}

pub(crate) fn node() -> Option<Node> {
    Some(Node {
        id: "test-1".into(),
        cluster: "tests".into(),
        ..Node::default()
    })
}

/// Creates a first SotW request.
pub(crate) fn ask(type_url: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: node(),
        type_url: type_url.into(),
        resource_names: names.iter().map(|name| (*name).into()).collect(),
        ..DiscoveryRequest::default()
    }
}

/// Creates the ACK of a SotW response.
pub(crate) fn ack(response: &DiscoveryResponse) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: response.type_url.clone(),
        version_info: response.version_info.clone(),
        response_nonce: response.nonce.clone(),
        ..DiscoveryRequest::default()
    }
}

/// Creates a first delta request.
pub(crate) fn subscribe(type_url: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: node(),
        type_url: type_url.into(),
        resource_names_subscribe: names.iter().map(|name| (*name).into()).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

/// Creates the ACK of a delta response.
pub(crate) fn ack_delta(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    }
}
