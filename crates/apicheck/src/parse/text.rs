//! Parsing of one file: syntax only.

use std::collections::HashMap;
use std::ops::Range;

use miette::Diagnostic;

use super::convert::{self, Converted};
use super::draft::{Draft, Text};
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

/// Byte order mark, which compilers skip.
const BOM: char = '\u{feff}';

/// Parses one file, and reports all its syntax errors.
fn read(text: &Text) -> Result<Draft, Vec<Error>> {
    let source = std::str::from_utf8(&text.bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&text.bytes[..error.valid_up_to()]);
        let end = valid.len();
        vec![FileErrors::of(text, &valid).at(end..end, Reason::NotUtf8)]
    })?;
    let source = source.strip_prefix(BOM).unwrap_or(source);
    let converted = convert::convert(source);
    if let Some((place, why)) = &converted.fatal {
        let at = FileErrors::of(text, source);
        return Err(vec![at.at(place.clone(), Reason::Syntax(why.clone()))]);
    }
    let parsed = protox_parse::parse(&text.path, converted.text(source));
    if parsed.is_err() || !converted.errors.is_empty() {
        let at = FileErrors::of(text, source);
        let own = converted.errors.iter();
        let own = own.map(|(place, why)| at.at(place.clone(), Reason::Syntax(why.clone())));
        let mut errors: Vec<Error> = own.collect();
        if let Err(error) = &parsed {
            errors.push(at.converted(&converted, error));
            let related = error.related().into_iter().flatten();
            errors.extend(related.map(|error| at.converted(&converted, error)));
        }
        return Err(errors);
    }
    // Errors were returned above.
    let mut proto = parsed.unwrap_or_default();
    converted.restore(source, &mut proto);
    let syntax = match proto.syntax() {
        _ if converted.edition => Syntax::Edition(convert::KNOWN),
        "proto3" => Syntax::Proto3,
        _ => Syntax::Proto2,
    };
    Ok(Draft {
        proto,
        root: Name::default(),
        syntax,
        options: HashMap::new(),
        display: text.display.clone(),
        target: text.target,
        text: Some(Name::from(source)),
        is_built_in: false,
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
            lines: convert::starts(source),
        }
    }

    /// Converts an error of the parser.
    fn converted(&self, converted: &Converted, error: &dyn Diagnostic) -> Error {
        // Of two labels, the second one is the repetition.
        let label = error.labels().and_then(Iterator::last);
        let original = |offset| converted.original(offset);
        let range =
            label.map(|label| original(label.offset())..original(label.offset() + label.len()));
        // An error without a label is about the end of the file.
        let end = self.source.len();
        let range = range.unwrap_or(end..end);
        // The parser has one text for invalid imports and invalid group names; its help differs.
        let help = error.help().map(|help| help.to_string());
        let reason = if help.is_some_and(|help| help.starts_with("imports ")) {
            Reason::Syntax(invalid_import(
                self.source.get(range.clone()).unwrap_or_default(),
            ))
        } else {
            Reason::Syntax(error.to_string())
        };
        self.at(range, reason)
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

/// Describes the error of an import path, which is written as the string literal `written`.
fn invalid_import(written: &str) -> String {
    let path = written.trim_matches(['"', '\'']);
    let expected = "expected the path of a file relative to an import root";
    match path {
        "" => format!("empty import: {expected}"),
        _ if path.starts_with('/') => format!("absolute import {path:?}: {expected}"),
        _ => {
            format!("invalid import {path:?}: {expected}, without \".\", \"..\", \"//\" and \"\\\"")
        }
    }
}
