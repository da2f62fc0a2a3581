//! Where a change comes from.

use super::text::beginning;

/// Documents and publishes that are kept by name.
const MAX_LISTED: usize = 20;

/// Where a change comes from. Its texts come from outside, and are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutSource {
    /// Name of the store, or `rollback`; empty for an embedding program that gave none.
    pub store: String,
    /// The first files or keys that were read or deleted.
    pub documents: Vec<String>,
    /// The number of those that are not listed.
    pub more_documents: usize,
    /// Publishes of a configuration that several writers share.
    pub publishes: Vec<RolloutPublish>,
}

/// A publish, as its writer describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutPublish {
    /// Lane of the publish.
    pub lane: String,
    /// Number of the publish.
    pub seq: u64,
    /// User and machine of the writer.
    pub by: String,
    /// Text that the user gave.
    pub note: String,
}

impl RolloutSource {
    /// Makes the source of changes of a store.
    #[must_use]
    pub fn new(store: &str) -> Self {
        Self {
            store: beginning(store),
            ..Self::default()
        }
    }

    /// Adds files or keys.
    #[must_use]
    pub fn documents(mut self, documents: impl IntoIterator<Item = String>) -> Self {
        for document in documents {
            if self.documents.len() < MAX_LISTED {
                self.documents.push(beginning(&document));
            } else {
                self.more_documents += 1;
            }
        }
        self
    }

    /// Adds publishes. A configuration has a few lanes, so those beyond the limit are left out.
    #[must_use]
    pub fn publishes(mut self, publishes: impl IntoIterator<Item = RolloutPublish>) -> Self {
        let room = MAX_LISTED.saturating_sub(self.publishes.len());
        let publishes = publishes.into_iter().take(room);
        self.publishes.extend(publishes.map(|one| RolloutPublish {
            lane: beginning(&one.lane),
            seq: one.seq,
            by: beginning(&one.by),
            note: beginning(&one.note),
        }));
        self
    }

    pub(super) fn bytes(&self) -> usize {
        let documents: usize = self.documents.iter().map(String::len).sum();
        let of = |one: &RolloutPublish| 64 + one.lane.len() + one.by.len() + one.note.len();
        self.store.len() + documents + self.publishes.iter().map(of).sum::<usize>()
    }
}
