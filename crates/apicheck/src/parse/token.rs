//! Tokenizer for comments and editions, which the parser does not report.

use std::ops::Range;

/// Token, as a byte range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Keyword, part of a name, or number.
    Word,
    /// String literal, quotes included.
    Text,
    /// Comment with its markers, without the line end.
    Comment,
    /// Any other single character, by its first byte.
    Sign(u8),
}

/// Returns all tokens of a text. Invalid input becomes a sign or ends with the text; the parser
/// reports it.
pub(crate) fn tokens(source: &str) -> impl Iterator<Item = Token> + '_ {
    let bytes = source.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at)?.is_ascii_whitespace() {
            at += 1;
        }
        let start = at;
        let rest = bytes.get(start..)?;
        let (kind, length) = match *rest {
            [b'/', b'/', ..] => (TokenKind::Comment, until(rest, b"\n", 0)),
            [b'/', b'*', ..] => (TokenKind::Comment, until(rest, b"*/", 2) + 2),
            [quote @ (b'"' | b'\''), ..] => (TokenKind::Text, text(rest, quote)),
            [first, ..] if is_word(first) => {
                let end = rest.iter().position(|byte| !is_word(*byte));
                (TokenKind::Word, end.unwrap_or(rest.len()))
            }
            [sign, ..] => {
                let letter = source.get(start..).and_then(|rest| rest.chars().next());
                (TokenKind::Sign(sign), letter.map_or(1, char::len_utf8))
            }
            [] => return None,
        };
        at = (start + length).min(bytes.len());
        Some(Token {
            kind,
            range: start..at,
        })
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the offset of `end`, searched from `from` on, or the length of the text.
fn until(bytes: &[u8], end: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let found = rest.windows(end.len()).position(|window| window == end);
    found.map_or(bytes.len(), |at| from + at)
}

/// Returns the length of a string literal. It ends at the end of its line at the latest.
fn text(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' => at += 2,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, tokens};

    #[test]
    fn all_token_kinds_are_recognised() {
        let source = "a.b='\\'//' // c\n/* d */ü\"x";
        let found: Vec<_> = tokens(source)
            .map(|token| (token.kind, &source[token.range]))
            .collect();
        let expected = [
            (TokenKind::Word, "a"),
            (TokenKind::Sign(b'.'), "."),
            (TokenKind::Word, "b"),
            (TokenKind::Sign(b'='), "="),
            (TokenKind::Text, "'\\'//'"),
            (TokenKind::Comment, "// c"),
            (TokenKind::Comment, "/* d */"),
            (TokenKind::Sign(0xc3), "ü"),
            (TokenKind::Text, "\"x"),
        ];
        assert_eq!(found, expected);
    }
}
