//! Responses that are not gRPC: a proxy's error page, or a backend that serves plain HTTP.
//!
//! tonic would read their body as messages and fail with INTERNAL, so they end here, with the code of the HTTP status.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use tokio::time::timeout;
use tonic::Status;

use super::guard::GRPC_STATUS;
use super::status;
use crate::stream::Incoming;

/// Number of bytes of the body that the message shows: enough for the title of an error page.
const SHOWN_BYTES: usize = 128;

/// Time limit for the body after the headers. The body is only an explanation.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns whether a response is gRPC's: it has a gRPC status, or HTTP status 200 and the content type of gRPC.
pub(crate) fn is_grpc(response: &Response<Incoming>) -> bool {
    let headers = response.headers();
    // "HTTP to gRPC Status Code Mapping": the mapping is only for responses without `grpc-status`.
    (response.status() == StatusCode::OK && has_grpc_content_type(headers))
        || headers.contains_key(GRPC_STATUS)
}

/// Returns whether the content type is gRPC's, or absent, as C-core accepts it.
fn has_grpc_content_type(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    // PROTOCOL-HTTP2.md: `application/grpc`, which `+proto` or parameters may follow.
    let rest = value.as_bytes().strip_prefix(b"application/grpc");
    matches!(rest, Some([] | [b'+' | b';' | b' ', ..]))
}

/// Returns the status of a response that is not gRPC's, with the beginning of its body.
pub(crate) async fn status_of(response: Response<Incoming>) -> Status {
    let (head, body) = response.into_parts();
    let mut text = format!(
        "the backend's response is not gRPC: HTTP status {}",
        head.status
    );
    if let Some(value) = head.headers.get(CONTENT_TYPE) {
        text.push_str(&format!(
            ", content-type \"{}\"",
            value.as_bytes().escape_ascii()
        ));
    }
    if let Ok(Some(start)) = timeout(BODY_TIMEOUT, beginning(body)).await {
        text.push_str(&format!(", body \"{}\"", start.escape_ascii()));
    }
    Status::new(status::code_of_http(head.status), text)
}

/// Returns the beginning of a body, at most [`SHOWN_BYTES`]; `None` if it is empty.
async fn beginning(mut body: Incoming) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    while start.len() < SHOWN_BYTES {
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await;
        let Some(Ok(frame)) = frame else { break };
        if let Ok(data) = frame.into_data() {
            start.extend_from_slice(&data);
        }
    }
    start.truncate(SHOWN_BYTES);
    (!start.is_empty()).then_some(start)
}
