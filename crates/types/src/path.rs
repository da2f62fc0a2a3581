//! Paths to fields of messages. Walks maintain them; they are formatted only for findings.

use std::fmt;

use prost_reflect::MapKey;

/// One step into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into a field. Schemas are never freed, so the name is static.
    Field(&'static str),
    /// Into a field of a message whose schema is not kept.
    Named(String),
    /// Into a key of the text that is not a field, or a field number that is unknown.
    Unknown(String),
    /// Into an element of a list.
    Index(usize),
    /// Into a value of a map.
    Key(String),
}

/// A path such as `load_assignment.endpoints[0].metadata.filter_metadata["envoy.lb"]`. An `Any` adds no step: the fields of
/// the message in it follow at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldPath(Vec<Step>);

impl FieldPath {
    pub(crate) fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match step {
                Step::Field(name) => write!(f, "{dot}{name}")?,
                Step::Named(name) | Step::Unknown(name) => write!(f, "{dot}{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

/// Formats the key of a map entry for a path.
pub(crate) fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
