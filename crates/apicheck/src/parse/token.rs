//! The tokens of a text, as far as the parser's answer does not tell them.

use std::ops::Range;

/// A token, by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) range: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword, a part of a name, or a number.
    Word,
    /// A string literal, quotes included.
    Text,
    /// A comment, its markers included, without the end of the line.
    Comment,
    /// A single other character, by its first byte.
    Sign(u8),
}

/// All tokens of a text. What is no token of the language is a sign or ends with the text: the parser
/// tells what is wrong with it.
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
            [b'/', b'/', ..] => (Kind::Comment, until(rest, b"\n", 0)),
            [b'/', b'*', ..] => (Kind::Comment, until(rest, b"*/", 2) + 2),
            [quote @ (b'"' | b'\''), ..] => (Kind::Text, text(rest, quote)),
            [first, ..] if is_word(first) => {
                let end = rest.iter().position(|byte| !is_word(*byte));
                (Kind::Word, end.unwrap_or(rest.len()))
            }
            [sign, ..] => {
                let letter = source.get(start..).and_then(|rest| rest.chars().next());
                (Kind::Sign(sign), letter.map_or(1, char::len_utf8))
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

/// Where `end` begins, from `from` on, or else the end of all.
fn until(bytes: &[u8], end: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let found = rest.windows(end.len()).position(|window| window == end);
    found.map_or(bytes.len(), |at| from + at)
}

/// The length of a string literal; it ends with its line at the latest.
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
    use super::{Kind, tokens};

    #[test]
    fn tokens_are_told_apart() {
        let source = "a.b='\\'//' // c\n/* d */ü\"x";
        let found: Vec<_> = tokens(source)
            .map(|token| (token.kind, &source[token.range]))
            .collect();
        let expected = [
            (Kind::Word, "a"),
            (Kind::Sign(b'.'), "."),
            (Kind::Word, "b"),
            (Kind::Sign(b'='), "="),
            (Kind::Text, "'\\'//'"),
            (Kind::Comment, "// c"),
            (Kind::Comment, "/* d */"),
            (Kind::Sign(0xc3), "ü"),
            (Kind::Text, "\"x"),
        ];
        assert_eq!(found, expected);
    }
}
