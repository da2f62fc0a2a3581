//! Texts of sources on their way to a terminal: no escape sequences, no marks that reorder the line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text with control characters and bidirectional marks escaped: `\u{1b}`. Names of files
/// and messages of proto files can contain them.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns a source text with a replacement character for each such character, so that columns stay
/// the same. Line ends and tabs are kept; a carriage return becomes a space.
pub(super) fn plain_source(text: &str) -> String {
    let shown = |c| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        _ if is_unsafe(c) => char::REPLACEMENT_CHARACTER,
        _ => c,
    };
    text.chars().map(shown).collect()
}

/// Returns whether a character can change how the rest of a terminal line is shown. Unicode Standard
/// Annex 9 lists the bidirectional marks.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::{plain, plain_source};

    #[test]
    fn escapes_and_bidi_marks_are_made_visible() {
        assert_eq!(plain("täst"), "täst");
        assert_eq!(
            plain("a\u{1b}[31m\nb\u{202e}"),
            "a\\u{1b}[31m\\u{a}b\\u{202e}"
        );
        assert_eq!(plain_source("a\u{1b}\t\u{9b}\n"), "a\u{fffd}\t\u{fffd}\n");
    }
}
