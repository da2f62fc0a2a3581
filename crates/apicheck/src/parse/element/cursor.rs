//! The element of a file that is being built: its path, its position in the source, and the errors found in it.

use crate::model::{Docs, Source};
use crate::parse::draft::Draft;
use crate::parse::error::{Error, Reason};
use crate::parse::source::Sources;

/// Current element of a file, and the errors of all elements before it.
pub(super) struct Cursor<'a> {
    pub(super) draft: &'a Draft,
    pub(super) sources: Sources<'a>,
    /// Path of the current element in the descriptor.
    pub(super) path: Vec<i32>,
    /// Path of the map field whose entry is being built.
    pub(super) map_field: Option<Vec<i32>>,
    pub(super) errors: Vec<Error>,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the file itself.
    pub(super) fn new(draft: &'a Draft) -> Self {
        Self {
            draft,
            sources: Sources::of(draft),
            path: Vec::new(),
            map_field: None,
            errors: Vec::new(),
        }
    }

    /// Returns the comments of the statements for the lists `tags` of the current element.
    pub(super) fn statement_docs(&self, tags: &[i32]) -> Vec<Docs> {
        let each = tags.iter().map(|tag| {
            self.sources
                .docs_of_all(&[&self.path[..], &[*tag]].concat())
        });
        each.flatten().collect()
    }

    /// Returns whether the file has a text. A descriptor set was checked by the compiler that made
    /// it, maybe an older one.
    pub(super) fn is_text(&self) -> bool {
        self.draft.text.is_some()
    }

    /// Reports a violation of a rule at the field `below` of the current element.
    pub(super) fn rule(&mut self, below: &[i32], why: String) {
        self.report(below, Reason::Rule(why));
    }

    pub(super) fn report(&mut self, below: &[i32], reason: Reason) {
        let path = [&self.path[..], below].concat();
        // The entry of a map has no position, but the map field has one.
        let map_field = || self.sources.span(self.map_field.as_ref()?);
        let span = self.sources.span(&path);
        let span = span
            .or_else(|| self.sources.span(&self.path))
            .or_else(map_field);
        self.errors.push(Error::new(self.draft, span, reason));
    }

    /// Returns the source position of the current element. Every declaration has its name in field
    /// 1.
    pub(super) fn source(&self) -> Source {
        let name = [&self.path[..], &[1]].concat();
        self.sources.source(&self.path, &name)
    }
}
