//! Comments that the parser attaches to no element: inside option brackets, at the end of a block,
//! after its brace. They are printed at their position among the parts of the enclosing element.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::model::{Docs, File, Options, Source, Span, Tree};
use crate::parse::token::{TokenKind, tokens};

/// Unattached comments of a file that are not printed yet.
#[derive(Debug, Default)]
pub(super) struct UnattachedComments(RefCell<Vec<Paragraph>>);

/// Paragraph of consecutive comment lines.
#[derive(Debug, Clone)]
pub(super) struct Paragraph {
    pub(super) span: Span,
    /// Text without comment markers.
    pub(super) text: String,
}

impl UnattachedComments {
    /// Returns the comments in the text of a file that belong to no element.
    pub(super) fn of(tree: &Tree, file: &File) -> UnattachedComments {
        let Some(source) = file.text.as_deref() else {
            return UnattachedComments::default();
        };
        let mut kept: HashMap<&str, usize> = HashMap::new();
        for docs in all_docs(tree, file) {
            let texts = docs
                .detached
                .iter()
                .chain(&docs.leading)
                .chain(&docs.trailing);
            for line in texts.flat_map(|text| text.lines()).map(bare) {
                *kept.entry(line).or_default() += 1;
            }
        }
        let mut unattached: Vec<Paragraph> = Vec::new();
        let mut position = TextPosition::default();
        for token in tokens(source).filter(|token| token.kind == TokenKind::Comment) {
            let (line, column) = position.advance(source, token.range.start);
            let (end_line, end_column) = position.advance(source, token.range.end);
            let text = inside(&source[token.range]);
            let is_kept = text
                .lines()
                .map(bare)
                .filter(|line| !line.is_empty())
                .all(|line| {
                    let count = kept.get_mut(line).filter(|count| **count > 0);
                    count.map(|count| *count -= 1).is_some()
                });
            let above = unattached
                .last_mut()
                .filter(|above| above.span.end_line + 1 == line);
            match above {
                Some(above) if !is_kept || text.trim().is_empty() => {
                    above.text = format!("{}\n{text}", above.text);
                    (above.span.end_line, above.span.end_column) = (end_line, end_column);
                }
                _ if is_kept => {}
                _ => unattached.push(Paragraph {
                    span: Span {
                        line,
                        column,
                        end_line,
                        end_column,
                    },
                    // Read again, an empty line at the start belongs to no paragraph.
                    text: text.trim_start_matches('\n').to_owned(),
                }),
            }
        }
        UnattachedComments(RefCell::new(unattached))
    }

    /// Takes the comments inside an element or after it on its last line. Inner elements take
    /// theirs first.
    pub(super) fn take(&self, span: Option<Span>) -> Vec<Paragraph> {
        let Some(span) = span else {
            return Vec::new();
        };
        let mut left = self.0.borrow_mut();
        let (inside, outside) = left.drain(..).partition(|paragraph| {
            let at = (paragraph.span.line, paragraph.span.column);
            at >= (span.line, span.column) && at.0 <= span.end_line
        });
        *left = outside;
        inside
    }

    /// Takes the remaining comments.
    pub(super) fn rest(&self) -> Vec<Paragraph> {
        self.0.take()
    }
}

/// Walk through a text that counts lines and columns.
#[derive(Debug, Default)]
struct TextPosition {
    offset: usize,
    line: u32,
    start: usize,
}

impl TextPosition {
    /// Returns line and column (in characters, from 1) of a byte offset. Offsets must not decrease.
    fn advance(&mut self, source: &str, offset: usize) -> (u32, u32) {
        let passed = source.get(self.offset..offset).unwrap_or_default();
        for (at, _) in passed.match_indices('\n') {
            self.line += 1;
            self.start = self.offset + at + 1;
        }
        self.offset = offset;
        let before = source.get(self.start..offset).unwrap_or_default();
        (self.line + 1, before.chars().count() as u32 + 1)
    }
}

/// Returns a comment without its markers.
fn inside(comment: &str) -> String {
    if let Some(line) = comment.strip_prefix("//") {
        return line.trim_end().to_owned();
    }
    let block = comment.strip_prefix("/*").unwrap_or(comment);
    let block = block.strip_suffix("*/").unwrap_or(block).trim_end();
    let mut lines = block.lines();
    let first = lines.next().unwrap_or_default().trim_end().to_owned();
    // Stars at the start of continuation lines are not text.
    lines.fold(first, |text, line| {
        let line = line.trim_start();
        let line = line.strip_prefix('*').unwrap_or(line).trim_end();
        let space = if line.is_empty() || line.starts_with(' ') {
            ""
        } else {
            " "
        };
        format!("{text}\n{space}{line}")
    })
}

/// Normalises a line for comparison: the parser and the text differ in the surrounding characters.
fn bare(line: &str) -> &str {
    line.trim().trim_start_matches('*').trim()
}

/// Returns the comments of all elements of a file.
fn all_docs<'t>(tree: &'t Tree, file: &'t File) -> Vec<&'t Docs> {
    let mut all = Vec::new();
    let statements = [&file.sources.syntax, &file.sources.package].into_iter();
    let imports = file.imports.iter().map(|import| &import.source);
    all.extend(
        statements
            .chain(imports)
            .filter_map(|source| source.docs.as_deref()),
    );
    all.extend(file.options.docs().map(|(_, docs)| docs));
    let mut add = |source: &'t Source, options: &'t Options| {
        all.extend(source.docs.as_deref());
        all.extend(options.docs().map(|(_, docs)| docs));
    };
    let mut lists: Vec<&'t [Docs]> = Vec::new();
    for message in tree.messages.iter().filter(|one| one.file == file.id) {
        add(&message.source, &message.options);
        for field in &message.fields {
            add(&field.source, &field.options);
        }
        for oneof in &message.oneofs {
            add(&oneof.source, &oneof.options);
        }
        lists.extend([&message.reserved.docs[..], &message.extensions_docs]);
    }
    for of in tree.enums.iter().filter(|one| one.file == file.id) {
        add(&of.source, &of.options);
        for value in &of.values {
            add(&value.source, &value.options);
        }
        lists.push(&of.reserved.docs);
    }
    for id in &file.services {
        let service = &tree[*id];
        add(&service.source, &service.options);
        for method in &service.methods {
            add(&method.source, &method.options);
        }
    }
    for extension in tree.extensions.iter().filter(|one| one.file == file.id) {
        add(&extension.field.source, &extension.field.options);
        lists.extend(extension.block_docs.as_ref().map(std::slice::from_ref));
    }
    all.extend(lists.into_iter().flatten());
    all
}
