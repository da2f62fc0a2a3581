//! Notices: parts of a valid resource that its author should know of.

use crate::advice::Advice;
use crate::lifecycle::{Element, Mark, WorkInProgress};
use crate::path::FieldPath;

/// The use of a marked element, an accepted unknown field, or advice. A resource has one notice per element, however
/// often it uses it, and one per piece of advice.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    pub(super) about: About,
    /// Path of the first use.
    pub(super) path: FieldPath,
    pub(super) count: usize,
}

/// Subject of a notice.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum About {
    Deprecated {
        element: &'static Element,
        is_default: bool,
    },
    WorkInProgress(&'static WorkInProgress),
    UnknownField {
        field: String,
        message: &'static str,
        is_kept: bool,
    },
    Advice(Advice),
}

impl From<Mark<'static>> for About {
    fn from(mark: Mark<'static>) -> Self {
        let deprecated = |element, is_default| About::Deprecated {
            element,
            is_default,
        };
        match mark {
            Mark::Deprecated(element) => deprecated(element, false),
            Mark::DeprecatedDefault(element) => deprecated(element, true),
            Mark::WorkInProgress(mark) => About::WorkInProgress(mark),
        }
    }
}
