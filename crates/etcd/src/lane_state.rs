//! State of the lanes, as it was read at one revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use itertools::EitherOrBoth::{self, Both, Left, Right};
use itertools::Itertools as _;
use oxds_types::etcd::KeyValue;

use crate::digest::Digest;
use crate::entry::Entry;
use crate::format::FormatError;
use crate::head::{Head, HeadError};
use crate::names::{Prefix, PublishId, Segment};
use crate::stored::{Stored, StoredError};

/// Head of a lane, and the revision of its last change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenHead {
    pub(super) head: Head,
    pub(super) mod_revision: i64,
}

impl SeenHead {
    pub(super) fn decode(kv: &KeyValue) -> Result<Self, HeadError> {
        Ok(Self {
            head: Head::decode(&kv.value)?,
            mod_revision: kv.mod_revision,
        })
    }
}

/// A readable value.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) stored: Arc<Stored>,
    pub(super) mod_revision: i64,
}

/// An entry whose key or value cannot be read.
#[derive(Debug, Clone)]
pub(super) struct Unreadable {
    pub(super) reason: String,
    pub(super) mod_revision: i64,
    /// The reason is a format that a newer build wrote.
    pub(super) format: Option<FormatError>,
}

/// Returns the entries of two maps in one pass over both.
pub(super) fn side_by_side<'a, K: Ord, L, R>(
    left: &'a BTreeMap<K, L>,
    right: &'a BTreeMap<K, R>,
) -> impl Iterator<Item = EitherOrBoth<(&'a K, &'a L), (&'a K, &'a R)>> {
    left.iter()
        .merge_join_by(right, |(left, _), (right, _)| left.cmp(right))
}

/// Entries of a lane. Keys of unreadable ones are below the lane (`r/…`, `g/…`).
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) entries: BTreeMap<Entry, Held>,
    pub(super) unreadable: BTreeMap<Bytes, Unreadable>,
}

/// Stage of a large publish.
#[derive(Debug, Clone, Default)]
pub(super) struct Stage {
    /// Whether its writer holds the lease.
    pub(super) is_alive: bool,
    /// Keys below the stage.
    kvs: Vec<(Bytes, KeyValue)>,
}

/// State of a lane.
#[derive(Debug, Clone, Default)]
pub(super) struct LaneState {
    pub(super) head: Option<Result<SeenHead, HeadError>>,
    pub(super) content: Content,
    pub(super) stages: BTreeMap<PublishId, Stage>,
}

/// Reads the keys of all lanes. The stage that a head names is applied to the content of its lane. Keys that are not in
/// the layout are ignored.
pub(super) fn read_lanes(
    prefix: &Prefix,
    kvs: impl IntoIterator<Item = KeyValue>,
) -> BTreeMap<Segment, LaneState> {
    let mut lanes: BTreeMap<Segment, LaneState> = BTreeMap::new();
    let below = prefix.lanes().start;
    for kv in kvs {
        let Some(rest) = kv.key.strip_prefix(&below[..]) else {
            continue;
        };
        let Some(at) = rest.iter().position(|byte| *byte == b'/') else {
            continue;
        };
        let Ok(name) = std::str::from_utf8(&rest[..at]) else {
            continue;
        };
        let rest = kv.key.slice_ref(&rest[at + 1..]);
        let lane = match lanes.get_mut(name) {
            Some(lane) => lane,
            None => match Segment::lane(name) {
                Ok(name) => lanes.entry(name).or_default(),
                Err(_) => continue,
            },
        };
        lane.add(rest, kv);
    }
    for lane in lanes.values_mut() {
        lane.overlay();
    }
    lanes
}

impl LaneState {
    /// Adds a key; `rest` is the part below the lane.
    fn add(&mut self, rest: Bytes, kv: KeyValue) {
        match &rest[..] {
            b"head" => self.head = Some(SeenHead::decode(&kv)),
            [b'r' | b'g', b'/', ..] => self.content.put(rest, kv),
            [b's', b'/', staged @ ..] => {
                let (id, below) = staged.split_at_checked(32).unwrap_or_default();
                let id = std::str::from_utf8(id).ok().and_then(PublishId::parse);
                let (Some(id), Some(below)) = (id, below.strip_prefix(b"/")) else {
                    return;
                };
                let stage = self.stages.entry(id).or_default();
                match below {
                    b"alive" => stage.is_alive = true,
                    below => stage.kvs.push((kv.key.slice_ref(below), kv)),
                }
            }
            _ => {}
        }
    }

    fn overlay(&mut self) {
        let Some(Ok(seen)) = &self.head else {
            return;
        };
        let staged = seen.head.staged.and_then(|id| self.stages.remove(&id));
        for (rest, kv) in staged.into_iter().flat_map(|stage| stage.kvs) {
            match &rest[..] {
                // An empty value removes the entry.
                [b'r' | b'g', b'/', ..] if kv.value.is_empty() => self.content.remove(&rest),
                [b'r' | b'g', b'/', ..] => self.content.put(rest, kv),
                _ => {}
            }
        }
    }

    /// Returns the stages that no head names and whose writers are gone.
    pub(super) fn dead_stages(&self) -> Vec<PublishId> {
        let dead = self.stages.iter().filter(|(_, stage)| !stage.is_alive);
        dead.map(|(id, _)| *id).collect()
    }
}

impl Content {
    fn put(&mut self, rest: Bytes, kv: KeyValue) {
        let mod_revision = kv.mod_revision;
        match read(&rest, kv.value) {
            Ok((entry, stored)) => {
                self.unreadable.remove(&rest);
                let stored = Arc::new(stored);
                self.entries.insert(
                    entry,
                    Held {
                        stored,
                        mod_revision,
                    },
                );
            }
            Err((reason, format)) => {
                self.remove(&rest);
                let unreadable = Unreadable {
                    reason,
                    mod_revision,
                    format,
                };
                self.unreadable.insert(rest, unreadable);
            }
        }
    }

    fn remove(&mut self, rest: &Bytes) {
        self.unreadable.remove(rest);
        if let Some(entry) = std::str::from_utf8(rest)
            .ok()
            .and_then(|rest| Entry::parse(rest).ok())
        {
            self.entries.remove(&entry);
        }
    }

    /// Returns the readable value of an entry.
    pub(super) fn stored(&self, entry: &Entry) -> Option<&Arc<Stored>> {
        self.entries.get(entry).map(|held| &held.stored)
    }

    /// Returns the digest of the readable entries.
    pub(super) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for (entry, held) in &self.entries {
            digest.add(entry, &held.stored.digest_version());
        }
        digest
    }

    /// Returns the newer format that a value has, if there is one.
    pub(super) fn newer_format(&self) -> Option<FormatError> {
        self.unreadable
            .values()
            .find_map(|unreadable| unreadable.format.clone())
    }

    /// Returns the keys that differ between two states.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = side_by_side(&self.entries, &other.entries);
        let different = pairs.filter_map(|pair| match pair {
            Both((_, one), (_, other)) if one.stored == other.stored => None,
            Both((entry, _), _) | Left((entry, _)) | Right((entry, _)) => Some(entry.to_string()),
        });
        let mut keys: Vec<String> = different.collect();
        let unreadable = self.unreadable.keys().chain(other.unreadable.keys());
        keys.extend(unreadable.map(lossy));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the keys that were written after a revision.
    pub(super) fn written_after(&self, revision: i64) -> Vec<String> {
        let readable = self
            .entries
            .iter()
            .filter(|(_, held)| held.mod_revision > revision);
        let unreadable = self
            .unreadable
            .iter()
            .filter(|(_, held)| held.mod_revision > revision);
        let keys = readable.map(|(entry, _)| entry.to_string());
        keys.chain(unreadable.map(|(rest, _)| lossy(rest)))
            .collect()
    }
}

/// Returns a key for people.
pub(super) fn lossy(rest: &Bytes) -> String {
    String::from_utf8_lossy(rest).into_owned()
}

fn read(rest: &[u8], value: Bytes) -> Result<(Entry, Stored), (String, Option<FormatError>)> {
    let text = std::str::from_utf8(rest).map_err(|error| (error.to_string(), None))?;
    let entry = Entry::parse(text).map_err(|error| (error.to_string(), None))?;
    let stored = Stored::decode(value).map_err(|error| match &error {
        StoredError::Format(format @ FormatError::Newer { .. }) => {
            (error.to_string(), Some(format.clone()))
        }
        _ => (error.to_string(), None),
    })?;
    Ok((entry, stored))
}
