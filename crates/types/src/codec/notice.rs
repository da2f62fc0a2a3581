//! Notices: uses of fields that a resource may use, and that its author should know of.

use crate::lifecycle::{Element, Mark, WorkInProgress};
use crate::path::FieldPath;

/// The use of a marked element, or an accepted unknown field. A resource has one notice per element, however often it uses it.
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
