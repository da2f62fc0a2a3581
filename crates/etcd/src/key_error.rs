//! Errors in keys and in the names that they consist of.

use oxds_types::ResourceType;

/// Reason why a key or a name in it is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The prefix would be the whole etcd.
    #[error("empty prefix: expected a text such as \"/oxds/default/\"")]
    EmptyPrefix,
    /// The name of a lane, a group or a replica is empty or has a `/`.
    #[error("invalid {of} name {name:?}: expected a text without \"/\" that is not empty")]
    InvalidSegment {
        /// Kind of the name.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// The key does not begin with the prefix.
    #[error("key {key:?} is outside of the prefix {prefix}")]
    OutsidePrefix {
        /// The key.
        key: String,
        /// The prefix.
        prefix: String,
    },
    /// The key is not UTF-8.
    #[error("key {0:?} is not UTF-8")]
    NotUtf8(String),
    /// The type is not the full name of a v3 message.
    #[error("invalid resource type {0:?}: expected the full name of a v3 message")]
    InvalidType(String),
    /// The name of the resource is empty.
    #[error("a key of type {0} has no resource name")]
    NoName(ResourceType),
    /// The key is not in the layout.
    #[error("unknown key {0:?}")]
    Unknown(String),
}

impl KeyError {
    pub(super) fn unknown(text: &str) -> Self {
        Self::Unknown(text.to_owned())
    }
}
