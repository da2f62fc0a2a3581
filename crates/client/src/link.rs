//! A connection to a control plane, as the service that tonic's clients call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tower_service::Service;

use crate::bootstrap::Server;
use crate::credentials::{CallCredentials, CallError, Configured};
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
    credentials: Arc<[Configured<dyn CallCredentials>]>,
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
        let is_private = server.credentials.is_private();
        if !is_private && !server.call_credentials.is_empty() {
            let uri = &server.uri;
            tracing::warn!(target: "oxds::credentials", server = %uri, "call credentials are not sent over plaintext");
        }
        let origin = Uri::builder()
            .scheme(if is_private { "https" } else { "http" })
            .authority(address.authority())
            .path_and_query("/");
        Ok(Self {
            sender: connected.sender,
            ends: connected.ends,
            origin: origin.build().unwrap_or_default(),
            credentials: match is_private {
                true => server.call_credentials.iter().cloned().collect(),
                false => Arc::default(),
            },
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
        if self.credentials.is_empty() {
            return Box::pin(async move { Ok(sender.send_request(request).await?) });
        }
        let credentials = Arc::clone(&self.credentials);
        Box::pin(async move {
            show(&credentials, request.headers_mut())
                .await
                .map_err(Status::from)?;
            Ok(sender.send_request(request).await?)
        })
    }
}

/// All credentials, one after the other.
async fn show(
    credentials: &[Configured<dyn CallCredentials>],
    headers: &mut HeaderMap,
) -> Result<(), CallError> {
    for credentials in credentials {
        for (name, value) in &credentials.headers().await? {
            headers.append(name, value.clone());
        }
    }
    Ok(())
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable(why) => Self::unavailable(why),
            CallError::Unauthenticated(why) => Self::unauthenticated(why),
        }
    }
}
