//! Errors of files of settings.

use std::path::Path;

use serde::de::{Expected, Unexpected};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use crate::limits::{MAX_DEPTH, MAX_VALUES};
use crate::position::Position;

/// An error in a file of settings. `Display` writes the reason without the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SettingsError {
    /// Position in the file, if known.
    pub position: Option<Position>,
    /// Reason, in the words of YAML.
    pub reason: String,
}

impl SettingsError {
    /// Returns the place of the error: the file, with line and column if they are known.
    #[must_use]
    pub fn place(&self, file: &Path) -> String {
        let file = file.display();
        match self.position {
            Some(position) => format!("{file}:{position}"),
            None => file.to_string(),
        }
    }

    /// Adds the position, unless a value within has given one.
    pub(crate) fn at(mut self, position: Position) -> Self {
        self.position.get_or_insert(position);
        self
    }

    /// Converts an error of the parser.
    pub(crate) fn of_parser(error: &Error) -> Self {
        Self {
            position: error.location().and_then(position),
            reason: reason(error),
        }
    }
}

impl serde::de::Error for SettingsError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        Self {
            position: None,
            reason: reason.to_string(),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = words(expected);
        Self::custom(match found {
            Unexpected::Unit => format!("null: expected {expected}"),
            Unexpected::Seq => format!("a list: expected {expected}"),
            Unexpected::Map => format!("a mapping: expected {expected}"),
            _ => format!("{found}: expected {expected}"),
        })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("{found}: expected {}", words(expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(match expected {
            [] => format!("unknown field `{field}`, expected no fields"),
            _ => format!(
                "unknown field `{field}`, expected one of {}",
                expected.join(", ")
            ),
        })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!(
            "`{variant}`: expected one of {}",
            expected.join(", ")
        ))
    }
}

/// Returns the expectation without the names of Rust's types.
fn words(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number from 0".to_owned(),
        _ => expected,
    }
}

pub(crate) fn position(at: serde_saphyr::Location) -> Option<Position> {
    Some(Position {
        line: u32::try_from(at.line()).ok()?,
        column: u32::try_from(at.column()).ok()?,
    })
}

fn reason(error: &Error) -> String {
    match error {
        Error::MultipleDocuments { .. } => {
            "unexpected second document: expected one document per file".to_owned()
        }
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("duplicate key `{key}`"),
            None => "duplicate key".to_owned(),
        },
        Error::UnknownAnchor { .. } => {
            "unknown anchor: an anchor must be defined before it is used".to_owned()
        }
        Error::Budget { breach, .. } => limit(breach),
        error => plain(&UserMessageFormatter.format_message(error)),
    }
}

fn limit(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Nodes { .. } => format!("more than {MAX_VALUES} values: expected fewer"),
        BudgetBreach::Depth { .. } => {
            format!("more than {MAX_DEPTH} lists and mappings in each other: expected fewer")
        }
        _ => "too large or too complex: expected a smaller file".to_owned(),
    }
}

/// Removes the position, which is returned separately, and the names of parser events.
fn plain(text: &str) -> String {
    let text = text
        .split_once(" at line ")
        .map_or(text, |(reason, _)| reason);
    let text = text.trim_start_matches("unexpected event: ");
    text.replace("expected string scalar", "expected a string")
}
