//! One read of everything that is published, without following it.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::etcd::{KeyValue, RangeRequest, RangeResponse};

use super::digest::Digest;
use super::entry::Entry;
use super::format::{self, FormatError};
use super::head::Head;
use super::keys::Key;
use super::lane_state::{LaneState, lossy, read_lanes};
use super::names::{Prefix, Segment};
use super::pages::{Pages, ReadAt};
use super::stored::Stored;

/// Read of a prefix in pages, all at one revision: make the [`request`](Self::request), give the answer to
/// [`take`](Self::take), and repeat that until it returns the state.
#[derive(Debug)]
pub struct PublishedRead {
    prefix: Prefix,
    pages: Pages,
    kvs: Vec<KeyValue>,
}

/// State of a lane.
#[derive(Debug)]
pub struct PublishedLane {
    /// The head; without one, nothing was ever published.
    pub head: Option<Head>,
    /// Readable entries, with the stage that the head names.
    pub entries: BTreeMap<Entry, Arc<Stored>>,
    /// Keys that cannot be read, below the prefix, and the reasons.
    pub unreadable: Vec<(String, String)>,
    /// Whether the head vouches for the entries: otherwise keys were changed without a publish (G-14).
    pub is_vouched: bool,
}

/// Reason why the published state is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A page contradicts its request, so keys may be missing.
    #[error("inconsistent answer of etcd: {0}")]
    Inconsistent(&'static str),
    /// A newer build wrote the prefix.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl PublishedRead {
    /// Begins a read.
    #[must_use]
    pub fn new(prefix: Prefix) -> Self {
        Self {
            pages: Pages::new(prefix.all(), ReadAt::First),
            prefix,
            kvs: Vec::new(),
        }
    }

    /// Returns the request for the next page.
    #[must_use]
    pub fn request(&self) -> RangeRequest {
        self.pages.request()
    }

    /// Prepares a request for fewer keys, because the client does not accept a response of this size. Returns whether
    /// there is one.
    pub fn shrink(&mut self) -> bool {
        self.pages.shrink()
    }

    /// Handles a page. Returns the lanes after the last one.
    ///
    /// # Errors
    /// The page contradicts the request or the pages before, or the prefix has a newer format. The read is of no use
    /// then.
    pub fn take(
        &mut self,
        page: RangeResponse,
    ) -> Result<Option<BTreeMap<Segment, PublishedLane>>, ReadError> {
        self.pages.take(&page).map_err(ReadError::Inconsistent)?;
        self.kvs.extend(page.kvs);
        if !self.pages.is_complete() {
            return Ok(None);
        }
        let format = self.prefix.key(&Key::Format);
        if let Some(kv) = self.kvs.iter().find(|kv| kv.key == format) {
            format::check_key(&kv.value)?;
        }
        let lanes = read_lanes(&self.prefix, std::mem::take(&mut self.kvs));
        let lanes = lanes.into_iter();
        Ok(Some(
            lanes
                .map(|(name, lane)| (name.clone(), PublishedLane::of(&name, lane)))
                .collect(),
        ))
    }
}

impl PublishedLane {
    fn of(name: &Segment, lane: LaneState) -> Self {
        let digest = lane.content.digest();
        let unreadable = lane.content.unreadable.iter();
        let mut unreadable: Vec<_> = unreadable
            .map(|(rest, bad)| (format!("l/{name}/{}", lossy(rest)), bad.reason.clone()))
            .collect();
        let head = match lane.head {
            Some(Ok(seen)) => Some(seen.head),
            Some(Err(error)) => {
                unreadable.push((format!("l/{name}/head"), error.to_string()));
                None
            }
            None => None,
        };
        let expected = head
            .as_ref()
            .map_or_else(Digest::default, |head| head.digest);
        let entries = lane.content.entries.into_iter();
        Self {
            is_vouched: digest == expected,
            head,
            entries: entries.map(|(entry, held)| (entry, held.stored)).collect(),
            unreadable,
        }
    }
}
