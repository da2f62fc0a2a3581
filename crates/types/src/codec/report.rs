//! Gathers what was read and found in a file, with places and snippets.

use std::path::Path as FilePath;
use std::sync::Arc;

use super::place::places;
use super::resource::Draft;
use super::walk::{Finding, Walk};
use super::{LoadedResource, Read, locate};
use crate::error::{Reason, clip};
use crate::path::Path;
use crate::{Error, Position, ResourceType};

/// Finding a place costs one more pass over the text. Beyond this many bytes of passes, findings
/// of a document go without: a large file with many warnings must still load.
const LOCATING_BUDGET: usize = 32 << 20;
/// Lines of a snippet around the place.
const CONTEXT_LINES: u32 = 2;
/// Columns of a snippet.
const MAX_COLUMNS: usize = 120;

/// Whether paths can be found in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locating {
    ByPath,
    No,
}

/// What is known of a file.
#[derive(Debug)]
pub(super) struct Report {
    /// None for a message that was made by a program.
    file: Option<Arc<FilePath>>,
    resources: Vec<LoadedResource>,
    errors: Vec<Error>,
}

/// A document's text, and how far into it places can be looked up.
struct Document<'a> {
    text: &'a str,
    /// The line of the file that it begins at, from 0.
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

    /// An error of the file as a whole.
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

    /// Adds what reading a document gave.
    pub(super) fn document(
        &mut self,
        text: &str,
        line: usize,
        locating: Locating,
        walk: Walk,
        read: Read,
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
                let places = places(text, drafts.len());
                for (draft, place) in drafts.into_iter().zip(places) {
                    self.draft(draft, place, &mut document, &mut warnings);
                }
            }
            Err((reason, position)) => {
                // What breaks the text is where the parser says; what does not fit is at a path.
                let (reason, path, position) = match (stopped, reason) {
                    (Some(reason), _) | (None, reason @ Reason::Value(_)) => {
                        let by_path = document.locate(&path);
                        (reason, path, by_path.or(position))
                    }
                    (None, reason) => (reason, Path::default(), position),
                };
                self.errors
                    .push(self.error_at(&document, position, &path, None, reason));
            }
        }
    }

    fn draft(
        &mut self,
        draft: Draft,
        place: Option<Position>,
        document: &mut Document<'_>,
        warnings: &mut Vec<(Path, Error)>,
    ) {
        let path = draft.path.clone();
        match draft.finish() {
            Ok(mut resource) => {
                resource.position = place.map(|place| document.in_file(place));
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
        path: &Path,
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
    /// Lines are counted from the document's first; in files, from the file's.
    fn in_file(&self, position: Position) -> Position {
        Position {
            line: position.line + self.line as u32,
            ..position
        }
    }

    fn locate(&mut self, path: &Path) -> Option<Position> {
        if self.locating == Locating::No || self.text.len() > self.budget {
            return None;
        }
        self.budget -= self.text.len();
        locate::locate(self.text, path)
    }

    /// The lines around a place, numbered as in the file, with a mark under it.
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
