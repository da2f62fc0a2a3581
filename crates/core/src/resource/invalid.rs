//! Validation error of a resource.

use std::fmt;
use std::sync::Arc;

use prost::DecodeError;

/// Validation error: the field and the rule that it breaks. It becomes the detail of a NACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Name of the resource, if it could be read.
    pub name: Option<Arc<str>>,
    /// Path of the field, such as `virtual_hosts[0].routes[2].match`; empty for the whole message.
    pub path: String,
    /// Rule, as a clause: "must not be empty".
    pub rule: String,
}

impl Invalid {
    /// Makes an error of the current value. Callers add the path to it with [`at`](Self::at).
    #[must_use]
    pub fn new(rule: impl Into<String>) -> Self {
        Self {
            name: None,
            path: String::new(),
            rule: rule.into(),
        }
    }

    /// Prepends a field to the path.
    #[must_use]
    pub fn at(mut self, field: &str) -> Self {
        self.prepend(field);
        self
    }

    /// Prepends an element of a repeated field to the path.
    pub(crate) fn at_index(mut self, field: &str, index: usize) -> Self {
        self.prepend(&format!("{field}[{index}]"));
        self
    }

    /// Sets the name of the resource.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    fn prepend(&mut self, step: &str) {
        self.path = if self.path.is_empty() {
            step.to_owned()
        } else {
            format!("{step}.{}", self.path)
        };
    }
}

/// The text of prost has the field, if it is known.
impl From<DecodeError> for Invalid {
    fn from(error: DecodeError) -> Self {
        Self::new(format!("cannot be decoded: {error}"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.rule)
    }
}

impl std::error::Error for Invalid {}

/// Adds a path to the error of a result.
pub(crate) trait Within<T> {
    /// Prepends a field.
    fn within(self, field: &str) -> Result<T, Invalid>;
    /// Prepends an element of a repeated field.
    fn within_index(self, field: &str, index: usize) -> Result<T, Invalid>;
}

impl<T> Within<T> for Result<T, Invalid> {
    fn within(self, field: &str) -> Result<T, Invalid> {
        self.map_err(|invalid| invalid.at(field))
    }

    fn within_index(self, field: &str, index: usize) -> Result<T, Invalid> {
        self.map_err(|invalid| invalid.at_index(field, index))
    }
}
