//! JSON: one document.

use serde::de::DeserializeSeed;
use serde_json::error::Category;

use super::document::DocumentSeed;
use super::resource::Draft;
use super::tree::Context;
use crate::Position;
use crate::error::Reason;

/// Reads a document.
pub(super) fn read(
    text: &str,
    context: Context<'_>,
) -> Result<Vec<Draft>, (Reason, Option<Position>)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    DocumentSeed(context)
        .deserialize(&mut deserializer)
        .and_then(|drafts| deserializer.end().map(|()| drafts))
        .map_err(|error| (reason(&error), position(&error)))
}

fn reason(error: &serde_json::Error) -> Reason {
    // The place, which Display appends, is told apart.
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text)
        .to_owned();
    match error.classify() {
        Category::Data => Reason::Value(text),
        _ if text.contains("recursion limit") => Reason::TooLarge(text),
        _ => Reason::Syntax(text),
    }
}

fn position(error: &serde_json::Error) -> Option<Position> {
    let line = u32::try_from(error.line()).ok().filter(|line| *line > 0)?;
    Some(Position {
        line,
        column: error.column().max(1) as u32,
    })
}
