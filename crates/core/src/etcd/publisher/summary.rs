//! Summary of the changes of a publish.

use std::collections::BTreeMap;

use oxds_types::ResourceType;

use crate::etcd::entry::Entry;
use crate::etcd::names::Segment;

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The entry is new.
    Added,
    /// The entry has another value.
    Changed,
    /// The entry is removed.
    Removed,
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// New entries.
    pub added: usize,
    /// Entries with another value.
    pub changed: usize,
    /// Removed entries.
    pub removed: usize,
}

/// Changes of a publish, without their content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Kind of the change of each entry.
    pub changes: BTreeMap<Entry, ChangeKind>,
}

/// Group and type of changed entries. Without a type: matchers.
pub type SummaryKey = (Option<Segment>, Option<ResourceType>);

impl Summary {
    /// Returns whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the numbers of changes by group and type; resources for all nodes come first.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<SummaryKey, ChangeCounts> {
        let mut counts: BTreeMap<SummaryKey, ChangeCounts> = BTreeMap::new();
        for (entry, kind) in &self.changes {
            let key = (entry.group().cloned(), entry.resource_type().cloned());
            let of_key = counts.entry(key).or_default();
            match kind {
                ChangeKind::Added => of_key.added += 1,
                ChangeKind::Changed => of_key.changed += 1,
                ChangeKind::Removed => of_key.removed += 1,
            }
        }
        counts
    }
}
