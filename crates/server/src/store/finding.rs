//! Findings: errors and warnings about the content of a store.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use oxds_types::text::Escaping;
use oxds_types::{Position, ResourceType};

/// An error or a warning about the content of a store, and its place.
///
/// `Display` writes one line that editors and `grep` understand: `file:line:column: severity: path: message`.
/// Characters that are not shown as themselves are escaped, because names come from outside.
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
    /// The deprecated or unfinished element, or the accepted unknown field, that the finding is about. A file has one
    /// log line per element, however often it uses it.
    pub element: Option<String>,
    /// The explanation, for people.
    pub message: String,
    /// The lines around the place, with a mark under the column.
    pub snippet: Option<String>,
}

impl Finding {
    /// The rule of a finding about a file that is not complete yet.
    pub(crate) const WAITING: &'static str = "waiting";

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

    /// Returns the text that decides whether the finding was logged before.
    pub(crate) fn log_key(&self) -> String {
        match self.element {
            // One log line per field and file (V-44), wherever the file uses it.
            Some(_) => format!(
                "{}: {}: {}",
                self.file.display(),
                self.severity,
                self.message
            ),
            None => self.to_string(),
        }
    }

    /// Creates an error about a file or key as a whole, with the identifier of the rule.
    pub(crate) fn for_file(file: &Path, rule: &'static str, message: &str) -> Self {
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
            element: None,
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

/// Numbers of findings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindingCounts {
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
}

impl FindingCounts {
    /// Counts findings.
    #[must_use]
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            match finding.severity {
                Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
            }
        }
        counts
    }

    /// Returns the number of findings of a severity.
    #[must_use]
    pub fn of_severity(self, severity: Severity) -> usize {
        match severity {
            Severity::Error => self.errors,
            Severity::Warning => self.warnings,
        }
    }

    /// Returns the number of all findings.
    #[must_use]
    pub fn total(self) -> usize {
        self.errors + self.warnings
    }
}

impl std::ops::AddAssign for FindingCounts {
    fn add_assign(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
    }
}

impl std::ops::SubAssign for FindingCounts {
    fn sub_assign(&mut self, other: Self) {
        self.errors -= other.errors;
        self.warnings -= other.warnings;
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaping::line(f);
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
