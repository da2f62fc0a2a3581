//! Why files do not make a tree.

use std::fmt;

use crate::finding::Location;
use crate::model::{Name, Span};

/// A mistake in a file, for which a compiler would refuse it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: error: {reason}")]
pub struct Error {
    /// Where it is.
    pub at: Location,
    /// What it is.
    pub reason: Reason,
    /// Another place that has to do with it: the first declaration of a name declared twice.
    pub other: Option<Location>,
    /// The text of the file, for a snippet.
    pub text: Option<Name>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The file is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The grammar of the language is broken.
    #[error("{0}")]
    Syntax(String),
    /// The same path comes twice.
    #[error("the file {0:?} comes twice")]
    DuplicateFile(String),
    /// An imported file is not there.
    #[error("import {0:?} is not found")]
    MissingImport(String),
    /// A file is imported twice.
    #[error("import {0:?} stands twice")]
    DuplicateImport(String),
    /// Files import each other in a circle.
    #[error("files import each other: {}", .0.join(" -> "))]
    ImportCycle(Vec<String>),
    /// Two declarations have the same full name.
    #[error("{0} is declared twice")]
    Duplicate(String),
    /// No visible declaration has that name.
    #[error("{0}")]
    Undefined(Undefined),
    /// The name is of something else.
    #[error("{name} is not {wanted}")]
    WrongSort {
        /// The name as written.
        name: String,
        /// What it should be: `a message`.
        wanted: &'static str,
    },
    /// An option that does not exist, or has a wrong value.
    #[error("option {name}: {why}")]
    Option {
        /// As written: `(validate.rules).string.min_len`.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A number or name is used against the rules of its message or enum.
    #[error("{0}")]
    Rule(String),
}

/// A name that means nothing where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// As written.
    pub name: String,
    /// What its first part was taken for, which hides other meanings: `a.b.c.D`.
    pub taken_for: Option<String>,
    /// A file that declares the name and is not imported.
    pub import: Option<String>,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not defined", self.name)?;
        if let Some(taken_for) = &self.taken_for {
            write!(f, ": it is taken for {taken_for}, by its first part")?;
        }
        if let Some(import) = &self.import {
            write!(f, "; {import:?} declares it and is not imported")?;
        }
        Ok(())
    }
}

impl Error {
    /// Whether it may be the consequence of an imported file that could not be read.
    pub(super) fn may_follow(&self) -> bool {
        matches!(self.reason, Reason::Undefined(_) | Reason::Option { .. })
    }

    /// The mistake at a place of a file.
    pub(super) fn new(file: &super::Draft, span: Option<Span>, reason: Reason) -> Error {
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
