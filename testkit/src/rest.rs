//! A REST control plane that a test scripts: the test receives each poll, and answers it or not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oxds_types::ResourceType;
use oxds_types::codec::{request_from_json, response_to_json};
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::{Missed, SOON};

/// A scripted REST control plane. Stops when dropped, as a killed process does.
#[derive(Debug)]
pub struct RestPlane {
    address: SocketAddr,
    polls: Mutex<mpsc::UnboundedReceiver<Polled>>,
    running: AbortHandle,
}

/// A poll that waits for its response. Dropping it closes its connection.
#[derive(Debug)]
pub struct Polled {
    /// Path of the request.
    pub path: String,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Body of the request.
    pub request: DiscoveryRequest,
    answer: oneshot::Sender<Response<Full<Bytes>>>,
}

impl RestPlane {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (hand, polls) = mpsc::unbounded_channel();
        let running = tokio::spawn(accept(listener, hand)).abort_handle();
        let polls = Mutex::new(polls);
        Ok(Self {
            address,
            polls,
            running,
        })
    }

    /// Address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the next poll.
    ///
    /// # Errors
    /// When none comes before the deadline.
    pub async fn next_poll(&self) -> Result<Polled, Missed> {
        let mut polls = self.polls.lock().await;
        let next = timeout(SOON, polls.recv()).await;
        next.ok().flatten().ok_or(Missed::Late)
    }

    /// Takes a poll that has already arrived.
    #[must_use]
    pub fn take_poll(&self) -> Option<Polled> {
        self.polls.try_lock().ok()?.try_recv().ok()
    }
}

impl Drop for RestPlane {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Polled {
    /// Responds with resources.
    pub fn respond(self, resource_type: &ResourceType, version: &str, resources: Vec<Any>) {
        let response = DiscoveryResponse {
            version_info: version.to_owned(),
            type_url: resource_type.type_url().to_owned(),
            resources,
            ..DiscoveryResponse::default()
        };
        match response_to_json(&response) {
            Ok(json) => self.write(StatusCode::OK, json),
            Err(error) => self.write(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// Responds with this status and body.
    pub fn write(self, status: StatusCode, body: impl Into<Bytes>) {
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = status;
        // A client that has closed its connection takes no response.
        let _ = self.answer.send(response);
    }

    /// Waits until the client closes its connection.
    ///
    /// # Errors
    /// When it does not before the deadline.
    pub async fn given_up(mut self) -> Result<(), Missed> {
        let closed = timeout(SOON, self.answer.closed()).await;
        closed.map_err(|_| Missed::Late)
    }
}

async fn accept(listener: TcpListener, hand: mpsc::UnboundedSender<Polled>) {
    // Aborts its tasks when dropped.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            socket = listener.accept() => if let Ok((socket, _)) = socket {
                let hand = hand.clone();
                let service = service_fn(move |request| receive(request, hand.clone()));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// An error closes the connection without a response.
async fn receive(
    request: Request<Incoming>,
    hand: mpsc::UnboundedSender<Polled>,
) -> Result<Response<Full<Bytes>>, Missed> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Missed::Ended)?.to_bytes();
    let Ok(request) = request_from_json(&body) else {
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let (answer, answered) = oneshot::channel();
    let polled = Polled {
        path: head.uri.path().to_owned(),
        headers: head.headers,
        request,
        answer,
    };
    hand.send(polled).map_err(|_| Missed::Ended)?;
    answered.await.map_err(|_| Missed::Ended)
}
