//! What is wrong with a file, and where.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::ResourceType;
use crate::validate::Broken;
use crate::version_map::Incompatibility;

/// A place in a text: both count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where a text ends.
pub(crate) fn end_of(text: &str) -> Position {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Position {
        line: text.matches('\n').count() as u32 + 1,
        column: last.chars().count() as u32 + 1,
    }
}

/// One finding about a file. `Display` is one line that editors and `grep` understand:
/// `file:line:column: error: field.path: reason`.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: Option<Arc<Path>>,
    /// The place, where it is known.
    pub position: Option<Position>,
    /// ResourceType of the resource, where its name is known.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource, where it is known.
    pub resource: Option<String>,
    /// Path to the field (`load_assignment.endpoints[0].…`); empty for the document itself.
    pub path: String,
    /// What is wrong.
    pub reason: Reason,
    /// The lines around the place, with a mark under it.
    pub(crate) snippet: Option<Arc<str>>,
}

/// What is wrong, sorted by what the operator has to mend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The text is not what its format allows.
    #[error("{0}")]
    Syntax(String),
    /// The file is larger, deeper or more entangled than the limits allow.
    #[error("{0}")]
    TooLarge(String),
    /// A value does not fit its field.
    #[error("{0}")]
    Value(String),
    /// The message has no such field.
    #[error("unknown field `{field}` in {message}")]
    UnknownField {
        /// As written (or its number, in binary form).
        field: String,
        /// Full name of the message.
        message: String,
    },
    /// `@type` is missing where it is needed.
    #[error("no `@type`")]
    NoType,
    /// The descriptors know no such message.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The resource has no name.
    #[error("{0} without a name")]
    NoName(String),
    /// A rule of the API (`validate.rules`) does not hold.
    #[error("{rule} does not hold{}{value}", if value.is_empty() { "" } else { ", value is " })]
    Rule {
        /// The rule, as the API writes it: `uint32.lte = 65535`.
        rule: String,
        /// The value, shortened.
        value: String,
    },
    /// Written in v2, and there is no way to say it in v3.
    #[error("exists in v2 only: {0}")]
    OnlyV2(Incompatibility),
    /// The field is deprecated (a warning).
    #[error("deprecated field")]
    Deprecated,
}

impl From<Broken> for Reason {
    fn from(broken: Broken) -> Self {
        Reason::Rule {
            rule: broken.rule,
            value: broken.value,
        }
    }
}

impl Reason {
    /// The same without what would fill the log: a file may hold a name of a megabyte.
    pub(crate) fn clipped(self) -> Reason {
        match self {
            Reason::Syntax(text) => Reason::Syntax(clip(text)),
            Reason::TooLarge(text) => Reason::TooLarge(clip(text)),
            Reason::Value(text) => Reason::Value(clip(text)),
            Reason::UnknownField { field, message } => Reason::UnknownField {
                field: clip(field),
                message,
            },
            Reason::UnknownType(url) => Reason::UnknownType(clip(url)),
            Reason::NoType | Reason::NoName(_) | Reason::Deprecated => self,
            // These are short already.
            Reason::Rule { .. } | Reason::OnlyV2(_) => self,
        }
    }
}

/// Cuts a text that is longer than what anybody reads.
pub(crate) fn clip(mut text: String) -> String {
    const LIMIT: usize = 400;
    if let Some((end, _)) = text.char_indices().nth(LIMIT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Error {
    /// The lines around the place with a mark under it, where the place is known.
    #[must_use]
    pub fn snippet(&self) -> Option<&str> {
        self.snippet.as_deref()
    }

    /// Whether it is only worth a warning.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self.reason, Reason::Deprecated)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(position) = self.position {
                write!(f, "{position}:")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(if self.is_warning() {
            "warning: "
        } else {
            "error: "
        })?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.reason.fmt(f)
    }
}

impl std::error::Error for Error {}
