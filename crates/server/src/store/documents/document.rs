//! One document: from its bytes to resources, to the definition of a group, or to findings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::{Resource, ResourceKey, ResourceOrigin};
use oxds_types::codec::{self, Format, LoadedResource};
use oxds_types::error::Reason;
use oxds_types::lifecycle::Policy;
use oxds_types::{Error, Position};

use super::group;
use crate::store::finding::{Finding, FindingCounts, Severity};
use crate::store::uses::{NoticeCounts, PlacedUse};

/// The id of a document: the path of a file or the key of a value, as the operator knows it.
pub type DocumentId = Arc<Path>;

/// A resource of a document, which is its origin.
#[derive(Debug, Clone)]
pub(super) struct PlacedResource {
    pub(super) resource: Arc<Resource>,
}

impl PlacedResource {
    /// Returns the type and the name of the resource.
    pub(super) fn key(&self) -> ResourceKey {
        (
            self.resource.resource_type().clone(),
            Arc::clone(self.resource.name()),
        )
    }

    /// Returns its line and column in the document, if known.
    pub(super) fn position(&self) -> Option<Position> {
        self.resource.origin()?.position
    }

    fn of(id: &DocumentId, loaded: LoadedResource) -> Self {
        let origin = ResourceOrigin {
            document: Arc::clone(id),
            position: loaded.position,
        };
        Self {
            resource: Arc::new(Resource::from(loaded).with_origin(origin)),
        }
    }
}

/// The largest number of findings that one document shows. A file with more of them has one mistake at many places.
const MAX_FINDINGS: usize = 100;

/// A decoded document, ready for [`Edits::put`](super::Edits::put).
#[derive(Debug)]
pub struct Document {
    pub(super) id: DocumentId,
    pub(super) content: DocumentContent,
    /// Findings that are only counted.
    pub(super) more_findings: FindingCounts,
    /// Uses of deprecated elements.
    pub(super) uses: Vec<PlacedUse>,
    pub(super) notices: NoticeCounts,
}

/// The content of a document.
#[derive(Debug)]
pub(super) enum DocumentContent {
    Resources {
        resources: Vec<PlacedResource>,
        warnings: Vec<Finding>,
        /// Whether the document is empty but for comments.
        blank: bool,
    },
    /// The nodes of a group: `groups/<name>/group.yaml`.
    Group {
        name: Arc<str>,
        matcher: Box<NodeMatcher>,
    },
    /// At least one error.
    Invalid(Vec<Finding>),
}

impl Document {
    /// A document that exists but could not be read. Its last valid resources stay served, as after a decoding error.
    #[must_use]
    pub fn unreadable(id: impl Into<DocumentId>, finding: Finding) -> Self {
        Self::of(id, DocumentContent::Invalid(vec![finding]))
    }

    /// A document of one resource that was decoded and checked elsewhere.
    #[cfg(feature = "etcd")]
    pub(crate) fn of_resource(id: &Path, resource: Arc<Resource>) -> Self {
        Self::of(
            id,
            DocumentContent::Resources {
                resources: vec![PlacedResource { resource }],
                warnings: Vec::new(),
                blank: false,
            },
        )
    }

    /// The definition of a group that was decoded elsewhere.
    #[cfg(feature = "etcd")]
    pub(crate) fn of_group(id: &Path, name: Arc<str>, matcher: NodeMatcher) -> Self {
        let matcher = Box::new(matcher);
        Self::of(id, DocumentContent::Group { name, matcher })
    }

    fn of(id: impl Into<DocumentId>, content: DocumentContent) -> Self {
        Self {
            id: id.into(),
            content,
            more_findings: FindingCounts::default(),
            uses: Vec::new(),
            notices: NoticeCounts::default(),
        }
    }

    pub(crate) fn id(&self) -> &DocumentId {
        &self.id
    }

    /// Returns the resources; empty if the document is invalid, or defines a group.
    pub(super) fn resources(&self) -> &[PlacedResource] {
        match &self.content {
            DocumentContent::Resources { resources, .. } => resources,
            DocumentContent::Group { .. } | DocumentContent::Invalid(_) => &[],
        }
    }
}

/// Decodes documents. Cheap to share between threads: decoding has no other state.
#[derive(Debug)]
pub struct DocumentDecoder {
    root: PathBuf,
    /// Replaced when the policy changes. Decoding threads keep the one that they began with.
    options: ArcSwap<codec::Options>,
}

impl DocumentDecoder {
    pub(super) fn new(root: &Path, options: codec::Options) -> Self {
        Self {
            root: root.into(),
            options: ArcSwap::from_pointee(options),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        self.options.load().policy.clone()
    }

    pub(super) fn set_policy(&self, policy: Policy) {
        let mut options = codec::Options::clone(&self.options.load());
        options.policy = policy;
        self.options.store(Arc::new(options));
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the largest size in bytes that a document may have.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.options.load().max_bytes
    }

    /// Decodes and checks one document. Errors become findings of the document.
    #[must_use]
    pub fn decode(&self, id: impl Into<DocumentId>, bytes: &[u8]) -> Document {
        let id = id.into();
        let mut seen = Seen::default();
        let mut content = match group::defined_by(&self.root, &id) {
            Some(name) => group::parse(&id, bytes).map(|matcher| DocumentContent::Group {
                name,
                matcher: Box::new(matcher),
            }),
            None => resources(&id, bytes, &self.options.load_full(), &mut seen),
        }
        .unwrap_or_else(DocumentContent::Invalid);
        let more_findings = match &mut content {
            DocumentContent::Resources { warnings, .. } => cut(warnings),
            DocumentContent::Group { .. } => FindingCounts::default(),
            DocumentContent::Invalid(findings) => cut(findings),
        };
        Document {
            id,
            content,
            more_findings,
            uses: seen.uses,
            notices: seen.notices,
        }
    }
}

/// The deprecated, unfinished and accepted unknown fields of a document.
#[derive(Default)]
struct Seen {
    uses: Vec<PlacedUse>,
    notices: NoticeCounts,
}

/// Cuts the findings of a document, and returns the numbers of those that were removed.
fn cut(findings: &mut Vec<Finding>) -> FindingCounts {
    let more = FindingCounts::of(findings.iter().skip(MAX_FINDINGS));
    findings.truncate(MAX_FINDINGS);
    more
}

fn resources(
    id: &DocumentId,
    bytes: &[u8],
    options: &codec::Options,
    seen: &mut Seen,
) -> Result<DocumentContent, Vec<Finding>> {
    let format = Format::from_path(id)
        .ok_or_else(|| vec![Finding::for_file(id, "unreadable", "not a resource file")])?;
    let loaded = codec::decode(id, format, bytes, options).map_err(|errors| {
        seen.uses = errors.iter().filter_map(PlacedUse::of).collect();
        let findings = errors.iter().map(|error| translate(id, error));
        findings.collect::<Vec<_>>()
    })?;
    let notices = loaded.iter().flat_map(|resource| &resource.warnings);
    seen.uses = notices.clone().filter_map(PlacedUse::of).collect();
    notices.for_each(|warning| seen.notices.add(warning));
    let warnings = loaded
        .iter()
        .flat_map(|resource| &resource.warnings)
        .map(|warning| Finding {
            severity: Severity::Warning,
            ..translate(id, warning)
        })
        .collect();
    Ok(DocumentContent::Resources {
        blank: loaded.is_empty() && codec::is_blank(format, bytes),
        resources: {
            let placed = loaded.into_iter().map(|one| PlacedResource::of(id, one));
            placed.collect()
        },
        warnings,
    })
}

fn translate(id: &Path, error: &Error) -> Finding {
    Finding {
        severity: if error.is_warning() {
            Severity::Warning
        } else {
            Severity::Error
        },
        file: PathBuf::from(id),
        position: error.position,
        resource_type: error.resource_type.clone(),
        resource: error.resource.clone(),
        path: error.path.clone(),
        rule: rule(&error.reason),
        element: element(&error.reason),
        message: error.reason.to_string(),
        snippet: error.snippet().map(str::to_owned),
    }
}

fn rule(reason: &Reason) -> &'static str {
    match reason {
        Reason::Syntax(_) => "syntax",
        Reason::TooLarge(_) => "too-large",
        Reason::Value(_) => "value",
        Reason::UnknownField { .. } => "unknown-field",
        Reason::NoType => "no-type",
        Reason::UnknownType(_) => "unknown-type",
        Reason::NoName(_) => "no-name",
        Reason::Rule { .. } => "rule",
        Reason::Deprecated(_) => "deprecated",
        Reason::WorkInProgress(_) => "work-in-progress",
        Reason::AcceptedField { .. } => "unknown-field",
        Reason::Advice { rule, .. } => rule,
        _ => "other",
    }
}

fn element(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Deprecated(used) => Some(used.element.name().to_owned()),
        Reason::WorkInProgress(mark) => Some(mark.element().to_owned()),
        Reason::AcceptedField { field, message, .. } => Some(format!("{message}.{field}")),
        _ => None,
    }
}
