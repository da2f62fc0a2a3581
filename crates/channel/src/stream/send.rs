//! Sends requests, on the caller's task.
//!
//! The caller's task puts the request into h2's buffer, and the connection's task writes it: they share no queue, and a
//! unary request needs no task. A unary body is handed over as a whole, without a copy; h2 sends it as the endpoint's
//! windows allow. A streaming body that is not ready as a whole has a [`Pump`] in a task of its own, so that it is sent
//! whether the caller waits for the response, reads it, or does neither.

use std::fmt;
use std::sync::Arc;

use http::header::{CONNECTION, HeaderMap, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;

use super::connection::Connection;
use super::incoming::Incoming;
use super::pump::Pump;
use super::request::RequestBody;
use super::slot::{SendError, StreamError, StreamSlot};

/// Permission to send one request on a connection.
pub(crate) struct RequestSender(Arc<Connection>);

impl Connection {
    /// Returns the handle that sends one request.
    pub(crate) fn sender(self: &Arc<Self>) -> RequestSender {
        RequestSender(Arc::clone(self))
    }
}

impl RequestSender {
    /// Sends a request, and waits for the head of the response. Waits for a stream before that, if the connection has
    /// as many as the server allows. The request is taken by parts, because moving it as a whole would make the futures
    /// of all callers larger; nothing useful is left in it.
    ///
    /// # Errors
    /// [`SendError`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request (`RST_STREAM`), and its pump.
    pub(crate) async fn send(
        self,
        request: &mut Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let slot = StreamSlot::take(self.0).await;
        let body = std::mem::replace(request.body_mut(), RequestBody::empty());
        let Some(slot) = slot else {
            return Err(SendError::Unsent(body));
        };
        let mut sender = slot.connection().sender.clone();
        let (response, mut stream) =
            match sender.send_request(slot.connection().take_head(request), body.is_end_stream()) {
                Ok(opened) => opened,
                Err(error) => return Err(not_opened(slot.connection(), error, body)),
            };
        drop(sender);
        let pump = match body {
            RequestBody::Whole(data) => {
                if !data.is_empty() {
                    // An error means that the stream has ended already; the response has the reason.
                    let _ = stream.send_data(data, true);
                }
                drop(stream);
                None
            }
            RequestBody::Stream(body) => {
                let pump = Pump::start(body, stream).await;
                pump.map_err(|status| SendError::Failed(StreamError::RequestBody(status)))?
            }
        };
        match response.await {
            Ok(response) => Ok(response.map(|incoming| Incoming::new(incoming, pump, slot))),
            Err(error) => Err(SendError::Failed(
                match pump.as_ref().and_then(Pump::failure) {
                    Some(status) => StreamError::RequestBody(status),
                    None => slot.reason(error),
                },
            )),
        }
    }
}

impl fmt::Debug for RequestSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestSender").finish_non_exhaustive()
    }
}

impl Connection {
    /// Takes the head of a request, without its extensions, which HTTP/2 does not carry.
    fn take_head(&self, request: &mut Request<RequestBody>) -> Request<()> {
        let mut head = Request::new(());
        *head.method_mut() = std::mem::take(request.method_mut());
        *head.uri_mut() = std::mem::take(request.uri_mut());
        *head.headers_mut() = std::mem::take(request.headers_mut());
        // PROTOCOL-HTTP2.md: the scheme says whether the connection is TLS; servers may compare.
        if self.is_private {
            set_https(head.uri_mut());
        }
        remove_connection_headers(head.headers_mut());
        head
    }
}

fn set_https(uri: &mut Uri) {
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    // The parts were those of an absolute URI.
    *uri = Uri::from_parts(parts).unwrap_or_default();
}

/// Returns the reason why a stream could not be opened.
fn not_opened(connection: &Connection, error: h2::Error, body: RequestBody) -> SendError {
    // h2 reports these only for a connection that has ended or goes away, before it does anything with the request.
    let is_of_connection = error.is_io() || error.is_go_away();
    // Other errors are about the request, with one exception.
    if is_of_connection || connection.retire_if_used_up() {
        SendError::Unsent(body)
    } else {
        SendError::Failed(StreamError::Http2(error))
    }
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Removes the headers that HTTP/2 does not allow, which a caller may have copied from an HTTP/1 request.
fn remove_connection_headers(headers: &mut HeaderMap) {
    // Most requests have none: one walk over their few headers shows it.
    let mut all = headers.iter();
    if !all.any(|(name, value)| is_of_connection(name) || (*name == TE && value != TRAILERS)) {
        return;
    }
    // RFC 9113 §8.2.2: also the headers that the value of `connection` names.
    let mut named = Vec::new();
    for value in headers.get_all(CONNECTION) {
        let names = value.to_str().unwrap_or_default().split(',');
        named.extend(names.filter_map(|name| name.trim().parse::<HeaderName>().ok()));
    }
    let forbidden = [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for name in named.iter().chain(&forbidden) {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|te| te != TRAILERS) {
        headers.remove(TE);
    }
}

fn is_of_connection(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-hop"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-hop", "1"),
            ("te", "gzip"),
            ("x-kept", "1"),
        ] {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        remove_connection_headers(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-kept"]);
    }

    #[test]
    fn te_trailers_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(TE, TRAILERS);
        remove_connection_headers(&mut headers);
        assert_eq!(headers[TE], TRAILERS);
    }
}
