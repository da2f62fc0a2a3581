//! A saved request, for a transparent retry after an endpoint did not process it (gRFC A6).
//!
//! Every unary request has one, so it is small: header names and values are shared and not copied, and
//! the hash index of the headers is built only for a retry.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use super::RequestBody;

/// Parts of a request that can be sent again.
#[derive(Debug)]
pub(crate) struct Replay {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: RequestBody,
}

impl Replay {
    /// Saves a request. Returns `None` if its body is a stream.
    pub(crate) fn of(request: &Request<RequestBody>) -> Option<Self> {
        let body = RequestBody::Whole(request.body().whole()?.clone());
        Some(Self::with(request, body))
    }

    /// Saves the head of a request, to be sent again with this body.
    pub(crate) fn with(request: &Request<RequestBody>, body: RequestBody) -> Self {
        let headers = request.headers().iter();
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body,
        }
    }

    pub(crate) fn into_request(self) -> Request<RequestBody> {
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = headers;
        request
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn replay_equals_the_request() {
        let mut request = Request::post("http://shop/a.B/C")
            .header("te", "trailers")
            .header("many", "1")
            .header("many", "2")
            .body(RequestBody::Whole(Bytes::from("message")))
            .unwrap();
        request
            .headers_mut()
            .append("token-bin", HeaderValue::from_static("AAAA"));
        let again = Replay::of(&request).unwrap().into_request();
        assert_eq!(again.method(), request.method());
        assert_eq!(again.uri(), request.uri());
        assert_eq!(again.headers(), request.headers());
        assert_eq!(again.body().whole(), request.body().whole());
    }
}
