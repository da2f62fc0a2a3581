//! Unary gRPC calls of encoded messages, without generated code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Full};
use oxds_channel::{Dropped, Picked, PreviousAttempts, XdsChannel};
use tonic::Status;
use tower_service::Service as _;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Largest number in a `grpc-timeout`: the protocol allows eight digits.
const MAX_TIMEOUT_VALUE: u128 = 99_999_999;

/// A method with its request, which can be called many times.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    path: PathAndQuery,
    /// Body of every request: compression flag, length, message.
    body: Bytes,
    timeout: Duration,
    timeout_header: HeaderValue,
}

/// Result of one call.
#[derive(Clone, Debug)]
pub(crate) struct CallOutcome {
    /// The final status; code OK if the call succeeded.
    pub(crate) status: Status,
    /// The endpoint that the call was sent to, if one was picked.
    pub(crate) endpoint: Option<Arc<Picked>>,
    /// Number of retries by policy.
    pub(crate) retries: u32,
    /// The drop that ended the call, if one did.
    pub(crate) dropped: Option<Dropped>,
    /// Time from the call to the status.
    pub(crate) took: Duration,
}

impl CallOutcome {
    /// Returns the outcome of a call with only its status.
    fn of(status: Status) -> Self {
        Self {
            status,
            endpoint: None,
            retries: 0,
            dropped: None,
            took: Duration::ZERO,
        }
    }
}

impl Method {
    /// Creates a method from a path as `/pkg.Service/Method`, an encoded message, and the deadline of
    /// each call. The error says what is malformed.
    pub(crate) fn new(path: &str, message: &[u8], timeout: Duration) -> Result<Self, String> {
        let length = u32::try_from(message.len())
            .map_err(|_| "request message too large: expected less than 4 GiB".to_owned())?;
        let mut body = BytesMut::with_capacity(5 + message.len());
        body.put_u8(0);
        body.put_u32(length);
        body.put_slice(message);
        Ok(Self {
            path: path
                .parse()
                .map_err(|error| format!("malformed method {path:?}: {error}"))?,
            body: body.freeze(),
            timeout,
            timeout_header: grpc_timeout(timeout),
        })
    }

    /// Makes one call. Ends at most a second after the deadline.
    pub(crate) async fn call(&self, channel: &XdsChannel) -> CallOutcome {
        let began = Instant::now();
        // The channel enforces the deadline. The longer limit here is for a defect of the channel.
        let limit = self.timeout + Duration::from_secs(1);
        let responded = tokio::time::timeout(limit, self.send(channel)).await;
        let mut outcome = responded.unwrap_or_else(|_| {
            let text =
                "no response one second after the deadline, which the channel did not enforce";
            CallOutcome::of(Status::deadline_exceeded(text))
        });
        outcome.took = began.elapsed();
        outcome
    }

    async fn send(&self, channel: &XdsChannel) -> CallOutcome {
        let response = match channel.clone().call(self.request()).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let extensions = response.extensions();
        let retries = extensions.get::<PreviousAttempts>();
        let mut outcome = CallOutcome {
            endpoint: extensions.get().cloned(),
            retries: retries.map_or(0, |previous| previous.0),
            dropped: extensions.get().cloned(),
            ..CallOutcome::of(Status::ok(""))
        };
        if let Some(status) = Status::from_header_map(response.headers()) {
            outcome.status = status;
            return outcome;
        }
        outcome.status = match response.into_body().collect().await {
            Err(status) => status,
            Ok(body) => body
                .trailers()
                .and_then(Status::from_header_map)
                .unwrap_or_else(|| Status::internal("response ended without a grpc-status")),
        };
        outcome
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.path.clone().into();
        let headers = request.headers_mut();
        let grpc = HeaderValue::from_static("application/grpc");
        headers.insert(http::header::CONTENT_TYPE, grpc);
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
        headers.insert(GRPC_TIMEOUT, self.timeout_header.clone());
        request
    }
}

/// Formats a timeout in the finest unit whose value has eight digits or less.
fn grpc_timeout(timeout: Duration) -> HeaderValue {
    let text = [
        (timeout.as_nanos(), 'n'),
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
    ]
    .into_iter()
    .find(|(count, _)| *count <= MAX_TIMEOUT_VALUE)
    .map_or_else(
        || format!("{}S", u128::from(timeout.as_secs()).min(MAX_TIMEOUT_VALUE)),
        |(count, unit)| format!("{count}{unit}"),
    );
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("1S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeout_uses_finest_unit_of_eight_digits() {
        for (timeout, header) in [
            (Duration::from_millis(50), "50000000n"),
            (Duration::from_secs(5), "5000000u"),
            (Duration::from_secs(200), "200000m"),
            (Duration::from_secs(1_000_000), "1000000S"),
        ] {
            assert_eq!(grpc_timeout(timeout), header);
        }
    }
}
