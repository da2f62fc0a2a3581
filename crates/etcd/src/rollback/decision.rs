//! Value of `w/<lane>/<place>`: a rollback that all replicas follow.
//!
//! ```proto
//! message Decision {
//!   repeated Part parts = 1;
//!   string reason = 2;
//!   uint64 nodes = 3;
//!   string replica = 4;
//!   uint32 format = 5;
//! }
//! message Part { string place = 1; string version = 2; bytes good = 3; }
//! ```

use std::sync::Arc;

use bytes::Bytes;
use oxds_types::Version;
use prost::Message;

use super::change::Trial;
use crate::entry::Place;
use crate::format::{self, FORMAT};
use crate::stored::Stored;
use oxds_core::snapshot::Resource;

#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<EncodedPart>,
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(uint64, tag = "3")]
    nodes: u64,
    #[prost(string, tag = "4")]
    replica: String,
    #[prost(uint32, tag = "5")]
    format: u32,
}

#[derive(Clone, PartialEq, Message)]
struct EncodedPart {
    #[prost(string, tag = "1")]
    place: String,
    /// Published version; empty if the publish removed the resource.
    #[prost(string, tag = "2")]
    version: String,
    /// The former value; empty if it did not exist.
    #[prost(bytes = "bytes", tag = "3")]
    good: Bytes,
}

/// A rollback of one change. It applies while the lane has the published version of each part.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The changed resources.
    pub parts: Vec<DecisionPart>,
    /// Error message of a NACK.
    pub reason: String,
    /// Number of nodes of all replicas that NACKed the change.
    pub nodes: u64,
    /// The replica that decided.
    pub replica: String,
}

/// A resource that is rolled back.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionPart {
    /// Place of the resource.
    pub place: Place,
    /// Version that is not served, as the lane counts it; `None`: the publish removed the resource.
    pub version: Option<Version>,
    /// Content that is served; `None`: nothing.
    pub good: Option<Arc<Resource>>,
}

impl Decision {
    /// Makes the decision about a change.
    #[must_use]
    pub fn new(trial: &Trial, reason: &str, nodes: u64, replica: &str) -> Self {
        let parts = trial.parts.iter().map(|part| DecisionPart {
            place: part.place.clone(),
            version: part.stored.as_deref().map(Stored::version_of),
            good: part.good.clone(),
        });
        Self {
            parts: parts.collect(),
            reason: reason.to_owned(),
            nodes,
            replica: replica.to_owned(),
        }
    }

    /// Returns the version of a place that the decision is about; `None` if it has no such part.
    #[must_use]
    pub fn version_of(&self, place: &Place) -> Option<Version> {
        let part = self.parts.iter().find(|part| part.place == *place);
        part.and_then(|part| part.version)
    }

    /// Returns the value of the key.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let parts = self.parts.iter().map(|part| EncodedPart {
            place: part.place.to_string(),
            version: part.version.map_or_else(String::new, |v| v.to_string()),
            good: part.good.as_ref().map_or_else(Bytes::new, |good| {
                Stored::of_resource(good, None).encoded().clone()
            }),
        });
        let encoded = Encoded {
            parts: parts.collect(),
            reason: self.reason.clone(),
            nodes: self.nodes,
            replica: self.replica.clone(),
            format: FORMAT,
        };
        encoded.encode_to_vec().into()
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The text says what is wrong. Such a decision is not followed.
    pub fn decode(value: &[u8]) -> Result<Self, String> {
        let encoded = Encoded::decode(value).map_err(|error| error.to_string())?;
        format::check(encoded.format).map_err(|error| error.to_string())?;
        let parts = encoded.parts.into_iter().map(DecisionPart::decode);
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        if parts.is_empty() {
            return Err("a decision without a resource".to_owned());
        }
        Ok(Self {
            parts,
            reason: encoded.reason,
            nodes: encoded.nodes,
            replica: encoded.replica,
        })
    }
}

impl DecisionPart {
    fn decode(encoded: EncodedPart) -> Result<Self, String> {
        let place = Place::parse(&encoded.place).map_err(|error| error.to_string())?;
        let version = match encoded.version.as_str() {
            "" => None,
            text => {
                Some(Version::parse(text).ok_or_else(|| format!("malformed version {text:?}"))?)
            }
        };
        let good = if encoded.good.is_empty() {
            None
        } else {
            let stored = Stored::decode(encoded.good).map_err(|error| error.to_string())?;
            let good = stored.resource(&place).map_err(|error| error.to_string())?;
            Some(Arc::new(good))
        };
        Ok(Self {
            place,
            version,
            good,
        })
    }
}
