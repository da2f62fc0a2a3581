//! Summary of the changes of a publish.

use std::collections::BTreeMap;

use oxds_types::ResourceType;

use crate::entry::Entry;
use crate::names::Segment;
pub use oxds_core::preview::{ChangeCounts, ChangeKind};

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
            counts.entry(key).or_default().add(*kind);
        }
        counts
    }
}
