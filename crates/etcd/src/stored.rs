//! Value of an entry: a resource or a matcher, its version and its origin.
//!
//! ```proto
//! message Stored {
//!   google.protobuf.Any any = 1;        // as the writer wrote it: never encoded again
//!   string version = 2;                 // hash of any.value
//!   google.protobuf.Duration ttl = 3;
//!   Origin origin = 4;
//!   uint32 format = 5;
//! }
//! message Origin { string file = 1; uint32 line = 2; string text_hash = 3; }
//! ```

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use oxds_types::discovery::{self, Any};
use oxds_types::{ApiVersion, ResourceType, Version};
use prost::Message;

use super::entry::Place;
use super::format::{self, FORMAT, FormatError};
use super::matcher;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::{Resource, WireError};
use oxds_core::time::{LONGEST_DURATION, duration};

/// Source of an entry, for people.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Origin {
    /// File, relative to the published folder.
    #[prost(string, tag = "1")]
    pub file: String,
    /// Line in the file, from 1; 0 if unknown.
    #[prost(uint32, tag = "2")]
    pub line: u32,
    /// Hash of the text of the file; empty if unknown.
    #[prost(string, tag = "3")]
    pub text_hash: String,
}

/// Message on the wire. `any` is declared as bytes, which have the same encoding as a message, so that it stays as it
/// is.
#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(bytes = "bytes", tag = "1")]
    any: Bytes,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(message, optional, tag = "3")]
    ttl: Option<discovery::Duration>,
    #[prost(message, optional, tag = "4")]
    origin: Option<Origin>,
    #[prost(uint32, tag = "5")]
    format: u32,
}

/// A value whose version was checked.
///
/// The bytes are those that were written, unknown fields included; equality is equality of these bytes.
#[derive(Clone)]
pub struct Stored {
    encoded: Bytes,
    any: Any,
    version: Version,
    ttl: Option<Duration>,
    origin: Option<Origin>,
}

/// Reason why a value is not accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoredError {
    /// The bytes are not a value of the layout.
    #[error("malformed value: {0}")]
    Malformed(String),
    /// The format of the value is unknown.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The version is not that of the content: one of both was changed.
    #[error("version {found:?} does not fit the content: expected {expected}")]
    WrongVersion {
        /// Version in the value.
        found: String,
        /// Version of the content.
        expected: Version,
    },
    /// The TTL is negative or out of range.
    #[error("invalid ttl: expected a duration that is not negative")]
    InvalidTtl,
    /// The content is of another type than the key says.
    #[error("type_url {found:?} does not fit the key: expected {expected}")]
    WrongType {
        /// Type URL in the value.
        found: String,
        /// Message of the type of the key.
        expected: String,
    },
    /// The content is not a resource.
    #[error(transparent)]
    Resource(#[from] WireError),
    /// The content is not a matcher of this build.
    #[error("malformed matcher: {0}")]
    Matcher(String),
}

/// Returns the version that the [`Digest`](super::Digest) counts for a content with this version and TTL.
fn digest_version(version: Version, ttl: Option<Duration>) -> Version {
    let Some(ttl) = ttl else {
        return version;
    };
    let (seconds, nanos) = (
        ttl.as_secs().to_le_bytes(),
        ttl.subsec_nanos().to_le_bytes(),
    );
    let version = version.as_str().as_bytes();
    Version::of(&[version, &seconds, &nanos].concat())
}

impl Stored {
    /// Makes the value for a resource.
    #[must_use]
    pub fn of_resource(resource: &Resource, origin: Option<Origin>) -> Self {
        let type_url = resource.resource_type().type_url().to_owned();
        let value = resource.value();
        Self::new(Any { type_url, value }, resource.ttl(), origin)
    }

    /// Makes the value for the matcher of a group.
    #[must_use]
    pub fn of_matcher(matcher: &NodeMatcher, origin: Option<Origin>) -> Self {
        let type_url = matcher::TYPE_URL.to_owned();
        let value = matcher::encode(matcher).into();
        Self::new(Any { type_url, value }, None, origin)
    }

    fn new(any: Any, ttl: Option<Duration>, origin: Option<Origin>) -> Self {
        let version = Version::of(&any.value);
        // A longer one could not be read.
        let ttl = ttl.map(|ttl| ttl.min(LONGEST_DURATION));
        let encoded = Encoded {
            any: any.encode_to_vec().into(),
            version: version.to_string(),
            ttl: ttl.map(|ttl| discovery::Duration {
                seconds: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX),
                nanos: ttl.subsec_nanos().cast_signed(),
            }),
            origin: origin.clone(),
            format: FORMAT,
        };
        Self {
            encoded: encoded.encode_to_vec().into(),
            any,
            version,
            ttl,
            origin,
        }
    }

    /// Reads the value of an entry's key, and checks its version against its content. The content shares the given
    /// bytes.
    ///
    /// # Errors
    /// The bytes are not a value, have a newer format (G-4), or have a version that is not that of the content.
    pub fn decode(value: Bytes) -> Result<Self, StoredError> {
        let malformed = |error: prost::DecodeError| StoredError::Malformed(error.to_string());
        let encoded = Encoded::decode(value.clone()).map_err(malformed)?;
        format::check(encoded.format)?;
        let any = Any::decode(encoded.any).map_err(malformed)?;
        let version = Version::of(&any.value);
        if version != *encoded.version {
            let (found, expected) = (encoded.version, version);
            return Err(StoredError::WrongVersion { found, expected });
        }
        let ttl = encoded
            .ttl
            .map(|ttl| duration(&ttl).ok_or(StoredError::InvalidTtl));
        Ok(Self {
            encoded: value,
            any,
            version,
            ttl: ttl.transpose()?,
            origin: encoded.origin,
        })
    }

    /// Returns the value for the key of an entry: as it was read, or as it was first encoded.
    #[must_use]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Returns the version: a hash of the content.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the TTL of the resource.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Returns the source of the entry, if the writer knew it.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the version that the [`Digest`](super::Digest) counts: that of the content, or, with a TTL, a hash of
    /// both. A lost change of a TTL alone must change the digest, too.
    #[must_use]
    pub fn digest_version(&self) -> Version {
        digest_version(self.version, self.ttl)
    }

    /// Returns the [`digest_version`](Self::digest_version) of the value for a resource.
    #[must_use]
    pub fn version_of(resource: &Resource) -> Version {
        digest_version(resource.version(), resource.ttl())
    }

    /// Returns whether clients see no difference: equal content and equal TTL. The origin may differ.
    #[must_use]
    pub fn is_same_content(&self, other: &Self) -> bool {
        (self.version, self.ttl) == (other.version, other.ttl)
            && self.any.type_url == other.any.type_url
    }

    /// Returns the resource. Fields that this build does not know are kept; only its type, its depth and its name are
    /// checked (G-2).
    ///
    /// # Errors
    /// The type is not that of the place, or the content nests too deep.
    pub fn resource(&self, place: &Place) -> Result<Resource, StoredError> {
        let type_url = &*self.any.type_url;
        // First, because almost all are equal, and to read one takes longer.
        let is_of_type = type_url == place.resource_type.type_url()
            || ResourceType::from_type_url(type_url)
                == Some((place.resource_type.clone(), ApiVersion::V3));
        if !is_of_type {
            return Err(StoredError::WrongType {
                found: self.any.type_url.clone(),
                expected: place.resource_type.message().to_owned(),
            });
        }
        let (resource_type, name) = place.resource_key();
        let resource = Resource::from_stored(resource_type, name, &self.any.value)?;
        Ok(match self.ttl {
            Some(ttl) => resource.with_ttl(ttl),
            None => resource,
        })
    }

    /// Returns the matcher of a group.
    ///
    /// # Errors
    /// The content is not a matcher, or has conditions that this build does not know: without them it would match too
    /// many nodes.
    pub fn matcher(&self) -> Result<NodeMatcher, StoredError> {
        if self.any.type_url != matcher::TYPE_URL {
            return Err(StoredError::WrongType {
                found: self.any.type_url.clone(),
                expected: matcher::TYPE_URL.to_owned(),
            });
        }
        matcher::decode(&self.any.value).map_err(StoredError::Matcher)
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Eq for Stored {}

/// Without the content, which may be a secret.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { any, version, .. } = self;
        write!(f, "Stored({}@{version})", any.type_url)
    }
}

/// Value of a staged key: what a move makes of the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staged {
    /// The entry gets this value.
    Put(Stored),
    /// The entry is removed. An empty value is this tombstone: that of [`Stored`] is never empty.
    Removal,
}

impl Staged {
    /// Reads the value of a staged key.
    ///
    /// # Errors
    /// As [`Stored::decode`].
    pub fn decode(value: Bytes) -> Result<Self, StoredError> {
        if value.is_empty() {
            Ok(Self::Removal)
        } else {
            Stored::decode(value).map(Self::Put)
        }
    }

    /// Returns the value for the staged key.
    #[must_use]
    pub fn encoded(&self) -> Bytes {
        match self {
            Self::Put(stored) => stored.encoded().clone(),
            Self::Removal => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests;
