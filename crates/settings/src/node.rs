//! Documents as trees of nodes with positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::error::{self, SettingsError};
use crate::limits;
use crate::position::Position;

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) value: Value,
}

/// A value in YAML.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    /// A boolean or a number, and how it is written: where a text is expected, `1.10` is that text.
    Plain {
        value: Plain,
        text: String,
    },
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A value that is not in quotes and not a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

/// A key with its position, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) position: Position,
    pub(crate) key: String,
    pub(crate) value: Node,
}

/// Parses the one document of a text.
pub(crate) fn parse(text: &str) -> Result<Node, SettingsError> {
    let document: Spanned<Parsed> = serde_saphyr::from_str_with_options(text, limits::options())
        .map_err(|error| SettingsError::of_parser(&error))?;
    Ok(node(document, text))
}

/// A value of the parser, before the texts of plain values are added.
enum Parsed {
    Null,
    Plain(Plain),
    Text(String),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

fn node(parsed: Spanned<Parsed>, text: &str) -> Node {
    let value = match parsed.value {
        Parsed::Null => Value::Null,
        Parsed::Plain(value) => Value::Plain {
            value,
            text: written(parsed.defined, text).unwrap_or_else(|| value.to_string()),
        },
        Parsed::Text(text) => Value::Text(text),
        Parsed::List(items) => {
            Value::List(items.into_iter().map(|item| node(item, text)).collect())
        }
        Parsed::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Entry {
                position: position(key.referenced),
                key: key.value,
                value: node(value, text),
            });
            Value::Map(entries.collect())
        }
    };
    Node {
        position: position(parsed.referenced),
        value,
    }
}

fn position(at: serde_saphyr::Location) -> Position {
    error::position(at).unwrap_or(Position { line: 1, column: 1 })
}

/// Returns the part of the text at this location, if the parser knows its bytes.
fn written(at: serde_saphyr::Location, text: &str) -> Option<String> {
    let span = at.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    Some(text.get(start..end)?.trim().to_owned())
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Plain(Plain::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(Plain::Signed(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(Plain::Unsigned(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(Plain::Float(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Parsed, E> {
        Ok(Parsed::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Parsed::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            list.push(entry);
        }
        Ok(Parsed::Map(list))
    }
}
