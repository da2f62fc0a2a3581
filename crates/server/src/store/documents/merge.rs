//! The merged state of all documents: the last valid resources of each, each name with one owner.
//!
//! ```text
//!            decoding fails                     decoding succeeds
//!  ┌──────┐ ◀────────────── document changed ─────────────────▶ ┌───────────┐
//!  │ kept │                                                     │ candidate │
//!  └──────┘ ◀──── another document owns one of its names ────── └───────────┘
//!   last valid        (strict: or a reference would lead to           │ every name is free
//!   resources stay    nothing)                                        ▼
//!   served
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

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::{Definition, GroupUpdate, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, ResourceKey};
use oxds_types::codec;
use oxds_types::lifecycle::Policy;

use super::changes::ScopedChanges;
use super::conflicts::{Candidates, Resolution, resolve};
use super::document::{Document, DocumentContent, DocumentDecoder, DocumentId, PlacedResource};
use super::ownership::Ownership;
use super::references::{MISSING, Referrers, dangling};
use super::state::{Candidate, DocumentState, States};
use super::{group, strict};
use crate::store::LastGood;
use crate::store::finding::{Finding, FindingCounts, Severity};
use crate::store::update::{Origin, Update};
use crate::store::uses::{DeprecatedUses, NoticeCounts, PlacedUse};

/// How documents are decoded and checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// How bytes are decoded and checked.
    pub codec: codec::Options,
    /// Whether a reference to nothing is an error instead of a warning (S-70). A document whose content, or whose
    /// deletion, would lead to one keeps its last content.
    pub strict: bool,
    /// Whether a document that becomes empty removes its resources. By default that is an error, and they stay served.
    pub allow_empty: bool,
    /// The largest number of findings in an update. [`Update::more_findings`] counts the others. Default: 1,000.
    pub max_findings: usize,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        Self {
            codec: codec::Options::default(),
            strict: false,
            allow_empty: false,
            max_findings: 1_000,
        }
    }
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
    decoder: Arc<DocumentDecoder>,
    strict: bool,
    allow_empty: bool,
    max_findings: usize,
    states: States,
    ownership: Ownership,
    referrers: Referrers,
    /// Findings about the source itself.
    source: Vec<Finding>,
    deprecated_uses: DeprecatedUses,
    /// Numbers of the documents that the current edits have.
    notices: NoticeCounts,
}

impl Documents {
    /// Creates a store without documents. All ids begin with `root`: the path of a folder, or the prefix of all keys.
    #[must_use]
    pub fn new(root: &Path, options: DocumentOptions) -> Self {
        Self {
            decoder: Arc::new(DocumentDecoder::new(root, options.codec)),
            strict: options.strict,
            allow_empty: options.allow_empty,
            max_findings: options.max_findings,
            states: States::default(),
            ownership: Ownership::default(),
            referrers: Referrers::default(),
            source: Vec::new(),
            deprecated_uses: DeprecatedUses::default(),
            notices: NoticeCounts::default(),
        }
    }

    /// Returns the decoder for documents of this store.
    #[must_use]
    pub fn decoder(&self) -> &DocumentDecoder {
        &self.decoder
    }

    pub(crate) fn shared_decoder(&self) -> Arc<DocumentDecoder> {
        Arc::clone(&self.decoder)
    }

    /// Continues with the documents of an earlier process: they are served as if they had been put, until they are put
    /// or deleted. Resources without an origin below the root belong to no document, and are left out. Call it before
    /// any other change.
    pub fn restore(&mut self, last_good: &LastGood) {
        let root = self.decoder.root().to_owned();
        for (name, matcher) in last_good.groups() {
            let id: DocumentId = group::definition(&root, name).into();
            // It was valid in the earlier process, so it has no conflict.
            if self.ownership.define(name, matcher.clone()).is_ok() {
                self.states.update(&id, |_| ());
            }
        }
        for (scope, resource) in last_good.resources() {
            let Some(id) = resource.origin().map(|origin| &origin.document) else {
                continue;
            };
            if !id.starts_with(&root) || group::of(&root, id).as_ref() != scope {
                continue;
            }
            let placed = PlacedResource {
                resource: Arc::clone(resource),
            };
            self.ownership.insert(&scope.cloned(), &placed.key(), id);
            self.referrers.add(id, &placed);
            self.states.update(id, |state| state.served.push(placed));
        }
    }

    /// Returns everything that is served, as the changes that lead to it from nothing.
    pub(crate) fn whole(&self) -> (ChangeSet, Vec<GroupUpdate>) {
        let mut whole = ScopedChanges::default();
        for id in self.states.ids() {
            let scope = group::of(self.decoder.root(), id);
            let served = self.states.served(id).iter();
            let served = served.map(|placed| Arc::clone(&placed.resource));
            let served: Vec<_> = served.collect();
            if !served.is_empty() {
                whole.scope(&scope).upserts.extend(served);
            }
        }
        for (name, matcher) in self.ownership.definitions() {
            let set = Definition::Set(Box::new(matcher.clone()));
            whole.group(name).definition = set;
        }
        (whole.root, whole.groups.into_values().collect())
    }

    /// Returns the ids of all documents, valid or not, sorted.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &DocumentId> {
        self.states.ids()
    }

    /// Replaces the findings about the source itself: a folder that cannot be read, for example. They are part of each
    /// later update.
    pub fn set_source_findings(&mut self, findings: Vec<Finding>) {
        self.source = findings;
    }

    /// Replaces the policy for deprecated elements. Returns the documents that may be decided about differently now:
    /// decode and [put](Edits::put) them again.
    #[must_use]
    pub fn set_policy(&mut self, policy: &Policy) -> Vec<DocumentId> {
        let before = self.decoder.policy();
        self.decoder.set_policy(policy.clone());
        if !before.has_same_clock(policy) || policy.clock().has_announced() {
            // Elements that are only announced leave no trace in a document.
            return self.states.ids().cloned().collect();
        }
        let differs = |one: &PlacedUse| policy.decide(one.used.element) != one.used.decision;
        let documents = self.deprecated_uses.documents();
        let documents = documents.filter(|(_, uses)| uses.iter().any(differs));
        documents.map(|(id, _)| Arc::clone(id)).collect()
    }

    /// Returns, for each of these new contents, the number of served resources that neither it nor another of them has.
    /// A content that will not be served loses nothing.
    pub(crate) fn losses<'a>(
        &self,
        documents: impl Iterator<Item = &'a Document> + Clone,
    ) -> Vec<usize> {
        let root = self.decoder.root();
        let gone = |document: &Document| {
            let served = self.states.served(&document.id);
            let is_served = match &document.content {
                DocumentContent::Resources { blank, .. } => !blank || self.allow_empty,
                DocumentContent::Group { .. } | DocumentContent::Invalid(_) => false,
            };
            if served.is_empty() || !is_served {
                return Vec::new();
            }
            let now: HashSet<_> = document
                .resources()
                .iter()
                .map(PlacedResource::key)
                .collect();
            let served = served.iter().map(PlacedResource::key);
            served.filter(|key| !now.contains(key)).collect()
        };
        let gone: Vec<Vec<ResourceKey>> = documents.clone().map(gone).collect();
        if gone.iter().all(Vec::is_empty) {
            return vec![0; gone.len()];
        }
        // A resource that moves to another document is not lost.
        let provided: HashSet<_> = documents
            .clone()
            .flat_map(|document| {
                let scope = group::of(root, &document.id);
                let resources = document.resources().iter();
                resources.map(move |placed| (scope.clone(), placed.key()))
            })
            .collect();
        let lost = |(document, gone): (&Document, Vec<ResourceKey>)| {
            let scope = group::of(root, &document.id);
            let lost = |key: &ResourceKey| !provided.contains(&(scope.clone(), key.clone()));
            gone.into_iter().filter(lost).count()
        };
        documents.zip(gone).map(lost).collect()
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
        let (findings, more_findings) = self.findings();
        Update {
            deprecated_uses: self.deprecated_uses.clone(),
            notices: std::mem::take(&mut self.notices),
            findings,
            more_findings,
            changes: changes.root,
            groups: changes.groups.into_values().collect(),
            origin,
            ..Update::default()
        }
    }

    fn delete(&mut self, id: &DocumentId, changes: &mut ScopedChanges) {
        if !self.states.contains(id) {
            return;
        }
        self.deprecated_uses.set(id, Vec::new());
        self.states.update(id, |state| {
            *state = DocumentState {
                served: std::mem::take(&mut state.served),
                candidate: Some(Candidate::Deleted),
                ..DocumentState::default()
            };
        });
        // Without its definition a group has no nodes; its resources stay, in case the definition comes back.
        if let Some(name) = group::defined_by(self.decoder.root(), id) {
            self.ownership.undefine(&name);
            changes.group(&name).definition = Definition::Unset;
        }
    }

    fn put(&mut self, document: Document, changes: &mut ScopedChanges) {
        let Document {
            id,
            content,
            more_findings,
            uses,
            notices,
        } = document;
        self.notices += notices;
        // The uses of the last valid content stay while the file has other errors.
        let is_other_error = matches!(content, DocumentContent::Invalid(_)) && uses.is_empty();
        if !is_other_error {
            self.deprecated_uses.set(&id, uses);
        }
        let served = self.states.served(&id).len();
        let (candidate, findings) = match content {
            DocumentContent::Resources { blank: true, .. } if served > 0 && !self.allow_empty => {
                (None, vec![emptied(&id, served)])
            }
            DocumentContent::Resources {
                resources,
                warnings,
                ..
            } => (Some(Candidate::Content(resources)), warnings),
            DocumentContent::Group { name, matcher } => {
                (None, self.define(&id, &name, *matcher, changes))
            }
            // The last valid resources stay served (S-73).
            DocumentContent::Invalid(findings) => (None, findings),
        };
        self.states.update(&id, |state| {
            state.candidate = candidate;
            state.findings = findings;
            state.more_findings = more_findings;
            state.refusals.clear();
        });
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

    /// Returns the candidates that may be served, and records why the others may not.
    fn accept(&mut self) -> BTreeSet<DocumentId> {
        let root = self.decoder.root();
        let candidates: Candidates<'_> = self.states.candidates().collect();
        let resolution = if self.strict {
            strict::resolve(root, &candidates, &self.ownership, &self.referrers, |id| {
                self.states.served(id)
            })
        } else {
            resolve(root, &candidates, &self.ownership)
        };
        let Resolution { accepted, refusals } = resolution;
        for (id, findings) in refusals {
            self.states.update(&id, |state| state.refusals = findings);
        }
        accepted
    }

    /// Serves the accepted candidates. All of them give up their old names before any of them takes its new ones.
    fn serve(&mut self, accepted: &BTreeSet<DocumentId>, changes: &mut ScopedChanges) {
        let root = self.decoder.root();
        for id in accepted {
            let before = self.states.update(id, |state| {
                state.refusals.clear();
                let (now, is_deleted) = match state.candidate.take() {
                    Some(Candidate::Content(mut resources)) => {
                        reuse(&mut resources, &state.served);
                        (resources, false)
                    }
                    Some(Candidate::Deleted) => (Vec::new(), true),
                    None => (Vec::new(), false),
                };
                (std::mem::replace(&mut state.served, now), is_deleted)
            });
            let (before, is_deleted) = before;
            if is_deleted {
                self.states.remove(id);
            }
            // Removals first: a name that moves between two documents is then one upsert, not a removal (S-72).
            let scope = group::of(root, id);
            for placed in &before {
                self.referrers.remove(id, placed);
                let key = placed.key();
                // A removal that the upsert of another document follows changes nothing.
                if self.ownership.remove(&scope, &key, id) {
                    changes.scope(&scope).removals.push(key);
                }
            }
        }
        for id in accepted {
            let scope = group::of(root, id);
            for placed in self.states.served(id) {
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
        let severity = if self.strict {
            Severity::Error
        } else {
            Severity::Warning
        };
        ids.retain(|id| self.states.contains(id));
        for id in &ids {
            let scope = group::of(self.decoder.root(), id);
            let problem = |key: &ResourceKey| {
                if self.ownership.sees(&scope, key) {
                    None
                } else {
                    Some(MISSING.to_owned())
                }
            };
            let placed = self.states.served(id).iter();
            let dangling: Vec<_> = placed
                .flat_map(|placed| dangling(id, placed, severity, problem))
                .collect();
            self.states.update(id, |state| state.dangling = dangling);
        }
    }

    /// Returns the findings, sorted by document and position, and the numbers of those that are only counted.
    fn findings(&self) -> (Vec<Finding>, FindingCounts) {
        let root = self.decoder.root();
        let mut findings = self.source.clone();
        findings.extend(self.ownership.undefined_groups().filter_map(|name| {
            let id = group::definition(root, name);
            let message = "no such file: the group has no nodes, so its resources are not served";
            (!self.states.contains(&id)).then(|| Finding::for_file(&id, "group", message))
        }));
        let more = self.states.findings(
            self.max_findings.saturating_sub(findings.len()),
            &mut findings,
        );
        if self.ownership.is_empty() && findings.is_empty() {
            findings.push(Finding {
                severity: Severity::Warning,
                ..Finding::for_file(root, "empty", "no resources found")
            });
        }
        findings.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        (findings, more)
    }
}

/// Replaces new resources by equal ones that are served already, so that each is in memory once.
fn reuse(new: &mut [PlacedResource], served: &[PlacedResource]) {
    let served: HashMap<ResourceKey, &PlacedResource> =
        served.iter().map(|placed| (placed.key(), placed)).collect();
    for placed in new {
        let Some(known) = served.get(&placed.key()) else {
            continue;
        };
        let is_same = known.resource == placed.resource
            && known.resource.origin() == placed.resource.origin();
        if is_same {
            placed.resource = Arc::clone(&known.resource);
        }
    }
}

fn emptied(id: &Path, served: usize) -> Finding {
    let resources = if served == 1 {
        "resource stays"
    } else {
        "resources stay"
    };
    let message = format!(
        "the file is empty, its {served} {resources} served; to remove them, delete the file, write `[]`, or use --allow-empty"
    );
    Finding::for_file(id, "empty", &message)
}

fn equally_specific(id: &Path, (resource_type, name): &ResourceKey, other: &str) -> Finding {
    let message = format!(
        "{resource_type} {name:?} is also in group {other:?}, which would be equally specific and may match the same nodes"
    );
    Finding::for_file(id, "group", &message)
}
