//! A message as a tree of named values.

use std::fmt;

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

/// Text in place of a secret.
const NOT_SHOWN: &str = "(not shown)";
/// Key of the type of a message in an `Any`.
pub(super) const TYPE: &str = "@type";

/// A value in a message. It serializes as the JSON form of protobuf, with the field names of the proto files.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Null, a bool, a number or a text. 64-bit integers are texts, enums are names, durations are `1s`.
    Scalar(Value),
    /// Items of a repeated field.
    List(Vec<Content>),
    /// Set fields, in the order of their numbers. That of an `Any` begins with `@type`.
    Message(Vec<Entry>),
    /// Entries of a map, sorted by key.
    Map(Vec<Entry>),
    /// A value that is not shown.
    Hidden(Hidden),
}

/// A named value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the field, or key of the map.
    pub name: String,
    /// The value.
    pub value: Content,
}

/// A value that is not shown: only whether it equals another one is known.
#[derive(Clone, PartialEq)]
pub struct Hidden {
    text: &'static str,
    hash: u128,
}

impl Hidden {
    /// Hides a secret.
    pub(super) fn secret(value: &Value) -> Self {
        Self {
            text: NOT_SHOWN,
            hash: xxh3_128(value.to_string().as_bytes()),
        }
    }

    /// Hides bytes that the descriptors cannot read.
    pub(super) fn unreadable(bytes: &[u8]) -> Self {
        Self {
            text: "(unknown to this version of the API)",
            hash: xxh3_128(bytes),
        }
    }

    /// Returns the text in the place of the value.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl Entry {
    pub(super) fn new(name: impl Into<String>, value: Content) -> Self {
        let name = name.into();
        Self { name, value }
    }
}

impl Content {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Scalar(Value::String(text.into()))
    }

    /// Returns a field of a message, or an entry of a map.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Content> {
        let (Self::Message(entries) | Self::Map(entries)) = self else {
            return None;
        };
        let found = entries.iter().find(|entry| entry.name == name);
        found.map(|entry| &entry.value)
    }

    /// Returns the text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the type of a message in an `Any`.
    pub(super) fn type_url(&self) -> Option<&str> {
        self.get(TYPE)?.as_text()
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::Hidden(hidden) => serializer.serialize_str(hidden.text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items
                    .iter()
                    .try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Message(entries) | Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for Entry { name, value } in entries {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}
