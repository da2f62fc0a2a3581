//! A connection to another's port: what a test driver asks by.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use tower_service::Service;

/// One HTTP/2 connection, without reconnecting.
#[derive(Clone, Debug)]
pub struct Connection {
    sender: http2::SendRequest<Body>,
    address: SocketAddr,
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {source}")]
pub struct ConnectError {
    /// With whom.
    pub address: SocketAddr,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or whoever does speaks no HTTP/2.
    pub async fn open(address: SocketAddr) -> Result<Self, ConnectError> {
        let failed =
            |source: Arc<dyn std::error::Error + Send + Sync>| ConnectError { address, source };
        let socket = TcpStream::connect(address)
            .await
            .map_err(|error| failed(Arc::new(error)))?;
        let _ = socket.set_nodelay(true);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .map_err(|error| failed(Arc::new(error)))?;
        tokio::spawn(connection);
        Ok(Self { sender, address })
    }

    /// Calls a unary method.
    ///
    /// # Errors
    /// What the other side answers; `UNKNOWN` if the connection is gone.
    pub async fn call<Q, A>(
        &self,
        path: &'static str,
        request: tonic::Request<Q>,
    ) -> Result<tonic::Response<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let origin = Uri::builder()
            .scheme("http")
            .authority(self.address.to_string())
            .path_and_query("/")
            .build()
            .map_err(|error| Status::internal(error.to_string()))?;
        let mut grpc = Grpc::with_origin(self.clone(), origin);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, A>::default();
        grpc.unary(request, PathAndQuery::from_static(path), codec)
            .await
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
