//! Backends: each answers HTTP/1 and gRPC with its own name.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::Fallible;

/// The method that gRPC clients call; any path would do.
pub(crate) const METHOD: &str = "/oxds.interop.Echo/WhoAreYou";

/// A running backend. Dropping it closes its listener and every connection at once, as a killed
/// process would.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Address of the listener.
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts a backend on a port that the system chooses.
    pub(crate) async fn start(name: &'static str) -> Fallible<Self> {
        Self::start_on(name, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts a backend on a given address, as one that returns after its death does.
    pub(crate) async fn start_on(name: &'static str, address: SocketAddr) -> Fallible<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(name, request));
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { address, task })
    }

    /// Kills it and waits until its port is free.
    pub(crate) async fn kill(mut self) -> SocketAddr {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.address
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    name: &str,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let grpc = request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .is_some_and(is_grpc);
    // Read the request to its end first: a response before that resets the stream.
    request.into_body().collect().await?;
    if !grpc {
        return Ok(Response::new(
            Full::new(Bytes::copy_from_slice(name.as_bytes())).boxed(),
        ));
    }
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
    message.put_slice(name.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(message.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    Ok(response)
}

fn is_grpc(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/grpc")
}
