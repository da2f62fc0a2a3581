//! Why a call of discovery ends, or is not answered: the one place where that becomes a gRPC status.

use std::net::IpAddr;

use oxds_core::session::StreamError;
use tonic::{Code, Status};

use super::context::Context;
use crate::fetch::Refused;
use crate::security::Denied;

/// The client is to blame, or a limit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0} streams are open, which is the limit")]
    Streams(usize),
    #[error("{limit} streams of {peer} are open, which is the limit")]
    StreamsOfPeer { peer: IpAddr, limit: usize },
    #[error("no request came")]
    Silent,
    #[error("a request of {length} bytes; at most {limit} are accepted")]
    MessageTooLong { length: usize, limit: usize },
    // gRPC over HTTP/2, "Compression": an encoding that was not offered.
    #[error("compressed requests are not accepted")]
    Compressed,
    #[error("the last request is incomplete")]
    Torn,
    #[error("malformed DiscoveryRequest: {0}")]
    Undecodable(#[from] prost::DecodeError),
    #[error(transparent)]
    Protocol(#[from] StreamError),
    #[error(transparent)]
    Question(#[from] Refused),
    #[error("a name of more than {0} bytes in a load report")]
    ReportedName(usize),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{message}")]
    Program { code: Code, message: String },
}

/// What a hook refuses.
impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Program {
            code: status.code(),
            message: status.message().to_owned(),
        }
    }
}

impl Refusal {
    /// What the client is told, counted.
    pub(crate) fn status(&self, context: &Context) -> Status {
        context.metrics.refused(self.label());
        Status::new(self.code(), self.to_string())
    }

    fn code(&self) -> Code {
        match self {
            Self::Streams(_)
            | Self::StreamsOfPeer { .. }
            | Self::MessageTooLong { .. }
            | Self::Protocol(StreamError::TooManyTypes { .. } | StreamError::TooManyNames { .. }) => {
                Code::ResourceExhausted
            }
            Self::Silent => Code::DeadlineExceeded,
            Self::Compressed | Self::Protocol(StreamError::UnknownType(_)) => Code::Unimplemented,
            // Of our driver: it mixed up the variants.
            Self::Protocol(StreamError::WrongProtocol) => Code::Internal,
            Self::Torn
            | Self::Undecodable(_)
            | Self::Protocol(_)
            | Self::Question(_)
            | Self::ReportedName(_) => Code::InvalidArgument,
            Self::Denied(Denied::Changed) => Code::Unavailable,
            Self::Denied(Denied::Nobody) => Code::Unauthenticated,
            Self::Denied(_) => Code::PermissionDenied,
            // A program that refuses does not end a call well, whatever it says.
            Self::Program { code: Code::Ok, .. } => Code::Unknown,
            Self::Program { code, .. } => *code,
        }
    }

    /// What the metric calls it.
    fn label(&self) -> &'static str {
        match self {
            Self::Streams(_) => "streams",
            Self::StreamsOfPeer { .. } => "streams_per_peer",
            Self::Silent => "first_request",
            Self::MessageTooLong { .. } => "message_bytes",
            Self::Protocol(StreamError::TooManyTypes { .. }) => "kinds",
            Self::Protocol(StreamError::TooManyNames { .. })
            | Self::Question(Refused::TooManyNames(_)) => "names",
            Self::Protocol(
                StreamError::NameTooLong { .. } | StreamError::TypeUrlTooLong { .. },
            )
            | Self::Question(Refused::NameTooLong(_))
            | Self::ReportedName(_) => "name_length",
            Self::Denied(_) => "authorization",
            Self::Program { .. } => "program",
            Self::Compressed
            | Self::Torn
            | Self::Undecodable(_)
            | Self::Protocol(_)
            | Self::Question(_) => "protocol",
        }
    }
}
