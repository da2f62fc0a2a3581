//! The key-value store in memory, with its history. It has no IO and no clock.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use oxds_types::etcd::{
    DeleteRangeRequest, Event, EventType, KeyValue, PutRequest, RangeRequest, RangeResponse,
};
use tonic::Status;

use super::refusal;

/// Keys with all their versions since the last compaction, and the events of each revision.
#[derive(Debug, Clone)]
pub(super) struct Mvcc {
    revision: i64,
    compacted: i64,
    /// Versions of a key, oldest first. A tombstone has version 0.
    keys: BTreeMap<Bytes, Vec<KeyValue>>,
    events: BTreeMap<i64, Vec<Event>>,
}

impl Default for Mvcc {
    /// An empty store has revision 1.
    fn default() -> Self {
        Self {
            revision: 1,
            compacted: 0,
            keys: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }
}

/// A range of keys, as a request has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRange<'a> {
    pub(super) key: &'a [u8],
    pub(super) end: &'a [u8],
}

impl KeyRange<'_> {
    /// Returns whether a key is in the range (etcd API, "Key ranges").
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        match self.end {
            [] => key == self.key,
            [0] => key >= self.key,
            end => key >= self.key && key < end,
        }
    }
}

impl Mvcc {
    /// Returns the revision of the last change.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the revision of the last compaction, or 0.
    pub(super) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Returns the events of revisions from `first` on, with their revisions.
    pub(super) fn events(&self, first: i64) -> impl Iterator<Item = (i64, &[Event])> {
        let events = self.events.range(first..);
        events.map(|(revision, events)| (*revision, events.as_slice()))
    }

    /// Begins a change. All its writes have one revision, and reads see the writes before them.
    pub(super) fn begin(&mut self) -> Change<'_> {
        Change {
            revision: self.revision + 1,
            events: Vec::new(),
            store: self,
        }
    }

    /// Reads a range.
    ///
    /// # Errors
    /// The revision is compacted or in the future.
    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Status> {
        if request.revision > self.revision {
            return Err(refusal::future_revision());
        }
        if request.revision > 0 && request.revision < self.compacted {
            return Err(refusal::compacted());
        }
        let at = if request.revision > 0 {
            request.revision
        } else {
            i64::MAX
        };
        let range = KeyRange {
            key: &request.key,
            end: &request.range_end,
        };
        let mut response = RangeResponse::default();
        let limit = if request.limit > 0 {
            usize::try_from(request.limit).unwrap_or(usize::MAX)
        } else {
            usize::MAX
        };
        for found in self.found(range, at) {
            response.count += 1;
            if request.count_only {
                continue;
            }
            if response.kvs.len() == limit {
                response.more = true;
                continue;
            }
            let mut found = found.clone();
            if request.keys_only {
                found.value = Bytes::new();
            }
            response.kvs.push(found);
        }
        Ok(response)
    }

    /// Discards the history before a revision.
    ///
    /// # Errors
    /// The history is already discarded up to there, or the revision is in the future.
    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Status> {
        if revision <= self.compacted {
            return Err(refusal::compacted());
        }
        if revision > self.revision {
            return Err(refusal::future_revision());
        }
        self.compacted = revision;
        self.events = self.events.split_off(&revision);
        self.keys.retain(|_, versions| {
            let kept = versions.partition_point(|version| version.mod_revision <= revision);
            versions.drain(..kept.saturating_sub(1));
            // A tombstone is history once it is compacted.
            let is_gone =
                |version: &KeyValue| version.version == 0 && version.mod_revision <= revision;
            if versions.first().is_some_and(is_gone) {
                versions.remove(0);
            }
            !versions.is_empty()
        });
        Ok(())
    }

    /// Returns the keys that exist in a range at a revision.
    pub(super) fn found<'a>(
        &'a self,
        range: KeyRange<'a>,
        at: i64,
    ) -> impl Iterator<Item = &'a KeyValue> {
        let start = Bound::Included(range.key);
        let keys = self.keys.range::<[u8], _>((start, Bound::Unbounded));
        let inside = keys.take_while(move |(key, _)| range.contains(key));
        inside.filter_map(move |(_, versions)| {
            let count = versions.partition_point(|version| version.mod_revision <= at);
            let last = versions.get(count.checked_sub(1)?)?;
            (last.version > 0).then_some(last)
        })
    }

    /// Returns a key with its value, if it exists.
    pub(super) fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        let last = self.keys.get(key)?.last()?;
        (last.version > 0).then_some(last)
    }
}

/// A change in progress.
#[derive(Debug)]
pub(super) struct Change<'a> {
    store: &'a mut Mvcc,
    revision: i64,
    events: Vec<Event>,
}

impl Change<'_> {
    /// Returns the store with the writes so far.
    pub(super) fn store(&self) -> &Mvcc {
        self.store
    }

    /// Writes a key.
    pub(super) fn put(&mut self, request: &PutRequest) {
        let before = self.store.get(&request.key).cloned();
        let value = match (&before, request.ignore_value) {
            (Some(before), true) => before.value.clone(),
            _ => request.value.clone(),
        };
        let version = KeyValue {
            key: request.key.clone(),
            create_revision: before
                .as_ref()
                .map_or(self.revision, |before| before.create_revision),
            mod_revision: self.revision,
            version: before.map_or(1, |before| before.version + 1),
            value,
            lease: request.lease,
        };
        self.write(version, EventType::Put);
    }

    /// Deletes a range, and returns the number of keys.
    pub(super) fn delete(&mut self, request: &DeleteRangeRequest) -> i64 {
        let range = KeyRange {
            key: &request.key,
            end: &request.range_end,
        };
        let keys = self.store.found(range, i64::MAX);
        let keys: Vec<Bytes> = keys.map(|found| found.key.clone()).collect();
        let count = keys.len();
        for key in keys {
            let tombstone = KeyValue {
                key,
                mod_revision: self.revision,
                ..KeyValue::default()
            };
            self.write(tombstone, EventType::Delete);
        }
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn write(&mut self, version: KeyValue, kind: EventType) {
        self.events.push(Event {
            r#type: kind.into(),
            kv: Some(version.clone()),
        });
        let versions = self.store.keys.entry(version.key.clone()).or_default();
        versions.push(version);
    }

    /// Returns the revision that the store has after the change so far.
    pub(super) fn revision(&self) -> i64 {
        if self.events.is_empty() {
            self.store.revision
        } else {
            self.revision
        }
    }

    /// Ends the change. Without a write the revision stays as it was.
    pub(super) fn end(self) {
        if !self.events.is_empty() {
            self.store.revision = self.revision;
            self.store.events.insert(self.revision, self.events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Mvcc, key: &'static str, value: &'static str) {
        let mut change = store.begin();
        change.put(&PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        });
        change.end();
    }

    fn delete(store: &mut Mvcc, key: &'static str) {
        let mut change = store.begin();
        change.delete(&DeleteRangeRequest {
            key: key.into(),
            ..DeleteRangeRequest::default()
        });
        change.end();
    }

    fn read(store: &Mvcc, revision: i64) -> Result<Vec<(Bytes, i64, i64)>, Status> {
        let all = RangeRequest {
            key: "\0".into(),
            range_end: "\0".into(),
            revision,
            ..RangeRequest::default()
        };
        let kvs = store.range(&all)?.kvs.into_iter();
        Ok(kvs
            .map(|kv| (kv.value, kv.version, kv.create_revision))
            .collect())
    }

    #[test]
    fn reads_are_at_their_revision_until_compaction() {
        let mut store = Mvcc::default();
        put(&mut store, "a", "1");
        put(&mut store, "a", "2");
        delete(&mut store, "a");
        put(&mut store, "a", "3");
        assert_eq!(store.revision(), 5);
        assert_eq!(read(&store, 3).unwrap(), [("2".into(), 2, 2)]);
        assert_eq!(read(&store, 4).unwrap(), []);
        assert_eq!(read(&store, 0).unwrap(), [("3".into(), 1, 5)]);

        store.compact(4).unwrap();
        assert_eq!(
            read(&store, 3).unwrap_err().code(),
            refusal::compacted().code()
        );
        assert_eq!(read(&store, 4).unwrap(), []);
        assert_eq!(read(&store, 5).unwrap(), [("3".into(), 1, 5)]);
        assert_eq!(
            store
                .events(0)
                .map(|(revision, _)| revision)
                .collect::<Vec<_>>(),
            [4, 5]
        );
        assert!(store.compact(4).is_err() && store.compact(6).is_err());
    }

    #[test]
    fn change_without_a_write_has_no_revision() {
        let mut store = Mvcc::default();
        delete(&mut store, "a");
        assert_eq!(store.revision(), 1);
    }
}
