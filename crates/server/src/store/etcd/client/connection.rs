//! One connection to one member, as a service for tonic's client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use oxds_net::credentials::ChannelCredentials;
use oxds_net::transport::{self, DialError, GoingAway, Keepalive, RequestSender, SendError};
use tonic::body::Body;
use tonic::client::Grpc;
use tower_service::Service;

use super::endpoint::Endpoint;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a member. It does not reconnect: the program that answers at the address next may be another member
/// or another cluster (G-29).
#[derive(Clone)]
pub(super) struct Connection {
    sender: RequestSender<Body>,
    going_away: GoingAway,
    origin: Uri,
}

/// The connection was closed before the request was written, so the request had no effect.
#[derive(Debug)]
pub(super) struct NotSent;

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the member closed the connection before the call")
    }
}

impl std::error::Error for NotSent {}

impl Connection {
    /// Connects, and waits until the member's SETTINGS frame has arrived.
    ///
    /// # Errors
    /// As [`transport::dial_with`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    pub(super) async fn open(
        endpoint: &Endpoint,
        credentials: &dyn ChannelCredentials,
        keepalive: Keepalive,
    ) -> Result<Self, DialError> {
        let dialled = transport::dial_with(endpoint.uri(), credentials, keepalive).await;
        let (connected, driver) = dialled?;
        tokio::spawn(driver);
        let scheme = if endpoint.is_secure() {
            "https"
        } else {
            "http"
        };
        let origin = Uri::builder()
            .scheme(scheme)
            .authority(endpoint.uri().authority())
            .path_and_query("/");
        Ok(Self {
            sender: connected.sender,
            going_away: connected.going_away,
            origin: origin.build().unwrap_or_default(),
        })
    }

    /// Returns whether another call may be made.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.going_away.is_received()
    }

    /// Returns a client for one call that accepts responses up to this size, in bytes.
    pub(super) fn grpc(&self, limit: usize) -> Grpc<Self> {
        let grpc = Grpc::with_origin(self.clone(), self.origin.clone());
        grpc.max_decoding_message_size(limit)
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // hyper queues requests without a limit.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sender = self.sender.clone();
        Box::pin(async move {
            sender.send(request).await.map_err(|error| match error {
                SendError::Failed(error) => error.into(),
                SendError::Unsent(_) => NotSent.into(),
            })
        })
    }
}
