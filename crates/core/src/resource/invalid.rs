//! A rule that a resource breaks.

use std::fmt;
use std::sync::Arc;

use prost::DecodeError;

/// Why a resource is rejected: which field, which rule. The peer is to blame; it becomes the detail of a NACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The resource's name, when it could be read.
    pub name: Option<Arc<str>>,
    /// The field, as in `virtual_hosts[0].routes[2].match`; empty for the message as a whole.
    pub path: String,
    /// The rule, as a clause: "must not be empty".
    pub rule: String,
}

impl Invalid {
    /// A broken rule of the value in hand; the way to it is added by [`at`](Self::at) on the way up.
    #[must_use]
    pub fn new(rule: impl Into<String>) -> Self {
        Self {
            name: None,
            path: String::new(),
            rule: rule.into(),
        }
    }

    /// Says in which field the value stands.
    #[must_use]
    pub fn at(mut self, field: &str) -> Self {
        self.prepend(field);
        self
    }

    /// Says at which place of a repeated field the value stands.
    pub(crate) fn at_index(mut self, field: &str, index: usize) -> Self {
        self.prepend(&format!("{field}[{index}]"));
        self
    }

    /// Says whose rule it is.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    fn prepend(&mut self, step: &str) {
        self.path = match self.path.is_empty() {
            true => step.to_owned(),
            false => format!("{step}.{}", self.path),
        };
    }
}

/// prost names the field itself where it can.
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

/// Adds the way to a broken rule to a result.
pub(crate) trait Within<T> {
    /// In this field.
    fn within(self, field: &str) -> Result<T, Invalid>;
    /// At this place of this repeated field.
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
