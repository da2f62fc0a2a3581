//! Small YAML files of settings: who may be whom, whom a group is for, what a tree of protos is judged by.
//!
//! They are read into plain serde types, and whoever wrote one is told where the mistake is and what to do about it, in
//! words that do not presume the parser.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use crate::Position;

/// What is wrong with a file of settings. `Display` says what, not where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SettingsError {
    /// The place, where it is known.
    pub position: Option<Position>,
    /// What is wrong.
    pub reason: String,
}

/// Reads the one document of a file.
///
/// # Errors
/// It is no UTF-8, no YAML, empty, more than one document, or does not fit `T`.
///
/// ```
/// use oxds_types::settings;
///
/// #[derive(Debug, serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct File {
///     names: Vec<String>,
/// }
///
/// let mistake = settings::read::<File>(b"names: [a]\nnamez: [b]\n").unwrap_err();
/// assert_eq!(mistake.position.unwrap().to_string(), "2:1");
/// assert_eq!(mistake.to_string(), "unknown field `namez`, expected one of names");
/// ```
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, SettingsError> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        SettingsError {
            position: Some(crate::error::end_of(&before)),
            reason: "not UTF-8".to_owned(),
        }
    })?;
    serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        SettingsError {
            position: error.location().and_then(position),
            reason: reason(error),
        }
    })
}

fn position(at: serde_saphyr::Location) -> Option<Position> {
    Some(Position {
        line: u32::try_from(at.line()).ok()?,
        column: u32::try_from(at.column()).ok()?,
    })
}

fn reason(error: &Error) -> String {
    match error {
        Error::Eof { .. } => "the file is empty".to_owned(),
        Error::MultipleDocuments { .. } => {
            "unexpected second document: expected one document per file".to_owned()
        }
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("duplicate key `{key}`"),
            None => "duplicate key".to_owned(),
        },
        Error::InvalidScalar { ty: "boolean", .. } | Error::InvalidBooleanStrict { .. } => {
            "expected `true` or `false`".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "unknown anchor: an anchor must be defined before it is used".to_owned()
        }
        error => plain(&UserMessageFormatter.format_message(error)),
    }
}

/// Without the place, which is known already, and without the names of the parser's events.
fn plain(text: &str) -> String {
    let text = text
        .split_once(" at line ")
        .map_or(text, |(reason, _)| reason);
    let text = text.trim_start_matches("unexpected event: ");
    text.replace(
        "expected mapping start",
        "expected a mapping (`key: value`)",
    )
    .replace("expected sequence start", "expected a list (`- item`)")
    .replace("expected string scalar", "expected a text")
}

/// A value as people write it: a text, a number or a boolean, read as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

impl<'de> serde::Deserialize<'de> for Scalar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor).map(Self)
    }
}

struct Visitor;

impl serde::de::Visitor<'_> for Visitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a boolean")
    }

    fn visit_bool<E>(self, bool: bool) -> Result<String, E> {
        Ok(bool.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        names: Vec<String>,
        #[serde(default)]
        values: BTreeMap<String, Scalar>,
        #[serde(default)]
        yes: bool,
    }

    /// Given a file with a mistake; when it is read; then the place is said once, and what is wrong in the words of
    /// whoever wrote it.
    #[test]
    fn mistakes_are_told_with_their_place_and_without_the_parser() {
        for (text, place, said) in [
            ("", "1:1", "the file is empty"),
            ("# later\n", "2:1", "the file is empty"),
            ("names: 3", "1:8", "expected a list (`- item`)"),
            ("- names", "1:1", "expected a mapping (`key: value`)"),
            ("names: []\nnames: []", "2:1", "duplicate key `names`"),
            ("yes: true", "1:1", "missing field `names`"),
            ("names: []\nyes: maybe", "2:6", "expected `true` or `false`"),
            (
                "names: []\n---\nnames: []",
                "3:1",
                "unexpected second document: expected one document per file",
            ),
            (
                "names: *all",
                "1:8",
                "unknown anchor: an anchor must be defined before it is used",
            ),
            (
                "names:\n\t- a",
                "2:2",
                "tabs disallowed within this context (block indentation)",
            ),
            (
                "names: []\nvalues: {a: {b: c}}",
                "2:13",
                "invalid type: map, expected a text, a number or a boolean",
            ),
        ] {
            let mistake = read::<File>(text.as_bytes()).expect_err(text);
            let at = mistake.position.map(|at| at.to_string());
            assert_eq!(
                (at.as_deref(), &*mistake.reason),
                (Some(place), said),
                "{text}"
            );
        }
        let mistake = read::<File>(b"names:\n- a\n- \xff").unwrap_err();
        assert_eq!(mistake.position.unwrap().to_string(), "3:3");
        assert_eq!(mistake.reason, "not UTF-8");
    }

    #[test]
    fn scalars_are_texts_as_they_are_written() {
        let file: File =
            read(b"names: []\nvalues: {a: 3, b: true, c: gold, d: 1.5, e: -2, f: \"3\"}").unwrap();
        let values: Vec<&str> = file.values.values().map(|value| &*value.0).collect();
        assert_eq!(values, ["3", "true", "gold", "1.5", "-2", "3"]);
    }
}
