//! Small YAML files of settings: authorization rules, node groups, exceptions of the API checker.
//!
//! They are read into serde types. Errors have a position, and text that does not require knowledge of the parser.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use crate::Position;

/// An error in a file of settings. `Display` writes the reason without the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SettingsError {
    /// Position in the file, if known.
    pub position: Option<Position>,
    /// Reason, in the words of the YAML and serde data model.
    pub reason: String,
}

/// Reads the one document of a file.
///
/// # Errors
/// The text is not UTF-8, not YAML, empty, has more than one document, or does not have the form of `T`.
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
/// let error = settings::read::<File>(b"names: [a]\nnamez: [b]\n").unwrap_err();
/// assert_eq!(error.position.unwrap().to_string(), "2:1");
/// assert_eq!(error.to_string(), "unknown field `namez`, expected one of names");
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

/// Removes the position, which is returned separately, and the names of parser events.
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
    .replace("expected string scalar", "expected a string")
}

/// A string, a number or a boolean in YAML, as text.
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
        f.write_str("a string, a number or a boolean")
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

    /// Given a file with an error, when it is read, then the error has the position once, and no terms of the parser.
    #[test]
    fn errors_have_a_position_and_no_parser_terms() {
        for (text, position, reason) in [
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
                "invalid type: map, expected a string, a number or a boolean",
            ),
        ] {
            let error = read::<File>(text.as_bytes()).expect_err(text);
            let at = error.position.map(|at| at.to_string());
            assert_eq!(
                (at.as_deref(), &*error.reason),
                (Some(position), reason),
                "{text}"
            );
        }
        let error = read::<File>(b"names:\n- a\n- \xff").unwrap_err();
        assert_eq!(error.position.unwrap().to_string(), "3:3");
        assert_eq!(error.reason, "not UTF-8");
    }

    #[test]
    fn scalars_are_read_as_text() {
        let file: File =
            read(b"names: []\nvalues: {a: 3, b: true, c: gold, d: 1.5, e: -2, f: \"3\"}").unwrap();
        let values: Vec<&str> = file.values.values().map(|value| &*value.0).collect();
        assert_eq!(values, ["3", "true", "gold", "1.5", "-2", "3"]);
    }
}
