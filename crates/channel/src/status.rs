//! Statuses of RPCs that fail without a response: the one place where causes become gRPC statuses.

use std::error::Error;

use tonic::{Code, Status};

/// Returns the status of an RPC whose transport failed. The mapping of HTTP/2 error codes is gRPC's
/// (PROTOCOL-HTTP2.md, "Errors").
pub(crate) fn of_transport(error: &hyper::Error) -> Status {
    // The application's request body failed: its own status is the cause.
    if let Some(own) = source::<Status>(error) {
        return own.clone();
    }
    let code = match source::<h2::Error>(error).and_then(h2::Error::reason) {
        Some(h2::Reason::CANCEL) => Code::Cancelled,
        Some(h2::Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(h2::Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
        Some(h2::Reason::REFUSED_STREAM | h2::Reason::HTTP_1_1_REQUIRED) | None => {
            Code::Unavailable
        }
        Some(h2::Reason::NO_ERROR)
            if source::<h2::Error>(error).is_some_and(h2::Error::is_go_away) =>
        {
            Code::Unavailable
        }
        Some(_) => Code::Internal,
    };
    Status::new(code, format!("connection to the backend: {}", chain(error)))
}

/// Returns whether the backend certainly did not process the request, so that a transparent retry is
/// allowed (gRFC A6): the stream was refused, or is above the last stream of an orderly GOAWAY.
pub(crate) fn never_processed(error: &hyper::Error) -> bool {
    source::<h2::Error>(error).is_some_and(|h2| {
        let refused = h2.reason() == Some(h2::Reason::REFUSED_STREAM);
        // h2 reports GOAWAY(NO_ERROR) only for streams above the server's last stream id, and for
        // requests that had no stream yet: neither was processed.
        let above_last_stream = h2.is_go_away() && h2.reason() == Some(h2::Reason::NO_ERROR);
        h2.is_remote() && (refused || above_last_stream)
    })
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

fn source<T: Error + 'static>(error: &hyper::Error) -> Option<&T> {
    sources(error).find_map(|cause| cause.downcast_ref())
}

fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// Joins the error and its sources into one line.
fn chain(error: &hyper::Error) -> String {
    let texts: Vec<_> = sources(error).map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
