//! The states of all documents, with an index of those that have findings or wait to be served.
//!
//! The index makes the cost of an update follow the change, whatever the number of documents.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::document::{DocumentId, PlacedResource};
use crate::store::finding::{Finding, FindingCounts};

/// The state of one document.
#[derive(Debug, Default)]
pub(super) struct DocumentState {
    pub(super) served: Vec<PlacedResource>,
    /// The latest version, as long as it may not be served.
    pub(super) candidate: Option<Candidate>,
    /// Findings about the document alone.
    pub(super) findings: Vec<Finding>,
    /// Findings about the document alone that are only counted.
    pub(super) more_findings: FindingCounts,
    /// The reasons why the candidate may not be served.
    pub(super) refusals: Vec<Finding>,
    /// References in it to nothing.
    pub(super) dangling: Vec<Finding>,
}

/// A version of a document that is not served yet.
#[derive(Debug)]
pub(super) enum Candidate {
    Content(Vec<PlacedResource>),
    /// The document was deleted.
    Deleted,
}

impl Candidate {
    fn resources(&self) -> &[PlacedResource] {
        match self {
            Self::Content(resources) => resources,
            Self::Deleted => &[],
        }
    }
}

impl DocumentState {
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        let all = [&self.findings, &self.refusals, &self.dangling];
        all.into_iter().flatten()
    }
}

/// Id that is compared by its bytes. To compare paths by their components takes many times as long, and a large publish
/// to etcd has a document for each resource.
#[derive(Debug, Clone)]
struct Key(DocumentId);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        bytes(&self.0) == bytes(&other.0)
    }
}

impl Eq for Key {}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        bytes(&self.0)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        bytes(&self.0).cmp(bytes(&other.0))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn bytes(id: &Path) -> &[u8] {
    id.as_os_str().as_encoded_bytes()
}

/// The states of all documents.
#[derive(Debug, Default)]
pub(super) struct States {
    states: BTreeMap<Key, DocumentState>,
    candidates: BTreeSet<Key>,
    /// The numbers of findings, of the documents that have any.
    counts: BTreeMap<Key, FindingCounts>,
    total: FindingCounts,
}

impl States {
    pub(super) fn ids(&self) -> impl ExactSizeIterator<Item = &DocumentId> {
        self.states.keys().map(|key| &key.0)
    }

    pub(super) fn contains(&self, id: &Path) -> bool {
        self.states.contains_key(bytes(id))
    }

    /// Returns the resources that a document serves.
    pub(super) fn served(&self, id: &Path) -> &[PlacedResource] {
        self.states
            .get(bytes(id))
            .map_or(&[], |state| &state.served)
    }

    /// Returns the documents that wait to be served, with their resources.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (DocumentId, &[PlacedResource])> {
        self.candidates.iter().filter_map(|key| {
            let candidate = self.states.get(key)?.candidate.as_ref()?;
            Some((DocumentId::clone(&key.0), candidate.resources()))
        })
    }

    /// Changes the state of a document, which is created if needed.
    pub(super) fn update<T>(
        &mut self,
        id: &DocumentId,
        change: impl FnOnce(&mut DocumentState) -> T,
    ) -> T {
        let key = Key(DocumentId::clone(id));
        let state = self.states.entry(key.clone()).or_default();
        let result = change(state);
        match state.candidate {
            Some(_) => self.candidates.insert(key),
            None => self.candidates.remove(&key),
        };
        let mut counts = FindingCounts::of(state.findings());
        counts += state.more_findings;
        self.count(id, counts);
        result
    }

    pub(super) fn remove(&mut self, id: &DocumentId) {
        self.states.remove(bytes(id));
        self.candidates.remove(bytes(id));
        self.count(id, FindingCounts::default());
    }

    /// Adds at most `limit` findings to `findings`, and returns the numbers of the others.
    pub(super) fn findings(&self, limit: usize, findings: &mut Vec<Finding>) -> FindingCounts {
        let mut more = self.total;
        let states = self.counts.keys().filter_map(|key| self.states.get(key));
        for finding in states.flat_map(DocumentState::findings).take(limit) {
            more -= FindingCounts::of([finding]);
            findings.push(finding.clone());
        }
        more
    }

    fn count(&mut self, id: &DocumentId, counts: FindingCounts) {
        let before = match counts.total() {
            0 => self.counts.remove(bytes(id)),
            _ => self.counts.insert(Key(DocumentId::clone(id)), counts),
        };
        self.total += counts;
        self.total -= before.unwrap_or_default();
    }
}
