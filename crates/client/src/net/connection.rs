//! A connection to a control plane, as a service for tonic's clients.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tower_service::Service;

use super::credentials::{CallAuth, CallError};
use super::transport::{self, DialError, Keepalive, SocketAddresses};
use crate::bootstrap::Server;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a control plane, with the channel and call credentials of its bootstrap entry.
///
/// Every call carries the server's call credentials, except over plaintext (gRFC A97). The connection closes after the last
/// clone is dropped and all calls have ended. It does not reconnect.
#[derive(Debug, Clone)]
pub struct ServerConnection {
    sender: SendRequest<Body>,
    addresses: SocketAddresses,
    origin: Uri,
    call_auth: CallAuth,
}

impl ServerConnection {
    /// Connects to a server, and waits until the server's SETTINGS frame has arrived.
    ///
    /// # Errors
    /// As [`transport::dial`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn connect(server: &Server, keepalive: Keepalive) -> Result<Self, DialError> {
        let address = &server.address;
        let dialled = transport::dial_with(address, &*server.credentials, keepalive).await;
        let (connected, driver) = dialled?;
        tokio::spawn(driver);
        let origin = Uri::builder()
            .scheme(if server.credentials.is_private() {
                "https"
            } else {
                "http"
            })
            .authority(address.authority())
            .path_and_query("/");
        Ok(Self {
            sender: connected.sender,
            addresses: connected.addresses,
            origin: origin.build().unwrap_or_default(),
            call_auth: CallAuth::new(server),
        })
    }

    /// Returns the local and remote address of the socket.
    #[must_use]
    pub fn addresses(&self) -> &SocketAddresses {
        &self.addresses
    }

    /// Returns the service that tonic's generated clients call; every request carries the server's name as `:authority`.
    #[must_use]
    pub fn grpc(self) -> Grpc<Self> {
        let origin = self.origin.clone();
        Grpc::with_origin(self, origin)
    }
}

impl Service<Request<Body>> for ServerConnection {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.sender.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut sender = self.sender.clone();
        // The usual case needs no future of its own around the call credentials.
        if self.call_auth.is_empty() {
            return Box::pin(async move { Ok(sender.send_request(request).await?) });
        }
        let call_auth = self.call_auth.clone();
        Box::pin(async move {
            let added = call_auth.add_to(request.headers_mut()).await;
            // gRFC A97: without its credentials, the call ends with their status and is not sent (C-34).
            added.map_err(Status::from)?;
            Ok(sender.send_request(request).await?)
        })
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable(why) => Self::unavailable(why),
            CallError::Unauthenticated(why) => Self::unauthenticated(why),
        }
    }
}
