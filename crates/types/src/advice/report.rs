//! A piece of advice, and its place.

use crate::path::{FieldPath, Step};

/// One piece of advice. The caller knows the path to the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    /// Stable identifier, for machines.
    pub(crate) rule: &'static str,
    pub(crate) text: String,
}

/// Receives the path to a field, and the advice about it.
pub(super) type OnAdvice<'a> = dyn FnMut(&FieldPath, Advice) + 'a;

/// Reports advice about a field below `path`.
pub(super) fn report_at<const N: usize>(
    path: &mut FieldPath,
    steps: [Step; N],
    rule: &'static str,
    text: impl Into<String>,
    report: &mut OnAdvice<'_>,
) {
    steps.into_iter().for_each(|step| path.push(step));
    let text = text.into();
    report(path, Advice { rule, text });
    (0..N).for_each(|_| path.pop());
}
