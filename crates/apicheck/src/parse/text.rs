//! Parsing of one file: syntax only.

use std::collections::HashMap;
use std::ops::Range;

use miette::Diagnostic;

use super::draft::{Draft, Text};
use super::edition::{self, Converted};
use super::error::{Error, Reason};
use crate::finding::Location;
use crate::model::{Name, Span, Syntax};

impl Text {
    /// Parses the file. Imports and names are not resolved.
    ///
    /// # Errors
    /// Returns all syntax errors that the parser can distinguish.
    pub fn read(&self) -> Result<Draft, Vec<Error>> {
        read(self)
    }
}

/// Parses one file, and reports all its syntax errors.
fn read(text: &Text) -> Result<Draft, Vec<Error>> {
    let source = std::str::from_utf8(&text.bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&text.bytes[..error.valid_up_to()]);
        let end = valid.len();
        vec![FileErrors::of(text, &valid).at(end..end, Reason::NotUtf8)]
    })?;
    let converted = edition::convert(source);
    if let Some(Converted { errors, .. }) = &converted
        && !errors.is_empty()
    {
        let at = FileErrors::of(text, source);
        let errors = errors.iter();
        let errors = errors.map(|(place, why)| at.at(place.clone(), Reason::Syntax(why.clone())));
        return Err(errors.collect());
    }
    let spelled = converted.as_ref().map_or(source, |file| &file.text);
    let mut proto = protox_parse::parse(&text.path, spelled).map_err(|error| {
        let errors = FileErrors::of(text, source);
        let first = errors.converted(converted.as_ref(), &error);
        let related = error.related().into_iter().flatten();
        let related = related.map(|error| errors.converted(converted.as_ref(), error));
        std::iter::once(first).chain(related).collect::<Vec<_>>()
    })?;
    let syntax = match (&converted, proto.syntax()) {
        (Some(file), _) => {
            file.restore(source, &mut proto);
            Syntax::Edition(edition::KNOWN)
        }
        (None, "proto3") => Syntax::Proto3,
        (None, _) => Syntax::Proto2,
    };
    Ok(Draft {
        proto,
        root: Name::default(),
        syntax,
        options: HashMap::new(),
        display: text.display.clone(),
        target: text.target,
        text: Some(Name::from(source)),
    })
}

/// Error factory for one file. The errors share its text, because there may be many.
struct FileErrors {
    path: String,
    source: Name,
    /// Byte offset of each line.
    lines: Vec<usize>,
}

impl FileErrors {
    fn of(text: &Text, source: &str) -> Self {
        FileErrors {
            path: text.display.to_string(),
            source: source.into(),
            lines: edition::starts(source),
        }
    }

    /// Converts an error of the parser.
    fn converted(&self, converted: Option<&Converted>, error: &dyn Diagnostic) -> Error {
        let label = error.labels().and_then(|mut labels| labels.next());
        let original = |offset| converted.map_or(offset, |file| file.original(offset));
        let range =
            label.map(|label| original(label.offset())..original(label.offset() + label.len()));
        // An error without a label is about the end of the file.
        let end = self.source.len();
        self.at(range.unwrap_or(end..end), Reason::Syntax(error.to_string()))
    }

    fn at(&self, range: Range<usize>, reason: Reason) -> Error {
        let (line, column) = self.position(range.start);
        let (end_line, end_column) = self.position(range.end);
        Error {
            at: Location {
                path: self.path.clone(),
                span: Some(Span {
                    line,
                    column,
                    end_line,
                    end_column,
                }),
            },
            reason,
            other: None,
            text: Some(self.source.clone()),
        }
    }

    fn position(&self, offset: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line.saturating_sub(1)];
        let before = self.source.get(start..offset).unwrap_or_default();
        (line as u32, before.chars().count() as u32 + 1)
    }
}
