//! Source positions of elements, and the comments around them.

use super::id::FileId;

/// Stretch of a text. Lines and columns count from 1, columns count characters, the end is
/// exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First line, counted from 1.
    pub line: u32,
    /// First column, counted from 1.
    pub column: u32,
    /// Last line, counted from 1.
    pub end_line: u32,
    /// Column after the end, on the last line.
    pub end_column: u32,
}

/// Stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSpan {
    /// File of the tree.
    pub file: FileId,
    /// Stretch; `None` if the tree came from a descriptor set without source information.
    pub span: Option<Span>,
}

/// Source position of an element, and its comments.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Source {
    /// Span of the whole declaration.
    pub span: Option<Span>,
    /// Span of its name.
    pub name: Option<Span>,
    /// Comments, if there are any.
    pub docs: Option<Box<Docs>>,
}

impl Source {
    /// Returns the leading and the trailing comment of the element.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        self.docs.iter().flat_map(|docs| {
            [&docs.leading, &docs.trailing]
                .into_iter()
                .flatten()
                .map(|text| &**text)
        })
    }
}

/// Comments of an element, without comment markers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Docs {
    /// Paragraphs before it, each separated by an empty line.
    pub detached: Vec<Box<str>>,
    /// Comment directly before it.
    pub leading: Option<Box<str>>,
    /// Comment after it, on the same line or below.
    pub trailing: Option<Box<str>>,
}
