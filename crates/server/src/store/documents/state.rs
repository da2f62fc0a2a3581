//! The states of all documents, with an index of those that have findings or wait to be served.
//!
//! The index makes the cost of an update follow the change, whatever the number of documents.

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

/// The states of all documents.
#[derive(Debug, Default)]
pub(super) struct States {
    states: BTreeMap<DocumentId, DocumentState>,
    candidates: BTreeSet<DocumentId>,
    /// The numbers of findings, of the documents that have any.
    counts: BTreeMap<DocumentId, FindingCounts>,
    total: FindingCounts,
}

impl States {
    pub(super) fn ids(&self) -> impl ExactSizeIterator<Item = &DocumentId> {
        self.states.keys()
    }

    pub(super) fn contains(&self, id: &Path) -> bool {
        self.states.contains_key(id)
    }

    /// Returns the resources that a document serves.
    pub(super) fn served(&self, id: &Path) -> &[PlacedResource] {
        self.states.get(id).map_or(&[], |state| &state.served)
    }

    /// Returns the documents that wait to be served, with their resources.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (DocumentId, &[PlacedResource])> {
        self.candidates.iter().filter_map(|id| {
            let candidate = self.states.get(id)?.candidate.as_ref()?;
            Some((DocumentId::clone(id), candidate.resources()))
        })
    }

    /// Changes the state of a document, which is created if needed.
    pub(super) fn update<T>(
        &mut self,
        id: &DocumentId,
        change: impl FnOnce(&mut DocumentState) -> T,
    ) -> T {
        let state = self.states.entry(DocumentId::clone(id)).or_default();
        let result = change(state);
        match state.candidate {
            Some(_) => self.candidates.insert(DocumentId::clone(id)),
            None => self.candidates.remove(id),
        };
        let mut counts = FindingCounts::of(state.findings());
        counts += state.more_findings;
        self.count(id, counts);
        result
    }

    pub(super) fn remove(&mut self, id: &DocumentId) {
        self.states.remove(id);
        self.candidates.remove(id);
        self.count(id, FindingCounts::default());
    }

    /// Adds at most `limit` findings to `findings`, and returns the numbers of the others.
    pub(super) fn findings(&self, limit: usize, findings: &mut Vec<Finding>) -> FindingCounts {
        let mut more = self.total;
        let states = self.counts.keys().filter_map(|id| self.states.get(id));
        for finding in states.flat_map(DocumentState::findings).take(limit) {
            more -= FindingCounts::of([finding]);
            findings.push(finding.clone());
        }
        more
    }

    fn count(&mut self, id: &DocumentId, counts: FindingCounts) {
        let before = match counts.total() {
            0 => self.counts.remove(id),
            _ => self.counts.insert(DocumentId::clone(id), counts),
        };
        self.total += counts;
        self.total -= before.unwrap_or_default();
    }
}
