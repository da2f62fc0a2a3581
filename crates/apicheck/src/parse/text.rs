//! A text to a draft: syntax only.

use std::collections::HashMap;
use std::ops::Range;

use miette::Diagnostic;

use super::error::{Error, Reason};
use super::{Draft, Text};
use crate::finding::Location;
use crate::model::{Name, Span};

/// Reads one file.
pub(super) fn read(text: &Text) -> Result<Draft, Vec<Error>> {
    let source = std::str::from_utf8(&text.bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&text.bytes[..error.valid_up_to()]);
        let end = valid.len();
        vec![error_at(text, &valid, Some(end..end), Reason::NotUtf8)]
    })?;
    let proto = protox_parse::parse(&text.path, source).map_err(|error| {
        let first = of_diagnostic(text, source, &error);
        let related = error.related().into_iter().flatten();
        let related = related.map(|error| of_diagnostic(text, source, error));
        std::iter::once(first).chain(related).collect::<Vec<_>>()
    })?;
    Ok(Draft {
        proto,
        options: HashMap::new(),
        display: text.display.clone(),
        target: text.target,
        text: Some(Name::from(source)),
    })
}

fn of_diagnostic(text: &Text, source: &str, error: &dyn Diagnostic) -> Error {
    let label = error.labels().and_then(|mut labels| labels.next());
    let span = label.map(|label| label.offset()..label.offset() + label.len());
    let reason = Reason::Syntax(match is_edition(source) {
        true => "editions are not supported, only proto2 and proto3".to_owned(),
        false => error.to_string(),
    });
    // Without a place it is about the end of the file.
    let span = span.unwrap_or(source.len()..source.len());
    error_at(text, source, Some(span), reason)
}

/// Whether the first statement is `edition = …`, which the parser does not know.
fn is_edition(source: &str) -> bool {
    let statement = source
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with("//"));
    statement.is_some_and(|line| {
        line.strip_prefix("edition")
            .is_some_and(|rest| rest.trim_start().starts_with('='))
    })
}

fn error_at(text: &Text, source: &str, span: Option<Range<usize>>, reason: Reason) -> Error {
    Error {
        at: Location {
            path: text.display.to_string(),
            span: span.map(|span| span_of(source, span)),
        },
        reason,
        other: None,
        text: Some(Name::from(source)),
    }
}

/// Lines and columns of a range of bytes.
fn span_of(source: &str, range: Range<usize>) -> Span {
    let (line, column) = position(source, range.start);
    let (end_line, end_column) = position(source, range.end);
    Span {
        line,
        column,
        end_line,
        end_column,
    }
}

fn position(source: &str, offset: usize) -> (u32, u32) {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.matches('\n').count() as u32 + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() as u32 + 1)
}
