//! Errors that end a call, and their gRPC status.

use std::net::IpAddr;

use axum::http::StatusCode;
use oxds_core::session::StreamError;
use oxds_types::ApiVersion;
use tonic::{Code, Status};

use super::budget::OverBudget;
use crate::metrics::{DeniedBy, InvalidPart, Limit, Metrics};
use crate::security::Denied;

/// Why the server ends a call: the client made a mistake, reached a limit, or is not allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("too many streams: the limit of {0} is reached")]
    TooManyStreams(usize),
    #[error("too many streams of {peer}: the limit of {limit} is reached")]
    TooManyStreamsOfPeer { peer: IpAddr, limit: usize },
    #[error("no request received in time")]
    NoRequest,
    #[error("request of {length} bytes: at most {limit} are allowed")]
    MessageTooLong { length: usize, limit: usize },
    // gRPC over HTTP/2, "Compression": the client may only use an encoding that the server has advertised.
    #[error("compressed request: compression is not supported")]
    Compressed,
    #[error("truncated request: the body ended within a message")]
    Truncated,
    #[error("malformed discovery request: {0}")]
    Malformed(#[from] prost::DecodeError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("node of {length} bytes: at most {limit} are allowed")]
    NodeTooLong { length: usize, limit: usize },
    #[error("node id of {length} bytes: at most {limit} are allowed")]
    NodeIdTooLong { length: usize, limit: usize },
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error("name too long in load report: at most {0} bytes are allowed")]
    ReportedNameTooLong(usize),
    #[error("API {} is not served here: expected {} or later", major(.0), major(.1))]
    OldApi(ApiVersion, ApiVersion),
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A hook of the program ended the call.
    #[error("{message}")]
    Hook { code: Code, message: String },
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Hook {
            code: status.code(),
            message: status.message().to_owned(),
        }
    }
}

impl CallError {
    /// Counts the error, and returns the status for the client.
    pub(crate) fn status(&self, metrics: &Metrics) -> Status {
        self.count(metrics);
        Status::new(self.code(), self.to_string())
    }

    fn code(&self) -> Code {
        match self {
            Self::TooManyStreams(_)
            | Self::TooManyStreamsOfPeer { .. }
            | Self::MessageTooLong { .. }
            | Self::NodeTooLong { .. }
            | Self::NodeIdTooLong { .. }
            | Self::OverBudget(_)
            | Self::Stream(StreamError::TooManyTypes { .. } | StreamError::TooManyNames { .. }) => {
                Code::ResourceExhausted
            }
            Self::NoRequest => Code::DeadlineExceeded,
            Self::Compressed
            | Self::OldApi(..)
            | Self::Stream(StreamError::UnknownType(_) | StreamError::DynamicParameters(_)) => {
                Code::Unimplemented
            }
            // The driver passed a SotW message to a delta session: a bug of the server.
            Self::Stream(StreamError::WrongProtocol) => Code::Internal,
            Self::Truncated
            | Self::Malformed(_)
            | Self::Stream(_)
            | Self::ReportedNameTooLong(_) => Code::InvalidArgument,
            Self::Denied(Denied::Changed) => Code::Unavailable,
            Self::Denied(Denied::NoCertificate) => Code::Unauthenticated,
            Self::Denied(_) => Code::PermissionDenied,
            // A hook that ends a call with OK would hide the denial from the client.
            Self::Hook { code: Code::Ok, .. } => Code::Unknown,
            Self::Hook { code, .. } => *code,
        }
    }

    fn count(&self, metrics: &Metrics) {
        let limit = match self {
            Self::TooManyStreams(_) => Limit::Streams,
            Self::TooManyStreamsOfPeer { .. } => Limit::StreamsPerPeer,
            Self::NoRequest => Limit::FirstRequest,
            Self::MessageTooLong { .. } => Limit::RequestBytes,
            Self::NodeTooLong { .. } => Limit::NodeBytes,
            Self::NodeIdTooLong { .. } => Limit::NodeIdBytes,
            Self::OverBudget(_) => Limit::Memory,
            Self::Stream(StreamError::TooManyTypes { .. }) => Limit::Types,
            Self::Stream(StreamError::TooManyNames { .. }) => Limit::Names,
            Self::Stream(StreamError::NameTooLong { .. } | StreamError::TypeUrlTooLong { .. })
            | Self::ReportedNameTooLong(_) => Limit::NameBytes,
            Self::OldApi(..) => return metrics.denied(DeniedBy::ApiVersion),
            Self::Denied(_) => return metrics.denied(DeniedBy::Authorization),
            Self::Hook { .. } => return metrics.denied(DeniedBy::Hook),
            Self::Compressed | Self::Truncated | Self::Malformed(_) | Self::Stream(_) => {
                return metrics.invalid(InvalidPart::Request);
            }
        };
        metrics.over_limit(limit);
    }
}

fn major(api: &ApiVersion) -> &'static str {
    match api {
        ApiVersion::V2 => "v2",
        ApiVersion::V3 => "v3",
    }
}

/// Returns the HTTP status for a gRPC code, as `google/rpc/code.proto` maps them.
pub(crate) fn http_status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
