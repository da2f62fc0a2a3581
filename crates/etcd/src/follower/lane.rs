//! One lane: the state that is served, and the store's state as a difference from it.
//!
//! ```text
//!  values ──read──▶ view of the store = served + changes ──the digest is the head's──▶ vouched for ──adopt──▶ served
//!                                              └── it is not: unpublished, not complete yet, or diverged
//! ```
//!
//! So memory and time follow the size of a change, and only states that a head vouches for are served.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use oxds_types::Version;
use oxds_types::etcd::KeyValue;

use super::held::{Decoded, Held, New};
use super::staged::WatchedStage;
use crate::digest::Digest;
use crate::entry::Entry;
use crate::head::{Head, HeadError};
use crate::names::{PublishId, Segment};
use oxds_core::time::Instant;

/// Served state and view of the store.
#[derive(Debug, Default)]
pub(super) struct Lane {
    // Served: changes only by `adopt`.
    served: BTreeMap<Entry, Held>,
    /// Head that vouches for the served state, or for one that was served before the process started.
    pub(super) serving: Option<Head>,
    /// `served` is the state of `serving`.
    is_adopted: bool,
    /// All of `served` is new since the last update.
    is_new: bool,

    // View of the store: begins again with each complete read.
    changes: BTreeMap<Entry, Change>,
    digest: Digest,
    pub(super) head: Option<Head>,
    /// Revision at which the head was written or deleted.
    pub(super) head_revision: i64,
    /// Why the value of the head key cannot be read; `head` is the one before.
    pub(super) head_error: Option<String>,
    pub(super) stage: Stage,
    /// Stage that no head names yet.
    watched: WatchedStage,
    /// Number of the last complete read, with which `served` entries that it found are marked.
    mark: u32,
    reading: bool,

    // What is reported.
    pub(super) obstacle: Option<Obstacle>,
    /// The unpublished changes were there while a read found the same head.
    pub(super) is_unpublished_known: bool,
    /// Since when the view does not have the digest of its head.
    pub(super) diverged_since: Option<Instant>,
    /// The lane has been diverged for so long that it is reported.
    pub(super) is_diverged_for_long: bool,
    /// Seq of the latest head that is known, from a watch or a read.
    pub(super) latest: u64,
    /// Since when `latest` is not served.
    pub(super) behind_since: Option<Instant>,
    /// Seq that the last polled update covered.
    pub(super) delivered: u64,
}

/// A value of the store that is not served.
#[derive(Debug)]
struct Change {
    /// Revision at which the key was changed.
    revision: i64,
    /// `None` if the entry is removed.
    new: Option<New>,
}

/// Stage of a large publish that the head names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The head names no stage, or its changes are known.
    #[default]
    None,
    /// The stage must be read at the revision of the head.
    Wanted { publish: PublishId, revision: i64 },
}

/// Reason why a state that its head vouches for is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The store went back. `store` is the seq that it had when that showed: a read begins without a head.
    WentBack {
        serving: u64,
        store: Option<u64>,
        replica: Option<Segment>,
    },
    /// Another lane has this entry.
    Duplicate { entry: Entry, other: Segment },
}

/// Relation of a new head to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Succession {
    /// The same publish, its child, or the first head of the lane.
    Kept,
    /// Neither: events are missing, or this is another history.
    Broken,
}

impl Lane {
    /// Makes a lane that an earlier process served up to this head.
    pub(super) fn saved(head: Head) -> Self {
        Self {
            delivered: head.seq,
            serving: Some(head),
            ..Self::default()
        }
    }

    /// Begins a complete read: the view is empty.
    pub(super) fn begin_read(&mut self) {
        self.changes.clear();
        self.digest = Digest::default();
        self.head = None;
        self.head_revision = 0;
        self.head_error = None;
        self.stage = Stage::None;
        // Events of it may be missing.
        self.watched = WatchedStage::default();
        self.is_unpublished_known = false;
        self.mark = self.mark.wrapping_add(1);
        self.reading = true;
    }

    /// Ends a complete read: served entries that it did not find are removed.
    pub(super) fn end_read(&mut self, revision: i64) {
        self.reading = false;
        for (entry, held) in &self.served {
            if held.mark != self.mark && !self.changes.contains_key(entry) {
                let gone = Change {
                    revision,
                    new: None,
                };
                self.changes.insert(entry.clone(), gone);
            }
        }
        self.latest = self.head.as_ref().map_or(0, |head| head.seq);
    }

    /// Sets an entry to the value that its key got.
    pub(super) fn put(&mut self, entry: Entry, created: i64, revision: i64, value: &Bytes) {
        let decoded = Decoded::of(value);
        // A value becomes a resource once, and only if it is not the served one.
        if !self.view(&entry, Some(decoded.version)) {
            let new = Some(decoded.into_new(&entry, created));
            self.changes.insert(entry, Change { revision, new });
        }
    }

    /// Removes an entry whose key was deleted.
    pub(super) fn delete(&mut self, entry: Entry, revision: i64) {
        if !self.view(&entry, None) {
            let new = None;
            self.changes.insert(entry, Change { revision, new });
        }
    }

    /// Takes an entry of a stage from the watch.
    pub(super) fn watch_staged(&mut self, publish: PublishId, entry: Entry, kv: &KeyValue) {
        let head = self.head.as_ref();
        // After its head, a stage is known, or is read.
        if head.is_none_or(|head| head.publish != publish) {
            self.watched.put(publish, entry, kv);
        }
    }

    /// Forgets a stage of which a key was deleted.
    pub(super) fn unwatch_staged(&mut self, publish: PublishId) {
        self.watched.delete(publish);
    }

    /// Applies the entries of the stage that the watch has shown before the head.
    pub(super) fn apply_watched(&mut self, publish: PublishId) {
        let revision = self.head_revision;
        for (entry, new) in self.watched.take(publish) {
            let version = new.as_ref().map(|new| new.version);
            if !self.view(&entry, version) {
                self.changes.insert(entry, Change { revision, new });
            }
        }
    }

    /// Applies an entry of the stage that was read at the revision of the head.
    ///
    /// A key that changed later has its value already: it was moved.
    pub(super) fn put_staged(&mut self, entry: Entry, created: i64, revision: i64, value: &Bytes) {
        let changed = self.changes.get(&entry).map(|change| change.revision);
        if changed.is_some_and(|changed| changed > revision) {
            return;
        }
        // An empty value is a tombstone.
        if value.is_empty() {
            self.delete(entry, revision);
        } else {
            self.put(entry, created, revision, value);
        }
    }

    /// Counts the version of an entry in the view. Returns whether that is the served one, so that the entry has no
    /// change any more.
    fn view(&mut self, entry: &Entry, version: Option<Version>) -> bool {
        let held = self.served.get_mut(entry);
        let before = match (self.changes.get(entry), &held) {
            (Some(change), _) => change.new.as_ref().map(|new| new.version),
            (None, Some(held)) if !self.reading || held.mark == self.mark => Some(held.version),
            (None, _) => None,
        };
        if before != version {
            self.digest
                .replace(entry, before.as_ref(), version.as_ref());
        }
        let is_served = match (held, version) {
            (None, None) => true,
            (Some(held), Some(version)) if held.version == version => {
                held.mark = self.mark;
                true
            }
            _ => false,
        };
        if is_served {
            self.changes.remove(entry);
        }
        is_served
    }

    /// Sets the head.
    ///
    /// # Errors
    /// The value is not a head, or its format is newer than this build's. The head stays as it was.
    pub(super) fn put_head(
        &mut self,
        revision: i64,
        value: &[u8],
    ) -> Result<Succession, HeadError> {
        self.head_revision = revision;
        let head = Head::decode(value).inspect_err(|error| {
            self.head_error = Some(error.to_string());
        })?;
        self.head_error = None;
        // The parent alone names the head before: a publish that accepts a restore takes a seq after those of all
        // replicas (G-27).
        let kept = self.head.as_ref().is_none_or(|before| {
            before.publish == head.publish
                || head.parent == Some(before.publish) && head.seq > before.seq
        });
        self.latest = head.seq;
        self.head = Some(head);
        Ok(if kept {
            Succession::Kept
        } else {
            Succession::Broken
        })
    }

    /// Removes the head, whose key was deleted.
    pub(super) fn delete_head(&mut self, revision: i64) {
        self.head_revision = revision;
        self.head = None;
        self.head_error = None;
        self.latest = 0;
    }

    /// Returns whether a complete read is under way.
    pub(super) fn is_reading(&self) -> bool {
        self.reading
    }

    /// Returns whether the head vouches for the view.
    pub(super) fn is_vouched_for(&self) -> bool {
        let head = self.head.as_ref();
        !self.reading && head.is_some_and(|head| head.digest == self.digest)
    }

    /// Returns whether the view has the publish that is served.
    pub(super) fn has_served_publish(&self) -> bool {
        match (&self.head, &self.serving) {
            (None, None) => true,
            (Some(head), Some(serving)) => self.is_adopted && head.publish == serving.publish,
            _ => false,
        }
    }

    /// Returns whether keys were changed without a publish.
    pub(super) fn is_unpublished(&self) -> bool {
        !self.changes.is_empty() && self.has_served_publish()
    }

    /// Returns whether the view has another publish than the served one, and neither its digest nor a stage that would
    /// explain that.
    pub(super) fn is_diverged(&self) -> bool {
        !self.reading
            && self.head.is_some()
            && !self.is_vouched_for()
            && !self.has_served_publish()
            && self.stage == Stage::None
    }

    /// Returns whether the view differs from the served state.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns the entries that the view has and the served state has not, with the revisions of their creation.
    pub(super) fn added(&self) -> impl Iterator<Item = (&Entry, i64)> {
        let new = |(entry, change)| Some((entry, Change::created(change)?));
        let added = self.changes.iter().filter_map(new);
        added.filter(|(entry, _)| !self.served.contains_key(*entry))
    }

    /// Returns entries of the view that are not served, or are served and not in the view.
    pub(super) fn changed(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.changes.keys()
    }

    /// Returns whether the served state has an entry.
    pub(super) fn serves(&self, entry: &Entry) -> bool {
        self.served.contains_key(entry)
    }

    /// Returns the version of an entry of the served state.
    pub(super) fn served_version(&self, entry: &Entry) -> Option<Version> {
        self.served.get(entry).map(|held| held.version)
    }

    /// Returns whether the view has an entry, and the revision of its creation if it is not served.
    pub(super) fn shows(&self, entry: &Entry) -> Option<Option<i64>> {
        match self.changes.get(entry) {
            Some(change) => change.created().map(Some),
            None => self.served.contains_key(entry).then_some(None),
        }
    }

    /// Makes the view the served state. Adds the entries that changed to `dirty`, unless all are new and the lane is
    /// the only one: [`take_new`](Self::take_new) has them then.
    pub(super) fn adopt(&mut self, dirty: &mut BTreeSet<Entry>, is_alone: bool) {
        let (mark, changes) = (self.mark, std::mem::take(&mut self.changes));
        let is_new = is_alone && self.served.is_empty();
        self.is_new |= is_new;
        // A set that is collected in its order is made without a search for each entry, as is a map.
        if !is_new && dirty.is_empty() {
            *dirty = changes.keys().cloned().collect();
        } else if !is_new {
            dirty.extend(changes.keys().cloned());
        }
        if self.served.is_empty() {
            let held = |(entry, change): (_, Change)| {
                let new = change.new?;
                Some((entry, Held::new(new.version, mark, new.content, None)))
            };
            self.served = changes.into_iter().filter_map(held).collect();
        } else {
            for (entry, change) in changes {
                let Some(new) = change.new else {
                    self.served.remove(&entry);
                    continue;
                };
                match self.served.entry(entry) {
                    Slot::Occupied(mut slot) => {
                        slot.get_mut().renew(new.version, mark, new.content);
                    }
                    Slot::Vacant(slot) => {
                        slot.insert(Held::new(new.version, mark, new.content, None));
                    }
                }
            }
        }
        self.serving.clone_from(&self.head);
        self.is_adopted = true;
        self.stage = Stage::None;
    }

    /// Returns all entries if they are new since the last call, and none otherwise.
    pub(super) fn take_new(&mut self) -> impl Iterator<Item = (&Entry, &mut Held)> {
        let is_new = std::mem::take(&mut self.is_new);
        let count = if is_new { self.served.len() } else { 0 };
        self.served.iter_mut().take(count)
    }

    /// Returns the served value of an entry.
    pub(super) fn held(&mut self, entry: &Entry) -> Option<&mut Held> {
        self.served.get_mut(entry)
    }
}

impl Change {
    fn created(&self) -> Option<i64> {
        self.new.as_ref().map(|new| new.created)
    }
}
