//! The merged state of all documents: the last valid resources of each, each name with one owner.
//!
//! ```text
//!            decoding fails                     decoding succeeds
//!  ┌──────┐ ◀────────────── document changed ─────────────────▶ ┌───────────┐
//!  │ kept │                                                     │ candidate │
//!  └──────┘ ◀──── another document owns one of its names ────── └───────────┘
//!   last valid                                                        │ every name is free
//!   resources stay served                                             ▼
//!                                                                ┌────────┐
//!                                                                │ served │
//!                                                                └────────┘
//! ```
//!
//! Names are unique among the resources of all nodes, and within each group of nodes. Of two groups that are equally
//! specific and may have a node in common, only one may have a name.
//!
//! If a name moves from one document to another within one change, it has one owner before and one after. If a name is
//! in two documents, it belongs to the one that had it first; the other document stays a candidate until one of them is
//! fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::{Definition, NodeMatcher};
use oxds_core::snapshot::ResourceKey;
use oxds_types::codec;

use super::changes::ScopedChanges;
use super::conflicts::{Candidates, resolve};
use super::document::{Document, DocumentContent, DocumentDecoder, DocumentId, PlacedResource};
use super::group;
use super::ownership::Ownership;
use super::references::{Referrers, dangling};
use crate::store::finding::{Finding, Severity};
use crate::store::update::{Origin, Update};

/// How documents are decoded and checked.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// How bytes are decoded and checked.
    pub codec: codec::Options,
    /// Whether a reference to nothing is an error instead of a warning (S-70).
    pub strict: bool,
}

/// Documents that were added, changed or deleted; applied atomically.
#[derive(Debug, Default)]
pub struct Edits {
    documents: Vec<Document>,
    deleted: Vec<DocumentId>,
}

impl Edits {
    /// Adds a document that is new or changed.
    #[must_use]
    pub fn put(mut self, document: Document) -> Self {
        self.documents.push(document);
        self
    }

    /// Adds the id of a document that was deleted.
    #[must_use]
    pub fn delete(mut self, id: impl Into<DocumentId>) -> Self {
        self.deleted.push(id.into());
        self
    }
}

/// All documents of a store, merged.
///
/// Give changed documents to [`apply`](Self::apply) and pass the updates that it returns on to the server.
#[derive(Debug)]
pub struct Documents {
    decoder: DocumentDecoder,
    /// The severity of a reference to nothing.
    dangling: Severity,
    documents: BTreeMap<DocumentId, DocumentState>,
    ownership: Ownership,
    referrers: Referrers,
    /// Findings about the source itself.
    source: Vec<Finding>,
}

#[derive(Debug, Default)]
struct DocumentState {
    served: Vec<PlacedResource>,
    /// The resources of the latest version, as long as other documents own some of their names.
    candidate: Option<Vec<PlacedResource>>,
    /// Findings about the document alone.
    findings: Vec<Finding>,
    /// Names in it that other documents own.
    conflicts: Vec<Finding>,
    /// References in it to nothing.
    dangling: Vec<Finding>,
}

impl Documents {
    /// Creates a store without documents. All ids begin with `root`: the path of a folder, or the prefix of all keys.
    #[must_use]
    pub fn new(root: &Path, options: DocumentOptions) -> Self {
        let dangling = match options.strict {
            true => Severity::Error,
            false => Severity::Warning,
        };
        Self {
            decoder: DocumentDecoder::new(root, options.codec),
            dangling,
            documents: BTreeMap::new(),
            ownership: Ownership::default(),
            referrers: Referrers::default(),
            source: Vec::new(),
        }
    }

    /// Returns the decoder for documents of this store.
    #[must_use]
    pub fn decoder(&self) -> &DocumentDecoder {
        &self.decoder
    }

    /// Returns the ids of all documents, valid or not, sorted.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &DocumentId> {
        self.documents.keys()
    }

    /// Replaces the findings about the source itself: a folder that cannot be read, for example. They are part of each
    /// later update.
    pub fn set_source_findings(&mut self, findings: Vec<Finding>) {
        self.source = findings;
    }

    /// Applies edits and returns what is served differently, with all findings.
    pub fn apply(&mut self, edits: Edits) -> Update {
        let mut changes = ScopedChanges::default();
        let edited = edits.documents.iter().map(|document| &document.id);
        let edited = edits.deleted.iter().chain(edited);
        let origin = Origin::default().documents(edited.cloned());
        for id in &edits.deleted {
            self.delete(id, &mut changes);
        }
        // Definitions first: the conflicts of the resources depend on them.
        let (definitions, resources) =
            edits
                .documents
                .into_iter()
                .partition::<Vec<_>, _>(|document| {
                    matches!(document.content, DocumentContent::Group { .. })
                });
        for document in definitions.into_iter().chain(resources) {
            self.put(document, &mut changes);
        }
        let accepted = self.accept();
        // One change set for all edits: sessions see all of them or none (S-69).
        self.serve(&accepted, &mut changes);
        self.check_references(accepted, &changes);
        Update {
            findings: self.findings(),
            changes: changes.root,
            groups: changes.groups.into_values().collect(),
            origin,
            ..Update::default()
        }
    }

    fn delete(&mut self, id: &DocumentId, changes: &mut ScopedChanges) {
        let Some(state) = self.documents.remove(id) else {
            return;
        };
        self.disown(id, &state.served, changes);
        // Without its definition a group has no nodes; its resources stay, in case the definition comes back.
        if let Some(name) = group::defined_by(self.decoder.root(), id) {
            self.ownership.undefine(&name);
            changes.group(&name).definition = Definition::Unset;
        }
    }

    fn put(&mut self, document: Document, changes: &mut ScopedChanges) {
        let Document { id, content } = document;
        let (candidate, findings) = match content {
            DocumentContent::Resources {
                resources,
                warnings,
            } => (Some(resources), warnings),
            DocumentContent::Group { name, matcher } => {
                (None, self.define(&id, &name, *matcher, changes))
            }
            // The last valid resources stay served (S-73).
            DocumentContent::Invalid(findings) => (None, findings),
        };
        let state = self.documents.entry(id).or_default();
        state.candidate = candidate;
        state.findings = findings;
        state.conflicts.clear();
    }

    fn define(
        &mut self,
        id: &Path,
        name: &Arc<str>,
        matcher: NodeMatcher,
        changes: &mut ScopedChanges,
    ) -> Vec<Finding> {
        match self.ownership.define(name, matcher.clone()) {
            Ok(()) => {
                changes.group(name).definition = Definition::Set(Box::new(matcher));
                Vec::new()
            }
            Err((key, other)) => vec![equally_specific(id, &key, &other)],
        }
    }

    /// Returns the candidates that may be served, and records the conflicts of the others.
    fn accept(&mut self) -> BTreeSet<DocumentId> {
        let candidates: Candidates<'_> = self
            .documents
            .iter()
            .filter_map(|(id, state)| Some((Arc::clone(id), state.candidate.as_deref()?)))
            .collect();
        let resolution = resolve(self.decoder.root(), &candidates, &self.ownership);
        for (id, findings) in resolution.conflicts {
            if let Some(state) = self.documents.get_mut(&id) {
                state.conflicts = findings;
            }
        }
        resolution.accepted
    }

    /// Serves the accepted candidates. All of them give up their old names before any of them takes its new ones.
    fn serve(&mut self, accepted: &BTreeSet<DocumentId>, changes: &mut ScopedChanges) {
        for id in accepted {
            let Some(state) = self.documents.get_mut(id) else {
                continue;
            };
            state.conflicts.clear();
            // Removals first: a name that moves between two documents is then one upsert, not a removal (S-72).
            let served = state.candidate.take().unwrap_or_default();
            let before = std::mem::replace(&mut state.served, served);
            self.disown(id, &before, changes);
        }
        for id in accepted {
            let scope = group::of(self.decoder.root(), id);
            let state = self.documents.get(id);
            for placed in state.into_iter().flat_map(|state| &state.served) {
                self.ownership.insert(&scope, &placed.key(), id);
                self.referrers.add(id, placed);
                let changes = changes.scope(&scope);
                changes.upserts.push(Arc::clone(&placed.resource));
            }
        }
    }

    /// Checks the references of the changed documents, and of those that refer to a resource that was added or removed.
    fn check_references(&mut self, mut ids: BTreeSet<DocumentId>, changes: &ScopedChanges) {
        for key in changes.keys() {
            ids.extend(self.referrers.of(&key).cloned());
        }
        for id in ids {
            if let Some(state) = self.documents.get_mut(&id) {
                let scope = group::of(self.decoder.root(), &id);
                let exists = |key: &ResourceKey| self.ownership.sees(&scope, key);
                let placed = state.served.iter();
                state.dangling = placed
                    .flat_map(|placed| dangling(&id, placed, self.dangling, exists))
                    .collect();
            }
        }
    }

    /// Takes its names from a document. A removal that the upsert of another document follows changes nothing.
    fn disown(&mut self, id: &Path, resources: &[PlacedResource], changes: &mut ScopedChanges) {
        let scope = group::of(self.decoder.root(), id);
        for placed in resources {
            self.referrers.remove(id, placed);
            let key = placed.key();
            if self.ownership.remove(&scope, &key, id) {
                changes.scope(&scope).removals.push(key);
            }
        }
    }

    /// Returns all findings, sorted by document and position.
    fn findings(&self) -> Vec<Finding> {
        let root = self.decoder.root();
        let mut findings = self.source.clone();
        for state in self.documents.values() {
            let all = [&state.findings, &state.conflicts, &state.dangling];
            findings.extend(all.into_iter().flatten().cloned());
        }
        findings.extend(self.ownership.undefined_groups().filter_map(|name| {
            let id = group::definition(root, name);
            let message = "no such file: the group has no nodes, so its resources are not served";
            (!self.documents.contains_key(&*id)).then(|| Finding::of_rule(&id, "group", message))
        }));
        if self.ownership.is_empty() && findings.is_empty() {
            findings.push(Finding {
                severity: Severity::Warning,
                ..Finding::of_rule(root, "empty", "no resources found")
            });
        }
        findings.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        findings
    }
}

fn equally_specific(id: &Path, (resource_type, name): &ResourceKey, other: &str) -> Finding {
    let message = format!(
        "{resource_type} {name:?} is also in group {other:?}, which would be equally specific and may match the same nodes"
    );
    Finding::of_rule(id, "group", &message)
}
