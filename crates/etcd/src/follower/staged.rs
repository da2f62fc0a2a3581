//! Stage of a large publish, as the watch shows it before a head names it.
//!
//! ```text
//!            staged key                    head names it
//!  ┌───────┐ ─────────▶ ┌────────────┐ ─────────────────▶ entries go into the view
//!  │ Empty │            │ Collecting │ ── too large ──▶ ┌─────────┐
//!  └───────┘ ◀───────── └────────────┘                  │ Ignored │
//!      ▲   key deleted, complete read                   └─────────┘
//!      └────────────────── key deleted, complete read ───────┘
//!  any state ── key of another stage ──▶ Collecting
//! ```
//!
//! The watch of a replica covers the keys of stages too, so that it mostly has a stage as a whole when the head comes,
//! and needs no read. Nothing here is served: the digest of the head decides whether the stage was whole, and it is
//! read if not.

use std::collections::BTreeMap;
use std::mem;

use oxds_types::etcd::KeyValue;

use super::held::New;
use crate::entry::Entry;
use crate::names::PublishId;

/// Greatest size of the keys and values that are kept, in bytes: our choice. A larger stage is read when its head
/// comes.
const MOST_BYTES: usize = 64 << 20;

/// Entries of the latest stage of a lane. `None` is a removal.
#[derive(Debug, Default)]
pub(super) struct WatchedStage {
    publish: Option<PublishId>,
    entries: BTreeMap<Entry, Option<New>>,
    /// Size of the keys and values that came.
    bytes: usize,
}

impl WatchedStage {
    /// Takes a staged key. An empty value is a tombstone.
    pub(super) fn put(&mut self, publish: PublishId, entry: Entry, kv: &KeyValue) {
        if self.publish != Some(publish) {
            *self = Self {
                publish: Some(publish),
                ..Self::default()
            };
        }
        // A removal has no value, and is kept too.
        self.bytes += kv.key.len() + kv.value.len();
        if self.bytes > MOST_BYTES {
            self.entries = BTreeMap::new();
            return;
        }
        let new = (!kv.value.is_empty()).then(|| New::of(&entry, kv.create_revision, &kv.value));
        self.entries.insert(entry, new);
    }

    /// Forgets the stage: a key of it was deleted, so it was moved, or given up.
    pub(super) fn delete(&mut self, publish: PublishId) {
        if self.publish == Some(publish) {
            *self = Self::default();
        }
    }

    /// Returns the entries of this stage that came, and forgets all others.
    pub(super) fn take(&mut self, publish: PublishId) -> BTreeMap<Entry, Option<New>> {
        let taken = mem::take(self);
        if taken.publish == Some(publish) {
            taken.entries
        } else {
            BTreeMap::new()
        }
    }
}
