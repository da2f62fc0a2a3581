//! A connection to another program's port, for requests of a test driver.

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

/// Reason of a failed connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {source}")]
pub struct ConnectError {
    /// Address of the peer.
    pub address: SocketAddr,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

impl Connection {
    /// Connects to an address.
    ///
    /// # Errors
    /// No process listens, or the process does not speak HTTP/2.
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
    /// The status of the peer; `UNKNOWN` if the connection has ended.
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
