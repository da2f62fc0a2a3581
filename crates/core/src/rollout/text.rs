//! Texts from outside, cut to what is kept.

use std::sync::Arc;

/// Bytes of a text that are kept.
const MAX_TEXT: usize = 400;

/// Returns the beginning of a text from outside. One that is short enough is shared.
pub(super) fn clipped(text: &Arc<str>) -> Arc<str> {
    match text.len() {
        0..=MAX_TEXT => Arc::clone(text),
        _ => beginning(text).into(),
    }
}

/// Returns as much of a text as is kept.
pub(super) fn beginning(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", &text[..end])
}
