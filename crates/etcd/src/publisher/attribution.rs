//! Search for the publishes that changed conflicting entries (G-10).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use oxds_types::etcd::{RangeRequest, RangeResponse};

use super::error::Conflict;
use super::walk::head_at;
use crate::entry::Entry;
use crate::lane_state::SeenHead;

/// Greatest number of heads that are read; later conflicts are attributed to the latest publish.
const MAX_READS: usize = 10;

/// Search in the history of the head: the head at the revision of a change is that of the publish that made it.
#[derive(Debug)]
pub(super) struct Attribution {
    key: Bytes,
    latest: SeenHead,
    /// Conflicting entries, and the revisions of their changes; `None` for a removed entry.
    entries: Vec<(Entry, Option<i64>)>,
    unread: VecDeque<i64>,
    heads: BTreeMap<i64, SeenHead>,
}

impl Attribution {
    pub(super) fn new(key: Bytes, latest: SeenHead, entries: Vec<(Entry, Option<i64>)>) -> Self {
        let mut unread: Vec<i64> = entries
            .iter()
            .filter_map(|(_, revision)| *revision)
            .collect();
        unread.sort_unstable();
        unread.dedup();
        unread.truncate(MAX_READS);
        Self {
            key,
            latest,
            entries,
            unread: unread.into(),
            heads: BTreeMap::new(),
        }
    }

    /// Returns the next read; `None` if the conflicts are complete.
    pub(super) fn request(&self) -> Option<RangeRequest> {
        self.unread
            .front()
            .map(|revision| head_at(&self.key, *revision))
    }

    /// Handles an answer; `None` if the revision cannot be read.
    pub(super) fn take(&mut self, response: Option<&RangeResponse>) {
        let Some(revision) = self.unread.pop_front() else {
            return;
        };
        let kv = response.and_then(|response| response.kvs.first());
        if let Some(Ok(seen)) = kv.map(SeenHead::decode) {
            self.heads.insert(revision, seen);
        }
    }

    pub(super) fn conflicts(&self) -> Vec<Conflict> {
        let conflict = |(entry, revision): &(Entry, Option<i64>)| {
            let exact = revision.and_then(|revision| self.heads.get(&revision));
            let head = &exact.unwrap_or(&self.latest).head;
            Conflict {
                entry: entry.clone(),
                publish: head.publish,
                seq: head.seq,
                by: head.by.clone(),
                at: head.at,
                is_exact: exact.is_some(),
            }
        };
        self.entries.iter().map(conflict).collect()
    }
}
