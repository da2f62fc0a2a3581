//! A unary gRPC call of bytes, without generated code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Full};
use oxds_channel::{Picked, XdsChannel};
use tonic::{Code, Status};
use tower_service::Service as _;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The most digits that the protocol allows in a `grpc-timeout`.
const MOST: u128 = 99_999_999;

/// What to call, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    path: PathAndQuery,
    /// Compression flag, length, message: the body of every request.
    body: Bytes,
    timeout: Duration,
    timeout_header: HeaderValue,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What it ended with; a `Status` of code OK where it succeeded.
    pub(crate) status: Status,
    /// Which endpoint it went to, if it got so far.
    pub(crate) endpoint: Option<Arc<Picked>>,
    pub(crate) took: Duration,
}

impl Method {
    /// `path` as `/pkg.Service/Method`, an encoded message, and the time that each call has.
    pub(crate) fn new(path: &str, message: &[u8], timeout: Duration) -> Result<Self, String> {
        let length = u32::try_from(message.len()).map_err(|_| "message over 4 GiB".to_owned())?;
        let mut body = BytesMut::with_capacity(5 + message.len());
        body.put_u8(0);
        body.put_u32(length);
        body.put_slice(message);
        Ok(Self {
            path: path.parse().map_err(|error| format!("{path:?}: {error}"))?,
            body: body.freeze(),
            timeout,
            timeout_header: grpc_timeout(timeout),
        })
    }

    /// Calls it once. Never takes much longer than the timeout.
    pub(crate) async fn call(&self, channel: &XdsChannel) -> Outcome {
        let began = Instant::now();
        // The channel keeps the deadline; this one is for a fault in the channel.
        let patience = self.timeout + Duration::from_secs(1);
        let answered = tokio::time::timeout(patience, self.answer(channel)).await;
        let (status, endpoint) = answered.unwrap_or_else(|_| {
            (
                Status::deadline_exceeded("no answer, and no deadline kept by the channel"),
                None,
            )
        });
        Outcome {
            status,
            endpoint,
            took: began.elapsed(),
        }
    }

    async fn answer(&self, channel: &XdsChannel) -> (Status, Option<Arc<Picked>>) {
        let response = match channel.clone().call(self.request()).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let endpoint = response.extensions().get().cloned();
        if let Some(status) = Status::from_header_map(response.headers()) {
            return (status, endpoint);
        }
        let status = match response.into_body().collect().await {
            Err(status) => status,
            Ok(body) => body
                .trailers()
                .and_then(Status::from_header_map)
                .unwrap_or_else(|| Status::internal("the answer ends without a status")),
        };
        (status, endpoint)
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

/// In the finest unit that fits.
fn grpc_timeout(timeout: Duration) -> HeaderValue {
    let text = [
        (timeout.as_nanos(), 'n'),
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
    ]
    .into_iter()
    .find(|(count, _)| *count <= MOST)
    .map_or_else(
        || format!("{}S", u128::from(timeout.as_secs()).min(MOST)),
        |(count, unit)| format!("{count}{unit}"),
    );
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("1S"))
}

/// The name of a status code, as the protocol spells it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_take_the_finest_unit_of_eight_digits() {
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
