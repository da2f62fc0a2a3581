//! One poll: a discovery request in JSON, on a connection of its own. Polls are seconds apart: a connection that was
//! kept over them may have died unseen.

use std::error::Error as _;
use std::fmt::Display;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oxds_core::poll::PollOutcome;
use oxds_types::codec::{request_to_json, response_from_json};
use oxds_types::discovery::DiscoveryRequest;

use crate::credentials::Shown;
use crate::source::RestPeer;
use crate::transport::{self, Http};

/// How much of an answer that is none is shown.
const SHOWN: usize = 200;

/// Dropping it closes the connection.
pub(super) async fn post(
    peer: RestPeer,
    shown: Shown,
    question: DiscoveryRequest,
    most_response_bytes: usize,
) -> PollOutcome {
    match exchange(&peer, &shown, &question, most_response_bytes).await {
        Ok(answer) => answer,
        Err(cause) => PollOutcome::Failed(cause),
    }
}

async fn exchange(
    peer: &RestPeer,
    shown: &Shown,
    question: &DiscoveryRequest,
    most_response_bytes: usize,
) -> Result<PollOutcome, String> {
    let mut request = request(peer, question)?;
    shown.add_to(request.headers_mut()).await.map_err(text)?;
    let server = &peer.server;
    let opened = transport::open(&server.address, &*server.credentials, Http::One).await;
    let socket = opened.map_err(text)?;
    let shaken = http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = shaken.map_err(|error| with_cause(&error))?;
    let answered = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| with_cause(&error))?;
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            return Ok(PollOutcome::Unchanged);
        }
        let body = Limited::new(response.into_body(), most_response_bytes);
        let body = body.collect().await.map_err(|error| too_long(&*error))?;
        Ok(answer(status, &body.to_bytes()))
    };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The server hangs up after its answer; what it sent of it is there. If that is nothing, the connection may know
        // why.
        ended = connection => {
            let answer = answered.await;
            answer.map_err(|reason| ended.err().map_or(reason, |error| with_cause(&error)))
        }
    }
}

fn request(peer: &RestPeer, question: &DiscoveryRequest) -> Result<Request<Full<Bytes>>, String> {
    let body = request_to_json(question).map_err(text)?;
    let mut request = Request::post(&*peer.path)
        .header(header::HOST, peer.server.address.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json");
    // A server that waits until something changes is to give up before we do.
    let wait = peer.pace.request_timeout.mul_f64(0.8).as_secs();
    if wait > 0 {
        request = request.header("prefer", format!("wait={wait}"));
    }
    request.body(Full::new(body.into())).map_err(text)
}

fn answer(status: StatusCode, body: &[u8]) -> PollOutcome {
    if status != StatusCode::OK {
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
        return PollOutcome::Failed(format!("HTTP {status}: {}", shown.trim()));
    }
    match response_from_json(body) {
        Ok(response) => PollOutcome::Response(Box::new(response)),
        Err(error) => PollOutcome::Unreadable(error.to_string()),
    }
}

fn too_long(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<LengthLimitError>() {
        Some(_) => "the answer is longer than is read".to_owned(),
        None => error.to_string(),
    }
}

/// hyper says where something went wrong, and its cause what: such as that the server wants a certificate, which in
/// TLS 1.3 comes after the handshake.
fn with_cause(error: &hyper::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
