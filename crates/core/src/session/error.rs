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
    /// A SotW request names a glob collection (xRFC TP1). Maps to `INVALID_ARGUMENT`.
    #[error("glob collection {0:?} in a SotW request: collections need the delta variant")]
    CollectionInSotw(String),
    /// A locator has dynamic parameters (xRFC TP2). Maps to `UNIMPLEMENTED`.
    #[error(
        "dynamic parameters for resource {0:?}: not supported, resources have no variants here"
    )]
    DynamicParameters(String),
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

/// Start of a client's text, long enough to recognise it.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(128).collect()
}
