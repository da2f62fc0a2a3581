//! Statuses of RPCs that fail without a gRPC response: the one place where causes become gRPC statuses.

use http::StatusCode;
use tonic::{Code, Status};

use crate::stream::StreamError;

/// Returns the status of an RPC whose transport failed. The mapping of HTTP/2 error codes is gRPC's
/// (PROTOCOL-HTTP2.md, "Errors").
pub(crate) fn of_transport(error: &StreamError) -> Status {
    let code = match error {
        // The application's request body failed: its own status is the cause.
        StreamError::RequestBody(own) => return own.clone(),
        StreamError::Http2(h2) => code_of_http2(h2),
        StreamError::Silent => Code::Unavailable,
    };
    Status::new(code, format!("connection to the backend: {error}"))
}

fn code_of_http2(error: &h2::Error) -> Code {
    match error.reason() {
        // The code of a GOAWAY is about the connection; the call was not processed.
        Some(_) if error.is_go_away() && error.is_remote() => Code::Unavailable,
        Some(h2::Reason::CANCEL) => Code::Cancelled,
        Some(h2::Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(h2::Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
        Some(h2::Reason::REFUSED_STREAM | h2::Reason::HTTP_1_1_REQUIRED) | None => {
            Code::Unavailable
        }
        Some(_) => Code::Internal,
    }
}

/// Returns whether the backend certainly did not process the request, so that a transparent retry is
/// allowed (gRFC A6): the stream was refused, or is above the last stream of a GOAWAY.
pub(crate) fn never_processed(error: &StreamError) -> bool {
    let StreamError::Http2(h2) = error else {
        return false;
    };
    let refused = h2.reason() == Some(h2::Reason::REFUSED_STREAM);
    // h2 reports a remote GOAWAY with any code only for streams above the server's last
    // stream id, and for requests that had no stream yet: neither was processed (RFC 9113 §6.8).
    h2.is_remote() && (refused || h2.is_go_away())
}

/// Returns the code of a response that has an HTTP status and no gRPC status ("HTTP to gRPC Status
/// Code Mapping").
pub(crate) fn code_of_http(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

pub(crate) fn deadline_exceeded(waiting_for: &str) -> Status {
    Status::deadline_exceeded(format!("deadline exceeded while {waiting_for}"))
}

/// Returns the status of an RPC that the channel fails itself.
pub(crate) fn of_control_plane(code: Code, message: impl Into<String>) -> Status {
    // gRFC A54: codes that only applications may produce must not come from a control plane (C-119).
    let code = match code {
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::DataLoss => Code::Internal,
        allowed => allowed,
    };
    Status::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_statuses_map_to_grpc_codes() {
        for (status, code) in [
            (200, Code::Unknown),
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (418, Code::Unknown),
            (429, Code::Unavailable),
            (500, Code::Unknown),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(code_of_http(status), code, "{status}");
        }
    }

    #[test]
    fn c119_control_plane_with_application_code_becomes_internal() {
        for number in 0..=16 {
            let code = Code::from(number);
            let status = of_control_plane(code, "").code();
            let allowed = [1, 2, 4, 7, 8, 12, 13, 14, 16].contains(&number);
            assert_eq!(status, if allowed { code } else { Code::Internal });
        }
    }
}
