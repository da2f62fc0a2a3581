//! Source positions of the elements of a file, by their paths in the descriptor.

use prost_types::source_code_info::Location;

use super::draft::Draft;
use crate::model::{Docs, Source, Span};

/// Source positions of a file.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    /// Positions, sorted by path.
    locations: &'a [Location],
    /// Lines of the text, to count columns in characters; `None` if the text is ASCII.
    lines: Option<Vec<&'a str>>,
}

impl<'a> Sources<'a> {
    pub(super) fn of(draft: &'a Draft) -> Self {
        let info = draft.proto.source_code_info.as_ref();
        let text = draft.text.as_deref().filter(|text| !text.is_ascii());
        Self {
            locations: info.map_or(&[], |info| &info.location),
            lines: text.map(|text| text.split('\n').collect()),
        }
    }

    /// Returns all positions of a path. Statements of one list, such as `reserved`, share a path.
    fn all(&self, path: &[i32]) -> impl Iterator<Item = &'a Location> {
        let first = self
            .locations
            .partition_point(|location| location.path.as_slice() < path);
        let rest = self.locations[first..].iter();
        rest.take_while(move |location| location.path == path)
    }

    /// Returns the comments of the statements that share a path.
    pub(super) fn docs_of_all(&self, path: &[i32]) -> Vec<Docs> {
        self.all(path).filter_map(docs).map(|docs| *docs).collect()
    }

    /// Returns the comments of the block `list`, if the element of that index is its first one.
    pub(super) fn docs_of_block(&self, list: &[i32], index: i32) -> Option<Docs> {
        let spans = |index: i32| self.span(&[list, &[index]].concat());
        let own = spans(index)?;
        let holds = |outer: Span, inner: Span| {
            (outer.line, outer.column) <= (inner.line, inner.column)
                && (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
        };
        let mut blocks = self.all(list);
        let block =
            blocks.find(|block| self.span_of(block).is_some_and(|span| holds(span, own)))?;
        let span = self.span_of(block)?;
        let is_first = spans(index - 1).is_none_or(|before| !holds(span, before));
        docs(block).filter(|_| is_first).map(|docs| *docs)
    }

    fn find(&self, path: &[i32]) -> Option<&'a Location> {
        self.all(path).next()
    }

    pub(super) fn span(&self, path: &[i32]) -> Option<Span> {
        self.span_of(self.find(path)?)
    }

    /// Returns the position and the comments of an element; `name` is the path of its name.
    pub(super) fn source(&self, path: &[i32], name: &[i32]) -> Source {
        let Some(location) = self.find(path) else {
            return Source::default();
        };
        Source {
            span: self.span_of(location),
            name: self.span(name),
            docs: docs(location),
        }
    }

    fn span_of(&self, location: &Location) -> Option<Span> {
        let [line, column, ref end @ ..] = location.span[..] else {
            return None;
        };
        let (end_line, end_column) = match *end {
            [end_column] => (line, end_column),
            [end_line, end_column] => (end_line, end_column),
            _ => return None,
        };
        Some(Span {
            line: line as u32 + 1,
            column: self.column(line, column),
            end_line: end_line as u32 + 1,
            end_column: self.column(end_line, end_column),
        })
    }

    /// Converts a byte column of the parser into a character column.
    fn column(&self, line: i32, bytes: i32) -> u32 {
        let lines = self.lines.as_ref();
        let Some(line) = lines.and_then(|lines| lines.get(line as usize)) else {
            return bytes as u32 + 1;
        };
        let before = line.get(..bytes as usize).unwrap_or(line);
        before.chars().count() as u32 + 1
    }
}

fn docs(location: &Location) -> Option<Box<Docs>> {
    let boxed = |text: &Option<String>| text.as_deref().map(Box::from);
    let docs = Docs {
        detached: location
            .leading_detached_comments
            .iter()
            .map(|text| Box::from(text.as_str()))
            .collect(),
        leading: boxed(&location.leading_comments),
        trailing: boxed(&location.trailing_comments),
    };
    (docs != Docs::default()).then(|| Box::new(docs))
}
