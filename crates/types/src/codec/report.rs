//! Collects the resources and findings of a file, and adds positions and snippets.

use std::path::Path as FilePath;
use std::sync::Arc;

use super::position::{locate, resource_positions};
use super::resource::{Draft, LoadedResource, ReadResult};
use super::walk::{Finding, Walk};
use crate::clip::clip;
use crate::error::Reason;
use crate::path::FieldPath;
use crate::{Error, Position, ResourceType};

/// Bytes of text that are parsed again to locate the findings of one document. Each finding costs one pass. Later findings
/// have no position, so that a large file with many warnings still loads.
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

/// Resources and errors of a file.
#[derive(Debug)]
pub(super) struct Report {
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
}

impl Report {
    pub(super) fn new(file: Option<&FilePath>) -> Report {
        Report {
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
            snippet: None,
        }
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
        let mut document = Document {
            text,
            line,
            locating,
            budget: LOCATING_BUDGET,
        };
        let (findings, path, stopped) = walk.finish();
        let mut warnings = Vec::new();
        for Finding {
            path,
            resource,
            reason,
        } in findings
        {
            let position = document.locate(&path);
            let error = self.error_at(&document, position, &path, resource, reason);
            if error.is_warning() {
                warnings.push((path, error));
            } else {
                self.errors.push(error);
            }
        }
        match read {
            Ok(drafts) => {
                let positions = resource_positions(text, drafts.len());
                for (draft, position) in drafts.into_iter().zip(positions) {
                    self.draft(draft, position, &mut document, &mut warnings);
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

    fn draft(
        &mut self,
        draft: Draft,
        position: Option<Position>,
        document: &mut Document<'_>,
        warnings: &mut Vec<(FieldPath, Error)>,
    ) {
        let path = draft.path.clone();
        match draft.finish() {
            Ok(mut resource) => {
                resource.position = position.map(|position| document.in_file(position));
                resource.warnings = warnings
                    .extract_if(.., |(at, _)| at.steps().starts_with(path.steps()))
                    .map(|(_, warning)| warning)
                    .collect();
                self.resources.push(resource);
            }
            Err(reason) => {
                let position = document.locate(&path);
                self.errors
                    .push(self.error_at(document, position, &path, None, reason));
            }
        }
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
            snippet,
        }
    }
}

impl Document<'_> {
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
