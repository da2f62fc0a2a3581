//! Findings about files: the reason, the field path and the position.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use oxds_settings::Position;

use crate::ResourceType;
use crate::clip::clip;
use crate::depth::TooDeep;
use crate::lifecycle::{DeprecatedUse, WorkInProgress};
use crate::rules::broken::BrokenRule;
use crate::text::Escaping;
use crate::version_map::Incompatibility;

/// One finding about a file. `Display` is one line that editors and `grep` understand:
/// `file:line:column: error: field.path: reason`.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// Path of the file, as the caller gave it. `None` for messages that a program made.
    pub file: Option<Arc<Path>>,
    /// Position in the file, if known.
    pub position: Option<Position>,
    /// Type of the resource, if its name is known.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource in [canonical form](crate::name::canonical), if known.
    pub resource: Option<String>,
    /// Path to the field (`load_assignment.endpoints[0].…`); empty for the document itself.
    pub path: String,
    /// Reason of the finding.
    pub reason: Reason,
    /// Number of places in the resource that have this finding. Only deprecated, unfinished and accepted unknown fields
    /// have one finding for many places.
    pub count: usize,
    /// Lines around the position, with a mark under the column.
    pub(crate) snippet: Option<Arc<str>>,
}

/// Reason of a finding, by the part of the file that the operator has to fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Syntax error of the format.
    #[error("{0}")]
    Syntax(String),
    /// The file exceeds a limit on size, depth or aliases.
    #[error("{0}")]
    TooLarge(String),
    /// A value does not have the type of its field.
    #[error("{0}")]
    Value(String),
    /// The message has no such field.
    #[error("unknown field `{field}` in {message}")]
    UnknownField {
        /// Name as in the file, or the field number in binary form.
        field: String,
        /// Full name of the message type.
        message: String,
    },
    /// A resource has no `@type`.
    #[error("missing `@type`")]
    NoType,
    /// The descriptors have no message of this type.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The resource has no name.
    #[error("missing name in {0}")]
    NoName(String),
    /// A value breaks a rule of the API (`validate.rules`).
    #[error("{rule} does not hold{}{value}", if value.is_empty() { "" } else { ", value is " })]
    Rule {
        /// The rule as in the API: `uint32.lte = 65535`.
        rule: String,
        /// The value, cut to 60 characters; empty if the field is not set.
        value: String,
    },
    /// The file is written in API v2, and v3 has no equivalent (S-64).
    #[error("exists in v2 only: {0}")]
    OnlyV2(Incompatibility),
    /// A field or an enum value is deprecated (V-44, V-45). This is a warning, unless it is disallowed.
    #[error("{0}")]
    Deprecated(Box<DeprecatedUse>),
    /// A field, a message or a file is marked `work_in_progress` (V-59). This is a warning.
    #[error("{0}: it may change without notice")]
    WorkInProgress(&'static WorkInProgress),
    /// The message has no such field, and the options accept it (V-58). This is a warning.
    #[error("unknown field `{field}` in {message}, {}", if *.is_kept { "passed on" } else { "ignored" })]
    AcceptedField {
        /// Name as in the file, or the field number in binary form.
        field: String,
        /// Full name of the message type.
        message: String,
        /// Whether the resource still has the field. Text has no field numbers, so nothing can be kept.
        is_kept: bool,
    },
    /// The resource is valid, but a part of it never takes effect, or clients reject it. This is a warning.
    #[error("{text}")]
    Advice {
        /// Stable identifier: `filter-chain`, `grpc-client`, `grpc-server`, `rbac` or `certificate-provider`.
        rule: &'static str,
        /// Explanation.
        text: String,
    },
}

impl From<BrokenRule> for Reason {
    fn from(broken: BrokenRule) -> Self {
        Reason::Rule {
            rule: broken.rule,
            value: broken.value,
        }
    }
}

impl Reason {
    /// Returns the reason for messages that nest too deep.
    pub(crate) fn too_deep() -> Reason {
        Reason::TooLarge(TooDeep::limit())
    }

    /// Cuts the parts of the reason that come from the file.
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
            Reason::AcceptedField {
                field,
                message,
                is_kept,
            } => Reason::AcceptedField {
                field: clip(field),
                message,
                is_kept,
            },
            Reason::Advice { rule, text } => Reason::Advice {
                rule,
                text: clip(text),
            },
            Reason::NoType | Reason::NoName(_) => self,
            Reason::Deprecated(_) | Reason::WorkInProgress(_) => self,
            // These are always short.
            Reason::Rule { .. } | Reason::OnlyV2(_) => self,
        }
    }
}

impl Error {
    /// Returns the lines around the position with a mark under the column; `None` if the position is not known.
    #[must_use]
    pub fn snippet(&self) -> Option<&str> {
        self.snippet.as_deref()
    }

    /// Returns whether the finding is a warning: the resource can be served.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        match &self.reason {
            Reason::Deprecated(used) => !used.decision.is_error(),
            Reason::WorkInProgress(_) | Reason::AcceptedField { .. } | Reason::Advice { .. } => {
                true
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        // Names of files and fields, and values, come from outside.
        let mut f = Escaping::line(f);
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
        write!(f, "{}", self.reason)
    }
}

impl std::error::Error for Error {}
