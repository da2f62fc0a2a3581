//! A saved request, for another attempt after an endpoint did not process it (gRFC A6).
//!
//! Every request has one, so it is small: header names and values are shared and not copied, and the hash index of the
//! headers is built only for another attempt.

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::stream::RequestBody;

/// Head of a request that can be sent again.
#[derive(Debug)]
pub(crate) struct SavedHead {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the application has set the user agent.
    pub(crate) has_agent: bool,
}

/// Parts of a request that can be sent again.
#[derive(Debug)]
pub(crate) struct Replay {
    head: SavedHead,
    body: RequestBody,
}

impl SavedHead {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let headers = request.headers().iter();
        let mut has_agent = false;
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: headers
                .map(|(name, value)| {
                    has_agent |= *name == USER_AGENT;
                    (name.clone(), value.clone())
                })
                .collect(),
            has_agent,
        }
    }

    pub(crate) fn into_request(self, body: RequestBody) -> Request<RequestBody> {
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = headers;
        request
    }
}

impl Replay {
    pub(crate) fn new(head: SavedHead, body: RequestBody) -> Self {
        Self { head, body }
    }

    pub(crate) fn into_request(self) -> Request<RequestBody> {
        self.head.into_request(self.body)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn replay_equals_the_request() {
        let message = || RequestBody::Whole(Bytes::from("message"));
        let mut request = Request::post("http://shop/a.B/C")
            .header("te", "trailers")
            .header("many", "1")
            .header("many", "2")
            .body(message())
            .unwrap();
        request
            .headers_mut()
            .append("token-bin", HeaderValue::from_static("AAAA"));
        let again = Replay::new(SavedHead::of(&request), message()).into_request();
        assert_eq!(again.method(), request.method());
        assert_eq!(again.uri(), request.uri());
        assert_eq!(again.headers(), request.headers());
        assert_eq!(again.body().whole(), request.body().whole());
    }
}
