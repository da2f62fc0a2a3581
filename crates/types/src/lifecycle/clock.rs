//! The deprecation clock of the operator: phases that the annotations of the API do not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::phase::Phase;

/// Phases and dates of deprecated elements on one day, for example from the ledger of `oxds api clock`. An element
/// without an entry is in the phase of its annotations. Cheap to clone.
///
/// This crate reads no clock: a program makes another value when a phase begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clock {
    entries: Arc<BTreeMap<String, Arc<Entry>>>,
}

/// Entry of a deprecated element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Phase on that day.
    pub phase: Phase,
    /// First day of the deprecation: `2027-03-31`.
    pub since: Option<String>,
    /// First day of the next phase.
    pub until: Option<String>,
    /// Replacement, or why the element has none.
    pub replacement: Option<Result<String, String>>,
}

impl Clock {
    /// Returns a clock with these entries, by the full names of elements.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (String, Entry)>) -> Self {
        let entries = entries.into_iter();
        Self {
            entries: Arc::new(
                entries
                    .map(|(name, entry)| (name, Arc::new(entry)))
                    .collect(),
            ),
        }
    }

    /// Returns the entry of an element.
    #[must_use]
    pub fn entry(&self, element: &str) -> Option<&Arc<Entry>> {
        self.entries.get(element)
    }

    /// Whether a deprecation is only announced.
    #[must_use]
    pub fn has_announced(&self) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.phase == Phase::Announced)
    }

    /// Returns the names of all elements with an entry, sorted.
    pub fn elements(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
}
