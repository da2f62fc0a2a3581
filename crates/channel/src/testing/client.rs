//! A unary gRPC call without generated code.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use tonic::Status;
use tower_service::Service;

use crate::attempt::Picked;
use crate::channel::XdsChannel;

/// Length of the compression flag and message length before every message, in bytes.
const PREFIX: usize = 5;

/// Method, message and options of a unary call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Path of the method, as `/pkg.Service/Method`.
    pub path: &'a str,
    /// The encoded request message.
    pub message: &'a [u8],
    /// Time until the deadline; `None` for no deadline.
    pub timeout: Option<Duration>,
    /// Additional request headers.
    pub headers: HeaderMap,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            path: "/echo.Echo/Call",
            message: b"hello",
            timeout: None,
            headers: HeaderMap::new(),
        }
    }
}

/// Makes the call. Returns the response message, and the endpoint if the channel reports picks.
///
/// # Errors
/// Every status except OK. `INTERNAL` if the response has no status.
pub async fn call(
    channel: &XdsChannel,
    call: Call<'_>,
) -> Result<(Bytes, Option<Arc<Picked>>), Status> {
    let response = match channel.clone().call(request(call)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let picked = response.extensions().get().cloned();
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Err(status);
    }
    let body = response.into_body().collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = Status::from_header_map(&trailers)
        .unwrap_or_else(|| Status::internal("response ended without a grpc-status"));
    if status.code() != tonic::Code::Ok {
        return Err(status);
    }
    let message = body.to_bytes();
    Ok((message.slice(PREFIX.min(message.len())..), picked))
}

fn request(call: Call<'_>) -> Request<Full<Bytes>> {
    let mut frame = BytesMut::with_capacity(PREFIX + call.message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(call.message.len()).unwrap_or(u32::MAX));
    frame.put_slice(call.message);
    let mut request = Request::new(Full::new(frame.freeze()));
    *request.method_mut() = http::Method::POST;
    // An invalid path becomes "/": the server's UNIMPLEMENTED reports it.
    *request.uri_mut() = call.path.parse().unwrap_or_default();
    *request.headers_mut() = call.headers;
    let headers = request.headers_mut();
    let grpc = HeaderValue::from_static("application/grpc");
    headers.insert(http::header::CONTENT_TYPE, grpc);
    headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    if let Some(timeout) = call.timeout {
        let micros = HeaderValue::try_from(format!("{}u", timeout.as_micros().min(99_999_999)));
        let name = HeaderName::from_static("grpc-timeout");
        headers.extend(micros.ok().map(|micros| (name, micros)));
    }
    request
}
