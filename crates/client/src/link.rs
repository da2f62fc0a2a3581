//! A connection to a control plane, as the service that tonic's clients call.

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

use crate::bootstrap::Server;
use crate::credentials::{CallError, Shown};
use crate::transport::{self, DialError, Ends, Keepalive};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a control plane, made as its bootstrap says. Every call shows the server's call credentials; over
/// plaintext none does.
///
/// It closes after the last clone is dropped, and all calls ended. It does not reconnect.
#[derive(Debug, Clone)]
pub struct Link {
    sender: SendRequest<Body>,
    ends: Ends,
    origin: Uri,
    shown: Shown,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// As [`transport::dial`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    /// Outside a tokio runtime.
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
            ends: connected.ends,
            origin: origin.build().unwrap_or_default(),
            shown: Shown::to(server),
        })
    }

    /// Between whom it is.
    #[must_use]
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// What generated and other clients of tonic call, with the server's name in every request.
    #[must_use]
    pub fn grpc(self) -> Grpc<Self> {
        let origin = self.origin.clone();
        Grpc::with_origin(self, origin)
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.sender.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut sender = self.sender.clone();
        if self.shown.is_empty() {
            return Box::pin(async move { Ok(sender.send_request(request).await?) });
        }
        let shown = self.shown.clone();
        Box::pin(async move {
            let added = shown.add_to(request.headers_mut()).await;
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
