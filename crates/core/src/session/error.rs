//! Why a stream must end: the client broke the protocol or a limit.

use oxds_types::ResourceType;

/// The client is to blame and the stream cannot go on; other streams can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An ADS request must say what it asks for (S-58). Maps to `INVALID_ARGUMENT`.
    #[error("the request has no type_url, which an aggregated stream needs")]
    MissingTypeUrl,
    /// Text that names no message. Maps to `INVALID_ARGUMENT`.
    #[error("type_url {0:?} has not the form type.googleapis.com/full.message.Name")]
    MalformedTypeUrl(String),
    /// Longer than [`Config::max_name_len`](super::Config::max_name_len) (S-60). Maps to `INVALID_ARGUMENT`.
    #[error("a type_url of {len} bytes; at most {limit} are allowed")]
    TypeUrlTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// A stream of one kind was asked for another (S-58). Maps to `INVALID_ARGUMENT`.
    #[error("type_url {asked:?} on a stream that carries {served}")]
    WrongType {
        /// What the request named.
        asked: String,
        /// What the stream carries.
        served: ResourceType,
    },
    /// The kind is not known and [`UnknownKinds::Refuse`](super::UnknownKinds::Refuse) holds (S-59). Maps to
    /// `UNIMPLEMENTED`.
    #[error("resources of type {0:?} are not served here")]
    UnknownType(String),
    /// A SotW message on a delta stream, or the other way round: the driver's fault. Maps to `INTERNAL`.
    #[error("the request is of the other protocol variant")]
    WrongProtocol,
    /// [`Config::max_kinds`](super::Config::max_kinds) (S-60). Maps to `RESOURCE_EXHAUSTED`.
    #[error("the stream asks for more than {limit} types of resources")]
    TooManyTypes {
        /// The limit.
        limit: usize,
    },
    /// [`Config::max_names`](super::Config::max_names) (S-60). Maps to `RESOURCE_EXHAUSTED`.
    #[error("the subscription to {resource_type} has more than {limit} names")]
    TooManyNames {
        /// The kind.
        resource_type: ResourceType,
        /// The limit.
        limit: usize,
    },
    /// [`Config::max_name_len`](super::Config::max_name_len) (S-60). Maps to `INVALID_ARGUMENT`.
    #[error("a {resource_type} name of {len} bytes; at most {limit} are allowed")]
    NameTooLong {
        /// The kind.
        resource_type: ResourceType,
        /// The name's length.
        len: usize,
        /// The limit.
        limit: usize,
    },
}
