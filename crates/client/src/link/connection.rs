//! A connection to a control plane, as a service for tonic's clients.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Frame;
use hyper::body::Incoming;
use oxds_net::transport::{
    self, DialError, GoingAway, Keepalive, RequestSender, SendError, SocketAddresses,
};
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tower_service::Service;

use super::call_auth::CallAuth;
use crate::bootstrap::Server;
use crate::credentials::CallError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a control plane, with the channel and call credentials of its bootstrap entry.
///
/// Every call carries the server's call credentials, except over plaintext (gRFC A97). The connection closes after the
/// last clone is dropped and all calls have ended. It does not reconnect.
#[derive(Debug, Clone)]
pub struct ServerConnection {
    sender: RequestSender<Body>,
    going_away: GoingAway,
    /// A call failed in the transport.
    broken: Arc<AtomicBool>,
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
            going_away: connected.going_away,
            broken: Arc::default(),
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

    /// Returns whether another call may be made: the connection is not closed, the server has sent no GOAWAY, and no
    /// call has failed in the transport.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
            && !self.going_away.is_received()
            && !self.broken.load(Ordering::Relaxed)
    }

    /// Returns the service that tonic's generated clients call; every request carries the server's name as
    /// `:authority`.
    #[must_use]
    pub fn grpc(self) -> Grpc<Self> {
        let origin = self.origin.clone();
        Grpc::with_origin(self, origin)
    }
}

impl Service<Request<Body>> for ServerConnection {
    type Response = Response<ServerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // hyper queues requests without a limit.
        Poll::Ready(if self.sender.is_closed() {
            Err(closed().into())
        } else {
            Ok(())
        })
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (sender, broken) = (self.sender.clone(), Arc::clone(&self.broken));
        // The usual case needs no call credentials.
        let call_auth = (!self.call_auth.is_empty()).then(|| self.call_auth.clone());
        Box::pin(async move {
            if let Some(call_auth) = call_auth {
                let added = call_auth.add_to(request.headers_mut()).await;
                // gRFC A97: without its credentials, the call ends with their status and is not sent (C-34).
                added.map_err(without_credentials)?;
            }
            let error: BoxError = match sender.send(request).await {
                Ok(response) => {
                    return Ok(response.map(|incoming| ServerBody { incoming, broken }));
                }
                Err(SendError::Failed(error)) => error.into(),
                Err(SendError::Unsent(_)) => closed().into(),
            };
            broken.store(true, Ordering::Relaxed);
            Err(error)
        })
    }
}

/// Returns the status of a call for which the connection was closed too early.
fn closed() -> Status {
    Status::unavailable("the server closed the connection before the call")
}

/// Body of a control plane's response.
#[derive(Debug)]
pub struct ServerBody {
    incoming: Incoming,
    broken: Arc<AtomicBool>,
}

impl http_body::Body for ServerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.broken.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.incoming.size_hint()
    }
}

/// Returns the status of a call without its credentials.
fn without_credentials(error: CallError) -> Status {
    match error {
        CallError::Unauthenticated(why) => Status::unauthenticated(why),
        error => Status::unavailable(error.to_string()),
    }
}
