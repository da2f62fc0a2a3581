//! Backends: each answers HTTP/1 and gRPC with its own name.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use oxds_types::orca::{OrcaLoadReport, TRAILER};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tonic::metadata::BinaryMetadataValue;

use crate::Fallible;

/// The method that gRPC clients call; any path would do.
pub(crate) const METHOD: &str = "/oxds.interop.Echo/WhoAreYou";

/// A running backend. Dropping it closes its listener and every connection at once, as a killed
/// process would.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Address of the listener.
    pub(crate) address: SocketAddr,
    behaviour: Arc<Mutex<Behaviour>>,
    task: JoinHandle<()>,
}

/// How a backend answers the calls of gRPC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Behaviour {
    /// With its name.
    #[default]
    Answers,
    /// With its name, after this time.
    AnswersAfter(Duration),
    /// With UNAVAILABLE, unless the call is a retry by policy (gRFC A6).
    RefusesFirstAttempts,
    /// With INTERNAL.
    Fails,
    /// With its name, and a load report: this utilization in percent, at 100 calls per second (gRFC A51).
    Reports(u32),
}

impl Backend {
    /// Starts a backend on a port that the system chooses.
    pub(crate) async fn start(name: &'static str) -> Fallible<Self> {
        Self::start_on(name, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts a backend on a given address, for example to restart one that was stopped
    /// (the address of the first start is then one of [`Context::address`](crate::Context::address)).
    pub(crate) async fn start_on(name: &'static str, address: SocketAddr) -> Fallible<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let behaviour = Arc::new(Mutex::new(Behaviour::default()));
        let current = Arc::clone(&behaviour);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let current = Arc::clone(&current);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let behaviour = *current.lock().unwrap_or_else(PoisonError::into_inner);
                        answer(name, behaviour, request)
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self {
            address,
            behaviour,
            task,
        })
    }

    /// Changes how it answers, from the next call on.
    pub(crate) fn set(&self, behaviour: Behaviour) {
        *self
            .behaviour
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = behaviour;
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
    behaviour: Behaviour,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let grpc = request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .is_some_and(is_grpc);
    let is_retry = request.headers().contains_key("grpc-previous-rpc-attempts");
    // Read the request to its end first: a response before that resets the stream.
    request.into_body().collect().await?;
    if !grpc {
        return Ok(Response::new(
            Full::new(Bytes::copy_from_slice(name.as_bytes())).boxed(),
        ));
    }
    match behaviour {
        Behaviour::Answers | Behaviour::Reports(_) => {}
        Behaviour::AnswersAfter(time) => tokio::time::sleep(time).await,
        Behaviour::RefusesFirstAttempts if is_retry => {}
        Behaviour::RefusesFirstAttempts => return Ok(failure("14")),
        Behaviour::Fails => return Ok(failure("13")),
    }
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
    message.put_slice(name.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    if let Behaviour::Reports(percent) = behaviour {
        trailers.extend(load_report(percent));
    }
    let body = Full::new(message.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    Ok(response)
}

/// The trailer with a load report.
fn load_report(percent: u32) -> Option<(HeaderName, HeaderValue)> {
    let report = OrcaLoadReport {
        application_utilization: f64::from(percent) / 100.0,
        rps_fractional: 100.0,
        ..OrcaLoadReport::default()
    };
    let value = BinaryMetadataValue::from_bytes(&report.encode_to_vec());
    let value = HeaderValue::from_bytes(value.as_encoded_bytes()).ok()?;
    Some((HeaderName::from_static(TRAILER), value))
}

/// A response that consists of a status.
fn failure(status: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::default().boxed());
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    headers.insert("grpc-status", HeaderValue::from_static(status));
    response
}

fn is_grpc(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/grpc")
}
