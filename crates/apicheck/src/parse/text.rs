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
        vec![Mistakes::of(text, &valid).at(end..end, Reason::NotUtf8)]
    })?;
    let respelled = edition::respell(source);
    if let Some(Respelled { mistakes, .. }) = &respelled
        && !mistakes.is_empty()
    {
        let at = Mistakes::of(text, source);
        let mistakes = mistakes.iter();
        let mistakes =
            mistakes.map(|(place, why)| at.at(place.clone(), Reason::Syntax(why.clone())));
        return Err(mistakes.collect());
    }
    let spelled = respelled.as_ref().map_or(source, |file| &file.text);
    let mut proto = protox_parse::parse(&text.path, spelled).map_err(|error| {
        let mistakes = Mistakes::of(text, source);
        let first = mistakes.told(respelled.as_ref(), &error);
        let related = error.related().into_iter().flatten();
        let related = related.map(|error| mistakes.told(respelled.as_ref(), error));
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
        root: Name::default(),
        syntax,
        options: HashMap::new(),
        display: text.display.clone(),
        target: text.target,
        text: Some(Name::from(source)),
    })
}

/// The mistakes of a file; they share its text, for there may be many.
struct Mistakes {
    path: String,
    source: Name,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Mistakes {
    fn of(text: &Text, source: &str) -> Self {
        Mistakes {
            path: text.display.to_string(),
            source: source.into(),
            lines: edition::starts(source),
        }
    }

    /// What the parser tells.
    fn told(&self, respelled: Option<&Respelled>, error: &dyn Diagnostic) -> Error {
        let label = error.labels().and_then(|mut labels| labels.next());
        let original = |offset| respelled.map_or(offset, |file| file.original(offset));
        let range =
            label.map(|label| original(label.offset())..original(label.offset() + label.len()));
        // Without a place it is about the end of the file.
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
