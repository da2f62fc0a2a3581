//! Errors of proto files.

use std::fmt;

use super::draft::Draft;
use crate::finding::Location;
use crate::model::{Name, Span};

/// Error in a file, which a compiler would also report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: error: {reason}")]
#[non_exhaustive]
pub struct Error {
    /// Location of the error.
    pub at: Location,
    /// Description of the error.
    pub reason: Reason,
    /// Related location, for example the first declaration of a duplicate name.
    pub other: Option<Location>,
    /// Text of the file, for a snippet.
    pub text: Option<Name>,
}

/// Reason of an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The file is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The syntax is invalid.
    #[error("{0}")]
    Syntax(String),
    /// Two files have the same path.
    #[error("duplicate file {0:?}")]
    DuplicateFile(String),
    /// An imported file does not exist.
    #[error("import {0:?} not found")]
    MissingImport(String),
    /// A file has the same import twice.
    #[error("duplicate import {0:?}")]
    DuplicateImport(String),
    /// Files import each other in a cycle.
    #[error("import cycle: {}", .0.join(" -> "))]
    ImportCycle(Vec<String>),
    /// Two declarations have the same full name.
    #[error("{0} is declared twice")]
    Duplicate(String),
    /// No visible declaration has the name.
    #[error("{0}")]
    Undefined(Undefined),
    /// The name has another sort of declaration.
    #[error("{name} is not {wanted}")]
    WrongSort {
        /// Name as written in the file.
        name: String,
        /// Expected sort: `a message`.
        wanted: &'static str,
    },
    /// The option does not exist or has an invalid value.
    #[error("option {name}: {why}")]
    Option {
        /// Name as written: `(validate.rules).string.min_len`.
        name: String,
        /// Description of the error, with the expected value.
        why: String,
    },
    /// A number or name violates the rules of its message or enum.
    #[error("{0}")]
    Rule(String),
}

/// Name that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undefined {
    /// Name as written in the file.
    pub name: String,
    /// Full name according to its first part, which hides other meanings: `a.b.c.D`.
    pub taken_for: Option<String>,
    /// File that declares the name but is not imported.
    pub import: Option<String>,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not defined", self.name)?;
        if let Some(taken_for) = &self.taken_for {
            write!(f, ": its first part resolves to {taken_for}")?;
        }
        if let Some(import) = &self.import {
            write!(f, "; {import:?} declares it but is not imported")?;
        }
        Ok(())
    }
}

impl Error {
    /// Returns whether the error may be caused by an imported file with errors.
    pub(super) fn may_be_consequence(&self) -> bool {
        matches!(self.reason, Reason::Undefined(_) | Reason::Option { .. })
    }

    /// Creates an error at a span of a file.
    pub(super) fn new(file: &Draft, span: Option<Span>, reason: Reason) -> Error {
        Error {
            at: Location {
                path: file.display.to_string(),
                span,
            },
            reason,
            other: None,
            text: file.text.clone(),
        }
    }

    pub(super) fn with_other(mut self, other: Location) -> Error {
        self.other = Some(other);
        self
    }
}
