//! Text from outside in errors, logs and terminals: cut to a length that logs can hold, and without characters that
//! change what a reader sees.
//!
//! Names of files, fields and nodes come from outside. Printed as they are, a line break forges a line of its own, an
//! escape sequence drives the terminal, and a bidirectional mark reverses the text around it (CVE-2021-42574). GitHub's
//! runner takes `::error::` at the beginning of a line, and `##[error]` anywhere, for commands. All of them are written
//! as `\n`, `\u{1b}` and so on here, and nowhere else.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Writes text to `W`, with every character escaped that does not stand for itself.
#[derive(Debug)]
pub struct Escaping<W> {
    out: W,
    /// Whether only white space was written since the beginning of the line.
    at_start: bool,
    /// The number of `#` directly before.
    hashes: u8,
}

impl<W: Write> Escaping<W> {
    /// Writes at the beginning of a line.
    pub fn line(out: W) -> Self {
        Self {
            out,
            at_start: true,
            hashes: 0,
        }
    }

    /// Writes within a line.
    pub fn inline(out: W) -> Self {
        Self {
            at_start: false,
            ..Self::line(out)
        }
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            let is_command = match c {
                // GitHub's runner ignores white space before a command.
                ':' => self.at_start,
                '[' => self.hashes >= 2,
                _ => false,
            };
            self.at_start &= c == ' ';
            self.hashes = match c {
                '#' => self.hashes.saturating_add(1),
                _ => 0,
            };
            if is_command || is_deceptive(c) {
                self.out.write_str(&text[plain..at])?;
                match c {
                    '\n' | '\r' | '\t' => write!(self.out, "{}", c.escape_default())?,
                    c => write!(self.out, "{}", c.escape_unicode())?,
                }
                plain = at + c.len_utf8();
            }
        }
        self.out.write_str(&text[plain..])
    }
}

/// Returns text from outside as one line, with every character escaped that does not stand for itself.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    let mut line = String::with_capacity(text.len());
    // Writing to a string does not fail.
    let _ = Escaping::line(&mut line).write_str(text);
    if line == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(line)
    }
}

/// Returns text with line breaks of its own, each line as by [`line()`].
#[must_use]
pub fn lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(line).collect();
    lines.join("\n")
}

/// Returns a JSON document with every deceptive character of its strings escaped as `\uXXXX`. Its meaning stays the
/// same.
#[must_use]
pub fn json(document: String) -> String {
    // JSON has these characters in strings only; line breaks and tabs are also its white space, and escaped in strings.
    let is_deceptive = |c: char| is_deceptive(c) && !matches!(c, '\n' | '\r' | '\t');
    if !document.contains(is_deceptive) {
        return document;
    }
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_deceptive(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Whether a character changes how the text around it is shown, or is not shown at all.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Bidirectional marks, embeddings, overrides and isolates.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separator.
            | '\u{2028}' | '\u{2029}'
            // Characters without width. Joiners stay, because scripts and emoji need them.
            | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Tags.
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_are_escaped() {
        for (raw, escaped) in [
            ("plain: text, ünïcödé", "plain: text, ünïcödé"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31m\u{9b}2J\u{7f}", "\\u{1b}[31m\\u{9b}2J\\u{7f}"),
            (
                "a\u{202e}b\u{2066}c\u{200f}",
                "a\\u{202e}b\\u{2066}c\\u{200f}",
            ),
            ("a\u{2028}b\u{feff}", "a\\u{2028}b\\u{feff}"),
            ("::error::x", "\\u{3a}:error::x"),
            ("  ::error::x", "  \\u{3a}:error::x"),
            ("a ::error::x", "a ::error::x"),
            ("a ##[error]x", "a ##\\u{5b}error]x"),
            ("[::1]:80 #[a]", "[::1]:80 #[a]"),
        ] {
            assert_eq!(line(raw), escaped);
        }
        assert_eq!(lines("a\u{7}\n::b\n"), "a\\u{7}\n\\u{3a}:b\n");
    }

    /// Given text in pieces, then commands across their borders are found.
    #[test]
    fn commands_in_pieces_are_escaped() {
        let mut text = String::new();
        let mut escaping = Escaping::line(&mut text);
        for piece in [" ", ":", ":error::", "#", "#", "[error]"] {
            escaping.write_str(piece).unwrap();
        }
        assert_eq!(text, " \\u{3a}:error::##\\u{5b}error]");
        let mut text = String::new();
        Escaping::inline(&mut text).write_str("::1").unwrap();
        assert_eq!(text, "::1");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a\u{202e}": "b\u{9b}\n\u{e0001}"});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let safe = json(pretty.clone());
        assert!(
            safe.contains("\\u202e") && safe.contains("\\udb40\\udc01"),
            "{safe}"
        );
        assert!(!safe.contains(['\u{202e}', '\u{9b}', '\u{e0001}']));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            value
        );
        assert_eq!(json("{}\n".into()), "{}\n");
    }
}
