//! Results of a translation: fields that the other major lacks, and errors of the descriptors.

use std::fmt;

use thiserror::Error;

use super::major::Major;

/// A construct that one major has and the other lacks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The message has no field of this name, nor one with an annotation that it replaced the field.
    #[error("{message} has no such field")]
    NoField {
        /// Full name of the message in the version that lacks the field.
        message: String,
    },
    /// The field has another type, which has no equal values.
    #[error("{message} has another type for {field}: {to}, expected {from}")]
    OtherType {
        /// Full name of the message in the version with the other type.
        message: String,
        /// Name of the field in that message.
        field: String,
        /// Type of the field in the translated message.
        from: String,
        /// Type of the field in the other version.
        to: String,
    },
    /// The field is a list with more than one item, and is not a list in the other version.
    #[error("more than one value: the field is not a list in {message}")]
    NotAList {
        /// Full name of the message in the version in which the field is not a list.
        message: String,
    },
    /// Two fields are set that the other version has in one oneof.
    #[error("{other} is set too: {message} has both fields in oneof {oneof}")]
    OneOf {
        /// Full name of the message in the version with the oneof.
        message: String,
        /// Name of the oneof.
        oneof: String,
        /// Name of the field that is kept.
        other: String,
    },
    /// The deprecated field is set, and so is its replacement.
    #[error("{other} is set too, which replaces it in {message}")]
    Replaced {
        /// Full name of the message in the version that has the replacement only.
        message: String,
        /// Name of the replacement, which is kept.
        other: String,
    },
    /// The value is out of range for the type that the field has in the other version.
    #[error("value {value} is out of range for {to} in {message}")]
    OutOfRange {
        /// Full name of the message in the version with the smaller range.
        message: String,
        /// The value.
        value: String,
        /// Type of the field in that version.
        to: String,
    },
    /// The enum has no value with this number.
    #[error("{enumeration} has no value {number}")]
    NoEnumValue {
        /// Full name of the enum in the version that lacks the value.
        enumeration: String,
        /// Number of the value in the translated message.
        number: i32,
    },
    /// The message has no counterpart in the other version.
    #[error("{message} does not exist in {to}")]
    NoMessage {
        /// Full name of the message in the version that has it.
        message: String,
        /// The version that lacks the message.
        to: Major,
    },
    /// The bytes do not decode as the message.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// A field that the translated message lacks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{cause}", path, if path.is_empty() { "" } else { ": " })]
#[non_exhaustive]
pub struct Dropped {
    /// Path to the field in the message before the translation; empty for the message itself. An `Any` adds no step.
    pub path: String,
    /// The construct that the other major lacks.
    pub cause: Incompatibility,
}

/// A translated message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Translation {
    /// Full name of the message in the other major.
    pub message: String,
    /// The encoded message.
    pub value: Vec<u8>,
    /// Dropped fields, in the order of the encoding.
    pub dropped: Vec<Dropped>,
}

/// An error of the descriptors: majors that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{file}: {element}: {cause}")]
#[non_exhaustive]
pub struct TreeError {
    /// Import path of the file that declares the element.
    pub file: String,
    /// Full name of the message, field, enum or enum value.
    pub element: String,
    /// The error.
    pub cause: TreeErrorCause,
}

/// The reason for which majors do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum TreeErrorCause {
    /// Two messages of one major replaced the same message.
    #[error("replaces {previous}, as {other} does: expected one successor in {major}")]
    TwoSuccessors {
        /// Full name of the message that both replaced.
        previous: String,
        /// Full name of the other successor.
        other: String,
        /// Major of both, as text.
        major: String,
    },
    /// The message replaced one that is not older, which a cycle of annotations also does.
    #[error("replaces {previous}, which is not older: expected a message of an earlier major")]
    NotOlder {
        /// Full name in the annotation.
        previous: String,
    },
    /// Two fields of a message became the same field.
    #[error("becomes {field} of {message}, as {other} does: expected one field")]
    MovedTwice {
        /// Full name of the message in the next major.
        message: String,
        /// Name of the field in the next major.
        field: String,
        /// Name of the other field in this major.
        other: String,
    },
    /// The annotation of a field or value names one that the next major lacks.
    #[error("is renamed to {target}: {parent} has neither that name nor the old one")]
    NoRenameTarget {
        /// Name in the annotation.
        target: String,
        /// Full name of the message or enum in the next major.
        parent: String,
    },
    /// The number of the default value of an enum means another value in the next major, so unset fields change their
    /// meaning.
    #[error(
        "is the default value {number} and is gone: {enumeration} has {value} there, expected an annotation that \
         renames it, or a value {UNAVAILABLE}"
    )]
    DefaultReplaced {
        /// Number of the default value.
        number: i32,
        /// Full name of the enum in the next major.
        enumeration: String,
        /// Name of the default value in the next major.
        value: String,
    },
}

/// Name of the value that holds the place of a removed default value.
pub(super) const UNAVAILABLE: &str = "DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE";

/// Path to a field, as a list that lives on the stack: it is formatted only for reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trail<'a> {
    outer: Option<&'a Trail<'a>>,
    step: TrailStep<'a>,
}

/// One step into a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TrailStep<'a> {
    /// The message that is translated.
    Root,
    /// Into a field.
    Field(&'a str),
    /// Into a field whose number is unknown.
    Unknown(u32),
    /// Into an element of a list.
    Index(usize),
    /// Into a value of a map.
    Key(&'a str),
}

impl<'a> Trail<'a> {
    /// Path to the message itself.
    pub(crate) const ROOT: Trail<'static> = Trail {
        outer: None,
        step: TrailStep::Root,
    };

    pub(super) fn then<'b>(&'b self, step: TrailStep<'b>) -> Trail<'b>
    where
        'a: 'b,
    {
        Trail {
            outer: Some(self),
            step,
        }
    }

    /// Calls `each` with all steps but the root, from the outermost.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(TrailStep<'_>)) {
        if let Some(outer) = self.outer {
            outer.for_each(each);
        }
        if !matches!(self.step, TrailStep::Root) {
            each(self.step);
        }
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut done = Ok(());
        self.for_each(&mut |step| {
            let dot = if std::mem::take(&mut first) { "" } else { "." };
            let written = match step {
                TrailStep::Root => Ok(()),
                TrailStep::Field(name) => write!(f, "{dot}{name}"),
                TrailStep::Unknown(number) => write!(f, "{dot}{number}"),
                TrailStep::Index(index) => write!(f, "[{index}]"),
                TrailStep::Key(key) => write!(f, "[{key:?}]"),
            };
            done = done.and(written);
        });
        done
    }
}
