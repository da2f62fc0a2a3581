//! A text to a draft: syntax only.

use std::collections::HashMap;
use std::ops::Range;

use miette::Diagnostic;

use super::edition::{self, Respelled};
use super::error::{Error, Reason};
use super::{Draft, Text};
use crate::finding::Location;
use crate::model::{Name, Span, Syntax};

/// Reads one file.
pub(super) fn read(text: &Text) -> Result<Draft, Vec<Error>> {
    let source = std::str::from_utf8(&text.bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&text.bytes[..error.valid_up_to()]);
        let end = valid.len();
        vec![error_at(text, &valid, Some(end..end), Reason::NotUtf8)]
    })?;
    let respelled = edition::respell(source);
    if let Some(Respelled { mistakes, .. }) = &respelled
        && !mistakes.is_empty()
    {
        let mistakes = mistakes.iter().map(|(place, why)| {
            error_at(
                text,
                source,
                Some(place.clone()),
                Reason::Syntax(why.clone()),
            )
        });
        return Err(mistakes.collect());
    }
    let spelled = respelled.as_ref().map_or(source, |file| &file.text);
    let mut proto = protox_parse::parse(&text.path, spelled).map_err(|error| {
        let first = of_diagnostic(text, source, respelled.as_ref(), &error);
        let related = error.related().into_iter().flatten();
        let related = related.map(|error| of_diagnostic(text, source, respelled.as_ref(), error));
        std::iter::once(first).chain(related).collect::<Vec<_>>()
    })?;
    let syntax = match (&respelled, proto.syntax()) {
        (Some(file), _) => {
            file.restore(source, &mut proto);
            Syntax::Edition(edition::KNOWN)
        }
        (None, "proto3") => Syntax::Proto3,
        (None, _) => Syntax::Proto2,
    };
    Ok(Draft {
        proto,
        syntax,
        options: HashMap::new(),
        display: text.display.clone(),
        target: text.target,
        text: Some(Name::from(source)),
    })
}

fn of_diagnostic(
    text: &Text,
    source: &str,
    respelled: Option<&Respelled>,
    error: &dyn Diagnostic,
) -> Error {
    let label = error.labels().and_then(|mut labels| labels.next());
    let original = |offset| respelled.map_or(offset, |file| file.original(offset));
    let span = label.map(|label| original(label.offset())..original(label.offset() + label.len()));
    // Without a place it is about the end of the file.
    let span = span.unwrap_or(source.len()..source.len());
    error_at(text, source, Some(span), Reason::Syntax(error.to_string()))
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
