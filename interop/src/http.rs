//! A minimal HTTP/1 client: for admin and status pages, and for load through a proxy.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header, request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Fallible;
use crate::calls::Calls;

/// A page that takes longer than this is a failure.
const LIMIT: Duration = Duration::from_secs(5);
/// Pause between two requests of one worker: near 300 a second, which two cores can serve beside the rest.
const PAUSE: Duration = Duration::from_millis(3);

/// Host header where the host does not matter.
const HOST: &str = "localhost";

/// A kept-alive connection.
struct Connection(SendRequest<Empty<Bytes>>);

impl Connection {
    async fn open(address: SocketAddr) -> Fallible<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    async fn get(&mut self, host: &str, path: &str) -> Fallible<Response<Bytes>> {
        let request = Request::get(path).header(header::HOST, host);
        self.send(request.body(Empty::new())?).await
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Fallible<Response<Bytes>> {
        self.0.ready().await?;
        let (head, body) = self.0.send_request(request).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}

/// Sends one GET of `/` to a host on its own connection, and accepts any status.
pub(crate) async fn ask(address: SocketAddr, host: &str) -> Fallible<Response<Bytes>> {
    once(address, Request::get("/").header(header::HOST, host)).await
}

/// The same with one more header.
pub(crate) async fn ask_with(
    address: SocketAddr,
    host: &str,
    (name, value): (&str, &str),
) -> Fallible<Response<Bytes>> {
    let request = Request::get("/").header(header::HOST, host);
    once(address, request.header(name, value)).await
}

/// Sends a GET of `/` with each of these values of a header, one after another on one connection, and returns the
/// bodies. Any status but 200 is an error.
pub(crate) async fn ask_each(
    address: SocketAddr,
    header: &str,
    values: impl Iterator<Item = String>,
) -> Fallible<Vec<String>> {
    let mut connection = Connection::open(address).await?;
    let mut bodies = Vec::new();
    for value in values {
        let request = Request::get("/").header(header::HOST, HOST);
        let request = request.header(header, value).body(Empty::new())?;
        let response = timeout(LIMIT, connection.send(request)).await;
        let response = response.map_err(|_| format!("GET / of {address}: late"))??;
        let body = String::from_utf8_lossy(response.body()).into_owned();
        match response.status() {
            StatusCode::OK => bodies.push(body),
            status => return Err(format!("GET / of {address}: {status}: {body}").into()),
        }
    }
    Ok(bodies)
}

/// Sends these GETs, one after another on one connection, and returns the responses, whatever their status.
pub(crate) async fn get_each(
    address: SocketAddr,
    requests: impl Iterator<Item = request::Builder>,
) -> Fallible<Vec<Response<Bytes>>> {
    let mut connection = Connection::open(address).await?;
    let mut responses = Vec::new();
    for request in requests {
        let request = request.body(Empty::new())?;
        let what = format!("GET {} of {address}: late", request.uri());
        let response = timeout(LIMIT, connection.send(request)).await;
        responses.push(response.map_err(|_| what)??);
        if connection.is_closed() {
            connection = Connection::open(address).await?;
        }
    }
    Ok(responses)
}

async fn once(address: SocketAddr, request: request::Builder) -> Fallible<Response<Bytes>> {
    let request = request.body(Empty::new())?;
    let exchange = async { Connection::open(address).await?.send(request).await };
    let response = timeout(LIMIT, exchange).await;
    response.map_err(|_| format!("GET / of {address}: late"))?
}

/// Sends one GET on its own connection. Any status but 200 is an error that shows the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Fallible<Bytes> {
    let exchange = async { Connection::open(address).await?.get(HOST, path).await };
    let response = timeout(LIMIT, exchange)
        .await
        .map_err(|_| format!("GET {path}: late"))??;
    let (status, body) = (response.status(), response.into_body());
    if status == StatusCode::OK {
        return Ok(body);
    }
    Err(format!("GET {path}: {status}: {}", String::from_utf8_lossy(&body)).into())
}

/// Sends GETs of `/` until dropped, by `workers` kept-alive connections.
#[derive(Debug)]
pub(crate) struct HttpLoad {
    pub(crate) calls: Calls,
    _workers: tokio::task::JoinSet<()>,
}

impl HttpLoad {
    pub(crate) fn start(address: SocketAddr, workers: usize) -> Self {
        let calls = Calls::default();
        let workers = (0..workers).map(|_| work(address, calls.clone())).collect();
        Self {
            calls,
            _workers: workers,
        }
    }
}

async fn work(address: SocketAddr, calls: Calls) {
    let mut kept = None;
    loop {
        let exchange = async {
            // A peer may close a connection between two requests; that is not a failure.
            if kept.as_ref().is_none_or(Connection::is_closed) {
                kept = Some(Connection::open(address).await?);
            }
            match &mut kept {
                Some(connection) => connection.get(HOST, "/").await,
                None => Err("no connection".into()),
            }
        };
        let outcome = match timeout(LIMIT, exchange).await {
            Ok(Ok(response)) => {
                let body = String::from_utf8_lossy(response.body()).into_owned();
                match response.status() {
                    StatusCode::OK => Ok(body),
                    status => Err(format!("{status} {body}")),
                }
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("timeout".to_owned()),
        };
        if outcome.is_err() {
            kept = None;
        }
        calls.record(outcome);
        tokio::time::sleep(PAUSE).await;
    }
}
