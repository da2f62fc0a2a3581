//! Errors of the client that end its stream, and reasons for which it does not get a name (xRFC TP3).

use oxds_types::ResourceType;

/// Protocol violation or exceeded limit of the client. It ends this stream; other streams go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A request on an ADS stream has no type URL (S-58). Maps to `INVALID_ARGUMENT`.
    #[error("missing type_url: an aggregated stream needs one in each request")]
    MissingTypeUrl,
    /// The type URL names no message. Maps to `INVALID_ARGUMENT`.
    #[error("malformed type_url {0:?}: expected type.googleapis.com/<message>")]
    MalformedTypeUrl(String),
    /// The type URL is longer than [`Config::max_name_len`](super::Config::max_name_len) (S-60). Maps to
    /// `INVALID_ARGUMENT`.
    #[error("type_url too long: {len} bytes, limit {limit}")]
    TypeUrlTooLong {
        /// Length of the name in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A request on a stream of one type has another type URL (S-58). Maps to `INVALID_ARGUMENT`.
    #[error("wrong type_url {asked:?}: this stream serves {served}")]
    WrongType {
        /// Type URL of the request.
        asked: String,
        /// Resource type of the stream.
        served: ResourceType,
    },
    /// The resource type is unknown and [`UnknownTypes::EndStream`](super::UnknownTypes::EndStream) is set (S-59).
    /// Maps to `UNIMPLEMENTED`.
    #[error("unknown resource type {0:?}: not served here")]
    UnknownType(String),
    /// A SotW message on a delta stream, or the reverse: a bug of the driver. Maps to `INTERNAL`.
    #[error("wrong protocol variant: SotW and delta requests do not mix on a stream")]
    WrongProtocol,
    /// More types than [`Config::max_types`](super::Config::max_types) (S-60). Maps to `RESOURCE_EXHAUSTED`.
    #[error("too many resource types on the stream: limit {limit}")]
    TooManyTypes {
        /// The limit.
        limit: usize,
    },
    /// More names than [`Config::max_names`](super::Config::max_names) (S-60). Maps to `RESOURCE_EXHAUSTED`.
    #[error("too many names in the subscription to {resource_type}: limit {limit}")]
    TooManyNames {
        /// The resource type.
        resource_type: ResourceType,
        /// The limit.
        limit: usize,
    },
    /// A name is longer than [`Config::max_name_len`](super::Config::max_name_len) (S-60). Maps to
    /// `INVALID_ARGUMENT`.
    #[error("{resource_type} name too long: {len} bytes, limit {limit}")]
    NameTooLong {
        /// The resource type.
        resource_type: ResourceType,
        /// Length of the name in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// Status that a client gets in place of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceErrorDetail {
    /// Code that the client acts on.
    pub code: ResourceErrorCode,
    /// Explanation for operators of the client.
    pub message: String,
}

/// Codes of `google.rpc.Code` to which TP3 gives a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceErrorCode {
    /// The resource does not exist: the client may drop its copy.
    NotFound = 5,
    /// The client may not have the resource, and may drop its copy.
    PermissionDenied = 7,
    /// The server has the resource in an invalid form: the client keeps its copy.
    Internal = 13,
    /// The server does not know the state of the resource now: the client keeps its copy.
    Unavailable = 14,
}

impl ResourceErrorDetail {
    /// Creates the detail of a resource that does not exist.
    #[must_use]
    pub fn not_found(resource_type: &ResourceType, name: &str) -> Self {
        Self {
            code: ResourceErrorCode::NotFound,
            message: format!("{resource_type} {name:?} not found"),
        }
    }
}
