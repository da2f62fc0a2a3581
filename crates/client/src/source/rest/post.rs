//! One poll: a discovery request in JSON, on a connection of its own.
//!
//! The connection is not kept for the next poll: polls are seconds apart, and an idle connection may break unnoticed.

use std::error::Error as _;
use std::fmt::Display;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oxds_core::poll::PollOutcome;
use oxds_net::transport::{self, Http};
use oxds_types::codec::{request_to_json, response_from_json};
use oxds_types::discovery::DiscoveryRequest;

use super::peer::RestPeer;
use crate::link::CallAuth;

/// Number of bytes of an error response that the error message quotes.
const QUOTED_BYTES: usize = 200;

/// Sends one poll, and returns its answer. Dropping the future closes the connection.
pub(super) async fn post(
    peer: RestPeer,
    call_auth: CallAuth,
    request: DiscoveryRequest,
    max_response_bytes: usize,
) -> PollOutcome {
    match exchange(&peer, &call_auth, &request, max_response_bytes).await {
        Ok(answer) => answer,
        Err(cause) => PollOutcome::Failed(cause),
    }
}

async fn exchange(
    peer: &RestPeer,
    call_auth: &CallAuth,
    request: &DiscoveryRequest,
    max_response_bytes: usize,
) -> Result<PollOutcome, String> {
    let mut request = http_request(peer, request)?;
    call_auth
        .add_to(request.headers_mut())
        .await
        .map_err(text)?;
    let server = &peer.server;
    let opened = transport::open(&server.address, &*server.credentials, Http::One).await;
    let socket = opened.map_err(text)?;
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| with_cause(&error))?;
    let answered = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| with_cause(&error))?;
        let status = response.status();
        // RFC 9110 §15.4.5: 304 means that the version in the request is current (C-267).
        if status == StatusCode::NOT_MODIFIED {
            return Ok(PollOutcome::Unchanged);
        }
        let body = Limited::new(response.into_body(), max_response_bytes);
        let body = body.collect().await.map_err(|error| too_long(&*error))?;
        Ok(answer(status, &body.to_bytes()))
    };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The server may close the connection after its answer, which is then complete. Without an answer, the error of
        // the connection says more than that of the request.
        ended = connection => {
            let answer = answered.await;
            answer.map_err(|reason| ended.err().map_or(reason, |error| with_cause(&error)))
        }
    }
}

fn http_request(
    peer: &RestPeer,
    request: &DiscoveryRequest,
) -> Result<Request<Full<Bytes>>, String> {
    let body = request_to_json(request).map_err(text)?;
    let mut request = Request::post(&*peer.path)
        .header(header::HOST, peer.server.address.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json");
    // RFC 7240: a server that waits for a change must answer before this client's own timeout.
    let wait = peer.pace.request_timeout.mul_f64(0.8).as_secs();
    if wait > 0 {
        request = request.header("prefer", format!("wait={wait}"));
    }
    request.body(Full::new(body.into())).map_err(text)
}

fn answer(status: StatusCode, body: &[u8]) -> PollOutcome {
    // The last valid answer stays in use, and the next poll follows after the delay (C-268).
    if status != StatusCode::OK {
        let quoted = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]);
        return PollOutcome::Failed(format!("HTTP {status}: {}", quoted.trim()));
    }
    match response_from_json(body) {
        Ok(response) => PollOutcome::Response(Box::new(response)),
        Err(error) => PollOutcome::Unreadable(error.to_string()),
    }
}

fn too_long(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<LengthLimitError>() {
        Some(_) => "the answer is longer than Options::max_response_bytes".to_owned(),
        None => error.to_string(),
    }
}

/// Returns a hyper error with its cause. The error itself names only the step; the cause says, for example, that the
/// server requires a client certificate, which TLS 1.3 reports after the handshake.
fn with_cause(error: &hyper::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
