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

/// A path such as `load_assignment.endpoints[0].metadata.filter_metadata["envoy.lb"]`. An `Any` adds no step: the
/// fields of the message in it follow at once.
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

    /// Returns the text of the path after its first `count` steps.
    pub(crate) fn after(&self, count: usize) -> String {
        let rest = self.0.get(count..).unwrap_or_default();
        Self(rest.to_vec()).to_string()
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

/// Parses the text of a path; `None` if it is malformed.
pub(crate) fn steps_of(mut path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix("[\"") {
            let end = rest.find("\"]")?;
            steps.push(Step::Key(rest[..end].to_owned()));
            path = &rest[end + 2..];
        } else if let Some(rest) = path.strip_prefix('[') {
            let (index, rest) = rest.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            path = rest;
        } else {
            let rest = path.strip_prefix('.').unwrap_or(path);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Named(rest[..end].to_owned()));
            path = &rest[end..];
        }
    }
    Some(steps)
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
