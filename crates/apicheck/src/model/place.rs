//! Where an element stands, and the comments around it.

use super::FileId;

/// A stretch of text. Lines and columns count from 1, columns in characters; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column after the end.
    pub end_column: u32,
}

/// A stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// The stretch; none when the tree came from a descriptor set without source information.
    pub span: Option<Span>,
}

/// Where an element was written, and what was written about it.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The whole declaration.
    pub span: Option<Span>,
    /// Its name alone.
    pub name: Option<Span>,
    /// Comments, when there are any.
    pub docs: Option<Box<Docs>>,
}

impl Source {
    /// All comments of the element as one text, detached ones left out.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        self.docs.iter().flat_map(|docs| {
            [&docs.leading, &docs.trailing]
                .into_iter()
                .flatten()
                .map(|text| &**text)
        })
    }
}

/// The comments of an element, without their markers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Docs {
    /// Paragraphs before it, each set apart by an empty line.
    pub detached: Vec<Box<str>>,
    /// Directly before it.
    pub leading: Option<Box<str>>,
    /// After it, on its line or below.
    pub trailing: Option<Box<str>>,
}
