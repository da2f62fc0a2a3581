//! YAML: a file is a stream of documents.

use serde::de::DeserializeSeed;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::document::DocumentSeed;
use super::resource::Draft;
use super::tree::Context;
use crate::Position;
use crate::error::Reason;

/// YAML nests twice per message at most (a list of messages), and messages nest up to 100 deep.
const MAX_DEPTH: usize = 200;
/// What aliases may unfold to. Ten thousand uses of an anchored block of a hundred lines is far
/// beyond what people write; a bomb wants a billion.
const MAX_REPLAYED_EVENTS: usize = 1_000_000;

/// The documents of a stream: where each begins (line, from 0), and its text.
///
/// A line that begins with `---` or `...` ends a document wherever it stands: scalars of any
/// style may not contain one (YAML 1.2.2 §9.1.2).
pub(super) fn documents(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut line = 0;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let start = line;
        let mut end = 0;
        for (index, part) in rest.split_inclusive('\n').enumerate() {
            if index > 0 && is_marker(part, "---") {
                break;
            }
            end += part.len();
            line += 1;
            if is_marker(part, "...") {
                break;
            }
        }
        let (document, others) = rest.split_at(end);
        rest = others;
        Some((start, document))
    })
    .filter(|(_, document)| !is_blank(document))
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Comments, directives and markers only.
fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line
            .strip_prefix("---")
            .or(line.strip_prefix("..."))
            .unwrap_or(line);
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    })
}

/// Reads one document. Positions in errors count from its beginning.
pub(super) fn read(
    text: &str,
    context: Context<'_>,
) -> Result<Vec<Draft>, (Reason, Option<Position>)> {
    serde_saphyr::with_deserializer_from_str_with_options(
        text,
        options(text.len()),
        |deserializer| DocumentSeed(context).deserialize(deserializer),
    )
    .map_err(|error| (reason(&error), error.location().map(position)))
}

/// How a text of this size is read.
pub(super) fn options(bytes: usize) -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    // As in YAML 1.2: `NO` is a text, and may be the name of an enum value.
    options.strict_booleans = true;
    options.with_snippet = false;
    options.alias_limits.max_total_replayed_events = MAX_REPLAYED_EVENTS;
    options.budget = Some(budget(bytes));
    options
}

/// Limits that follow the size of the text, which is limited itself: what a text may contain
/// without aliases always passes.
fn budget(bytes: usize) -> serde_saphyr::Budget {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_events = 2 * bytes + MAX_REPLAYED_EVENTS;
    budget.max_nodes = budget.max_events;
    budget.max_depth = MAX_DEPTH;
    budget.max_total_scalar_bytes = 2 * bytes + (64 << 20);
    budget.max_total_comment_bytes = bytes;
    // One anchor for many uses is what anchors are for; what they unfold to is limited above.
    budget.enforce_alias_anchor_ratio = false;
    budget
}

fn reason(error: &Error) -> Reason {
    let text = UserMessageFormatter.format_message(error);
    // Inside an alias, the places where it was used follow; ours is known by position.
    let text = text
        .split_once(" at line ")
        .map_or(&*text, |(text, _)| text)
        .to_owned();
    match error {
        Error::Budget { .. } => Reason::TooLarge(text),
        // Aliases wrap the error, one wrapper around the other, as text.
        _ if text.contains("alias replay limit exceeded") => {
            let limit = format!("aliases unfold to more than {MAX_REPLAYED_EVENTS} nodes");
            Reason::TooLarge(limit)
        }
        Error::Message { .. } => Reason::Value(text),
        _ => Reason::Syntax(text),
    }
}

fn position(location: serde_saphyr::Location) -> Position {
    Position {
        line: location.line() as u32,
        column: location.column() as u32,
    }
}
