//! Why an RPC failed without an answer: the one place where causes become gRPC statuses.

use std::error::Error;

use tonic::{Code, Status};

/// The status of an RPC whose transport failed, as gRPC maps HTTP/2 error codes
/// (PROTOCOL-HTTP2.md, "Errors").
pub(crate) fn of_transport(error: &hyper::Error) -> Status {
    // A request body of the application fails with a status of its own.
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

/// Whether the backend certainly did not see the request, so that it may be sent again
/// ("transparent retry", A6): refused as such, or above the last stream of an orderly GOAWAY.
pub(crate) fn never_processed(error: &hyper::Error) -> bool {
    source::<h2::Error>(error).is_some_and(|h2| {
        let refused = h2.reason() == Some(h2::Reason::REFUSED_STREAM);
        // h2 ends streams with GOAWAY(NO_ERROR) only where the server's last stream id, or the
        // lack of a stream, shows that they were not processed.
        let left_out = h2.is_go_away() && h2.reason() == Some(h2::Reason::NO_ERROR);
        h2.is_remote() && (refused || left_out)
    })
}

pub(crate) fn deadline_exceeded(waiting_for: &str) -> Status {
    Status::deadline_exceeded(format!("deadline exceeded while {waiting_for}"))
}

/// An RPC that the channel fails itself. What a control plane says must not reach the application
/// as a code that is the application's own (C-119, A54).
pub(crate) fn of_control_plane(code: Code, message: impl Into<String>) -> Status {
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

/// All causes in one line.
fn chain(error: &hyper::Error) -> String {
    let texts: Vec<_> = sources(error).map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c119_codes_of_the_application_are_not_the_control_planes_to_give() {
        for code in 0..=16 {
            let given = Code::from(code);
            let told = of_control_plane(given, "").code();
            let kept = [1, 2, 4, 7, 8, 12, 13, 14, 16].contains(&code);
            assert_eq!(told, if kept { given } else { Code::Internal });
        }
    }
}
