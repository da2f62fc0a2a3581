//! Collects the resources and findings of a file, and adds positions and snippets.

use std::path::Path as FilePath;
use std::sync::Arc;

use super::notice::{About, Notice};
use super::position::{locate, resource_positions};
use super::resource::{Draft, LoadedResource, ReadResult};
use super::walk::{Finding, Walk, Walked};
use crate::advice::Advice;
use crate::clip::clip;
use crate::error::Reason;
use crate::lifecycle::{DeprecatedUse, Policy};
use crate::path::FieldPath;
use crate::{Error, Position, ResourceType};

/// Bytes of text that are parsed again to locate the findings of one document. Each finding costs one pass. Later
/// findings have no position, so that a large file with many warnings still loads.
const LOCATING_BUDGET: usize = 32 << 20;
/// Lines of a snippet before and after the position.
const CONTEXT_LINES: u32 = 2;
/// Characters of a line in a snippet.
const MAX_COLUMNS: usize = 120;

/// Whether field paths can be located in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locating {
    ByPath,
    No,
}

/// Notices of a document with a line, a column and a snippet of their own. Later ones have the position of their
/// resource.
const MAX_LOCATED: usize = 100;
/// Errors about disallowed elements that a document reports.
const MAX_DISALLOWED: usize = 100;

/// Resources and errors of a file.
#[derive(Debug)]
pub(super) struct Report<'a> {
    policy: &'a Policy,
    /// `None` for a message that a program made.
    file: Option<Arc<FilePath>>,
    resources: Vec<LoadedResource>,
    errors: Vec<Error>,
}

/// Text of a document, with the bytes that may still be parsed to locate findings.
struct Document<'a> {
    text: &'a str,
    /// First line of the document in its file, from 0.
    line: usize,
    locating: Locating,
    budget: usize,
    /// Notices that may still be located.
    notices: usize,
    /// Errors about disallowed elements so far.
    disallowed: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: Option<&FilePath>, policy: &'a Policy) -> Self {
        Report {
            policy,
            file: file.map(Arc::from),
            resources: Vec::new(),
            errors: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Result<Vec<LoadedResource>, Vec<Error>> {
        if self.errors.is_empty() {
            Ok(self.resources)
        } else {
            Err(self.errors)
        }
    }

    /// Returns an error about the file as a whole.
    pub(super) fn error(&self, reason: Reason, position: Option<Position>) -> Error {
        Error {
            file: self.file.clone(),
            position,
            resource_type: None,
            resource: None,
            path: String::new(),
            reason,
            count: 1,
            snippet: None,
        }
    }

    /// Adds the errors of a message that is a part of a resource, and returns its warnings; `None` if it has errors.
    pub(super) fn message(&mut self, walk: Walk, read: Result<(), Reason>) -> Option<Vec<Error>> {
        let mut document = Document::new("", 0, Locating::No);
        let walked = walk.finish();
        for finding in walked.findings {
            let error = self.error_at(&document, None, &finding.path, None, finding.reason);
            self.errors.push(error);
        }
        if let Err(reason) = read {
            let reason = walked.stopped.unwrap_or(reason);
            let error = self.error_at(&document, None, &walked.path, None, reason);
            self.errors.push(error);
        }
        let mut warnings = Vec::new();
        for notice in walked.notices {
            let found = self.notice(notice, None, None, &mut document);
            warnings.extend(found.and_then(|finding| self.keep(finding, &mut document)));
        }
        self.errors.is_empty().then_some(warnings)
    }

    /// Adds the result of reading a document.
    pub(super) fn document(
        &mut self,
        text: &str,
        line: usize,
        locating: Locating,
        walk: Walk,
        read: ReadResult,
    ) {
        let mut document = Document::new(text, line, locating);
        let Walked {
            findings,
            notices,
            path,
            stopped,
        } = walk.finish();
        for Finding {
            path,
            resource,
            reason,
        } in findings
        {
            let position = document.locate(&path);
            let error = self.error_at(&document, position, &path, resource, reason);
            self.errors.push(error);
        }
        match read {
            Ok(mut drafts) => {
                // Those about the document around its resources.
                if let Some(first) = drafts.first_mut() {
                    first.notices.extend(notices);
                }
                let positions = resource_positions(text, drafts.len());
                for (draft, position) in drafts.into_iter().zip(positions) {
                    self.draft(draft, position, &mut document);
                }
            }
            Err((reason, position)) => {
                // The parser knows the position of a syntax error. Other errors have a field path.
                let (reason, path, position) = match (stopped, reason) {
                    (Some(reason), _) | (None, reason @ Reason::Value(_)) => {
                        let by_path = document.locate(&path);
                        (reason, path, by_path.or(position))
                    }
                    (None, reason) => (reason, FieldPath::default(), position),
                };
                self.errors
                    .push(self.error_at(&document, position, &path, None, reason));
            }
        }
    }

    fn draft(&mut self, draft: Draft, position: Option<Position>, document: &mut Document<'_>) {
        let path = draft.path.clone();
        let mut draft = draft;
        let notices = std::mem::take(&mut draft.notices);
        match draft.finish() {
            Ok(mut resource) => {
                resource.position = position.map(|position| document.in_file(position));
                for notice in notices {
                    let found = self.notice(notice, Some(&resource), position, document);
                    resource
                        .warnings
                        .extend(found.and_then(|finding| self.keep(finding, document)));
                }
                self.resources.push(resource);
            }
            Err(reason) => {
                let position = document.locate(&path);
                self.errors
                    .push(self.error_at(document, position, &path, None, reason));
            }
        }
    }

    /// Returns the finding of a notice; `None` for a deprecation that is only announced.
    fn notice(
        &self,
        notice: Notice,
        resource: Option<&LoadedResource>,
        of_resource: Option<Position>,
        document: &mut Document<'_>,
    ) -> Option<Error> {
        let reason = match notice.about {
            About::Deprecated {
                element,
                is_default,
            } => {
                let decision = self.policy.decide(element);
                if !decision.is_finding() {
                    return None;
                }
                Reason::Deprecated(Box::new(DeprecatedUse {
                    element,
                    is_default,
                    decision,
                }))
            }
            About::WorkInProgress(mark) => Reason::WorkInProgress(mark),
            About::UnknownField {
                field,
                message,
                is_kept,
            } => Reason::AcceptedField {
                field,
                message: message.to_owned(),
                is_kept,
            },
            About::Advice(Advice { rule, text }) => Reason::Advice { rule, text },
        };
        let key = resource.map(|one| (one.resource_type.clone(), one.name.to_string()));
        let is_located = document.notices > 0;
        document.notices = document.notices.saturating_sub(1);
        let position = if is_located {
            document.locate(&notice.path)
        } else {
            None
        };
        let mut error = self.error_at(document, position, &notice.path, key, reason);
        if !is_located {
            error.position = of_resource.map(|position| document.in_file(position));
        }
        error.count = notice.count;
        Some(error)
    }

    /// Returns a warning. Keeps an error with the errors of the file.
    fn keep(&mut self, finding: Error, document: &mut Document<'_>) -> Option<Error> {
        if finding.is_warning() {
            return Some(finding);
        }
        if document.disallowed < MAX_DISALLOWED {
            document.disallowed += 1;
            self.errors.push(finding);
        }
        None
    }

    fn error_at(
        &self,
        document: &Document<'_>,
        position: Option<Position>,
        path: &FieldPath,
        resource: Option<(ResourceType, String)>,
        reason: Reason,
    ) -> Error {
        let (resource_type, resource) = resource.unzip();
        let snippet = position.map(|position| document.snippet(position).into());
        Error {
            file: self.file.clone(),
            position: position.map(|position| document.in_file(position)),
            resource_type,
            resource: resource.map(clip),
            path: clip(path.to_string()),
            reason: reason.clipped(),
            count: 1,
            snippet,
        }
    }
}

impl<'a> Document<'a> {
    fn new(text: &'a str, line: usize, locating: Locating) -> Self {
        Self {
            text,
            line,
            locating,
            budget: LOCATING_BUDGET,
            notices: MAX_LOCATED,
            disallowed: 0,
        }
    }

    /// Converts a position in the document to one in its file.
    fn in_file(&self, position: Position) -> Position {
        Position {
            line: position.line + self.line as u32,
            ..position
        }
    }

    fn locate(&mut self, path: &FieldPath) -> Option<Position> {
        if self.locating == Locating::No || self.text.len() > self.budget {
            return None;
        }
        self.budget -= self.text.len();
        locate(self.text, path)
    }

    /// Returns the lines around a position, numbered as in the file, with a mark under the column.
    fn snippet(&self, at: Position) -> String {
        let first = at.line.saturating_sub(CONTEXT_LINES + 1) as usize;
        let count = (2 * CONTEXT_LINES + 1) as usize;
        let mut out = String::new();
        for (index, line) in self.text.lines().enumerate().skip(first).take(count) {
            let number = self.line + index + 1;
            let line: String = line
                .chars()
                .take(MAX_COLUMNS)
                .map(|c| if c == '\t' { ' ' } else { c })
                .collect();
            out.push_str(&format!("{number:>5} | {line}\n"));
            if index + 1 == at.line as usize && at.column as usize <= MAX_COLUMNS {
                let space = " ".repeat(at.column as usize - 1);
                out.push_str(&format!("      | {space}^\n"));
            }
        }
        out
    }
}
