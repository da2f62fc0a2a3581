//! Findings: errors and warnings about the content of a store.

use std::fmt;
use std::path::{Path, PathBuf};

use oxds_types::{Position, ResourceType};

/// An error or a warning about the content of a store, and its place.
///
/// `Display` writes one line that editors and `grep` understand: `file:line:column: severity: path: message`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// Whether the finding keeps a document from being served.
    pub severity: Severity,
    /// The file or key, as the operator knows it.
    pub file: PathBuf,
    /// Line and column in the file, if known.
    pub position: Option<Position>,
    /// The type of the resource concerned, if its name is known.
    pub resource_type: Option<ResourceType>,
    /// The name of the resource concerned, if known.
    pub resource: Option<String>,
    /// The path to the field concerned; empty if the finding is not about one field.
    pub path: String,
    /// A stable identifier of the rule, for machines: `rule`, `unknown-field`, `duplicate`, …
    pub rule: &'static str,
    /// The explanation, for people.
    pub message: String,
    /// The lines around the place, with a mark under the column.
    pub snippet: Option<String>,
}

impl Finding {
    /// Creates a finding that keeps this file or key from being served.
    #[must_use]
    pub fn error(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, file.into(), message.into())
    }

    /// Creates a finding that does not keep the file or key from being served.
    #[must_use]
    pub fn warning(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, file.into(), message.into())
    }

    /// Creates an error about a file or key as a whole, with the identifier of the rule.
    pub(super) fn of_rule(file: &Path, rule: &'static str, message: &str) -> Self {
        Self {
            rule,
            ..Self::error(file, message)
        }
    }

    fn new(severity: Severity, file: PathBuf, message: String) -> Self {
        Self {
            severity,
            file,
            position: None,
            resource_type: None,
            resource: None,
            path: String::new(),
            rule: "store",
            message,
            snippet: None,
        }
    }
}

/// The severity of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The document is served. A later release may refuse it.
    Warning,
    /// The document is not served: its last valid content stays served.
    Error,
}

impl Severity {
    /// Returns `warning` or `error`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(position) = self.position {
            write!(f, "{position}:")?;
        }
        write!(f, " {}: ", self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}
