//! All keys of a configuration in etcd: built and parsed.
//!
//! ```text
//! /oxds/default/                   the prefix of all keys below
//! format                           version of the layout
//! l/<lane>/head                    head
//! l/<lane>/r/<type>/<name>         resource for all nodes
//! l/<lane>/g/<group>               matcher of a group
//! l/<lane>/g/<group>/r/<type>/<name>
//! l/<lane>/s/<publish id>/…        staged: `r/…` or `g/…` as above
//! l/<lane>/s/<publish id>/alive    leased by the writer
//! x/<id>                           status of a replica
//! n/<lane>/<place>/<version>/<id>  NACK report of a replica
//! w/<lane>/<place>                 rollback decision
//! lock/<lane>                      housekeeping
//! ```
//!
//! `<type>` is the full name of a v3 message; `<name>` is the raw rest of the key, which may have any character (G-3).

use std::fmt;

use bytes::Bytes;
use oxds_types::Version;
use oxds_types::etcd::{RangeRequest, prefix_end};

use super::entry::{Entry, Place};
use super::key_error::KeyError;
use super::names::{Prefix, PublishId, Segment};

/// A published version that clients NACKed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BadVersion {
    /// The lane.
    pub lane: Segment,
    /// First place of the change that has content.
    pub place: Place,
    /// Version that the lane counts.
    pub version: Version,
}

impl BadVersion {
    /// Returns the key of the report of a replica.
    #[must_use]
    pub fn report_key(&self, replica: &Segment) -> Key {
        Key::Nack(self.clone(), replica.clone())
    }

    /// Returns the key of the decision.
    #[must_use]
    pub fn decision_key(&self) -> Key {
        Key::Rollback(self.lane.clone(), self.place.clone())
    }
}

/// A key below a prefix. `Display` writes it without the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Version of the layout.
    Format,
    /// Head of a lane.
    Head(Segment),
    /// Published entry of a lane.
    Entry(Segment, Entry),
    /// Entry of a large publish that was not moved to its place yet.
    Staged(Segment, PublishId, Entry),
    /// Leased key of the writer of a stage.
    Alive(Segment, PublishId),
    /// Status of a replica.
    Status(Segment),
    /// NACKs of a version that a replica reports.
    Nack(BadVersion, Segment),
    /// Rollback decision about a resource.
    Rollback(Segment, Place),
    /// Leased key of the process that does housekeeping.
    Lock(Segment),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format => f.write_str("format"),
            Self::Head(lane) => write!(f, "l/{lane}/head"),
            Self::Entry(lane, entry) => write!(f, "l/{lane}/{entry}"),
            Self::Staged(lane, id, entry) => write!(f, "l/{lane}/s/{id}/{entry}"),
            Self::Alive(lane, id) => write!(f, "l/{lane}/s/{id}/alive"),
            Self::Status(replica) => write!(f, "x/{replica}"),
            Self::Nack(bad, replica) => {
                let BadVersion {
                    lane,
                    place,
                    version,
                } = bad;
                write!(f, "n/{lane}/{place}/{version}/{replica}")
            }
            Self::Rollback(lane, place) => write!(f, "w/{lane}/{place}"),
            Self::Lock(lane) => write!(f, "lock/{lane}"),
        }
    }
}

impl Key {
    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// The key is not in the layout.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let unknown = || KeyError::unknown(text);
        let (first, rest) = text.split_once('/').unwrap_or((text, ""));
        match first {
            "format" if rest.is_empty() => Ok(Self::Format),
            "l" => Self::parse_in_lane(rest).ok_or_else(unknown)?,
            "x" => Segment::replica(rest).map(Self::Status),
            "n" => Self::parse_nack(rest).ok_or_else(unknown)?,
            "w" => {
                let (lane, place) = rest.split_once('/').ok_or_else(unknown)?;
                Ok(Self::Rollback(Segment::lane(lane)?, Place::parse(place)?))
            }
            "lock" => Segment::lane(rest).map(Self::Lock),
            _ => Err(unknown()),
        }
    }

    fn parse_in_lane(text: &str) -> Option<Result<Self, KeyError>> {
        let (lane, rest) = text.split_once('/')?;
        let lane = match Segment::lane(lane) {
            Ok(lane) => lane,
            Err(error) => return Some(Err(error)),
        };
        if rest == "head" {
            return Some(Ok(Self::Head(lane)));
        }
        let Some(staged) = rest.strip_prefix("s/") else {
            return Some(Entry::parse(rest).map(|entry| Self::Entry(lane, entry)));
        };
        let (id, rest) = staged.split_once('/')?;
        let id = PublishId::parse(id)?;
        Some(match rest {
            "alive" => Ok(Self::Alive(lane, id)),
            entry => Entry::parse(entry).map(|entry| Self::Staged(lane, id, entry)),
        })
    }

    /// Parses from the right, because the name of the resource may have any number of `/`.
    fn parse_nack(text: &str) -> Option<Result<Self, KeyError>> {
        let (lane, rest) = text.split_once('/')?;
        let (rest, replica) = rest.rsplit_once('/')?;
        let (place, version) = rest.rsplit_once('/')?;
        let version = Version::parse(version)?;
        Some(Segment::lane(lane).and_then(|lane| {
            let place = Place::parse(place)?;
            let bad = BadVersion {
                lane,
                place,
                version,
            };
            Ok(Self::Nack(bad, Segment::replica(replica)?))
        }))
    }
}

/// Keys with a common beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// First key after the range.
    pub end: Bytes,
}

impl KeyRange {
    fn with_prefix(prefix: String) -> Self {
        let end = prefix_end(prefix.as_bytes()).into();
        Self {
            start: prefix.into(),
            end,
        }
    }

    /// Returns whether the range has a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }

    /// Returns the linearizable request for the whole range, at the latest revision.
    #[must_use]
    pub fn request(&self) -> RangeRequest {
        RangeRequest {
            key: self.start.clone(),
            range_end: self.end.clone(),
            ..RangeRequest::default()
        }
    }
}

impl Prefix {
    /// Returns a key as it is in etcd.
    #[must_use]
    pub fn key(&self, key: &Key) -> Bytes {
        format!("{self}{key}").into()
    }

    /// Reads a key as it is in etcd.
    ///
    /// # Errors
    /// The key is outside of the prefix, not UTF-8, or not in the layout.
    pub fn parse(&self, key: &[u8]) -> Result<Key, KeyError> {
        let lossy = || String::from_utf8_lossy(key).into_owned();
        let text = std::str::from_utf8(key).map_err(|_| KeyError::NotUtf8(lossy()))?;
        let below = text.strip_prefix(self.as_str());
        Key::parse(below.ok_or_else(|| KeyError::OutsidePrefix {
            key: lossy(),
            prefix: self.to_string(),
        })?)
    }

    /// Returns all keys of the configuration.
    #[must_use]
    pub fn all(&self) -> KeyRange {
        KeyRange::with_prefix(self.to_string())
    }

    /// Returns all keys of all lanes.
    #[must_use]
    pub fn lanes(&self) -> KeyRange {
        KeyRange::with_prefix(format!("{self}l/"))
    }

    /// Returns all keys of a lane: head, entries and stages.
    #[must_use]
    pub fn lane(&self, lane: &Segment) -> KeyRange {
        KeyRange::with_prefix(format!("{self}l/{lane}/"))
    }

    /// Returns the keys of all stages of a lane.
    #[must_use]
    pub fn stages(&self, lane: &Segment) -> KeyRange {
        KeyRange::with_prefix(format!("{self}l/{lane}/s/"))
    }

    /// Returns the keys of one stage.
    #[must_use]
    pub fn stage(&self, lane: &Segment, publish: PublishId) -> KeyRange {
        KeyRange::with_prefix(format!("{self}l/{lane}/s/{publish}/"))
    }

    /// Returns the status keys of all replicas.
    #[must_use]
    pub fn statuses(&self) -> KeyRange {
        KeyRange::with_prefix(format!("{self}x/"))
    }

    /// Returns the NACK reports about a lane.
    #[must_use]
    pub fn nacks(&self, lane: &Segment) -> KeyRange {
        KeyRange::with_prefix(format!("{self}n/{lane}/"))
    }

    /// Returns the rollback decisions about a lane.
    #[must_use]
    pub fn rollbacks(&self, lane: &Segment) -> KeyRange {
        KeyRange::with_prefix(format!("{self}w/{lane}/"))
    }
}

#[cfg(test)]
mod tests;
