//! Values of message options in the text format, as the reader of that format expects them.

use super::token::{Token, TokenKind, tokens};

/// Block of a value in the text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Message,
    List,
}

/// Position inside a message.
///
/// ```text
///   Name ──name──► AfterName ──':'──► Value ──scalar──► AfterValue ──name──► AfterName
///                      │                └──'[', '{'──► block ──close──► AfterValue
///                      └──'{', '['──► block ──close──► AfterValue
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    AfterName,
    Value,
    AfterValue,
}

/// Returns the value with a colon before every list of messages. Text format specification, "Fields":
/// the colon is optional there, but the reader requires it.
pub(super) fn with_colons(value: &str) -> String {
    let tokens: Vec<Token> = tokens(value).collect();
    let mut out = String::with_capacity(value.len());
    let mut done = 0;
    let mut blocks = vec![Block::Message];
    let mut at = At::Name;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let in_list = blocks.last() == Some(&Block::List);
        match token.kind {
            TokenKind::Sign(b'[') if !in_list && matches!(at, At::Name | At::AfterValue) => {
                // Name of an extension.
                let rest = tokens[index..].iter();
                let to_end = rest.take_while(|token| token.kind != TokenKind::Sign(b']'));
                index += to_end.count();
                at = At::AfterName;
            }
            TokenKind::Sign(b'[') => {
                if at == At::AfterName && opens_message(tokens.get(index + 1)) {
                    out.push_str(&value[done..token.range.start]);
                    out.push(':');
                    done = token.range.start;
                }
                blocks.push(Block::List);
                at = At::Value;
            }
            TokenKind::Sign(b'{' | b'<') => {
                blocks.push(Block::Message);
                at = At::Name;
            }
            TokenKind::Sign(b']' | b'}' | b'>') => {
                blocks.pop();
                at = At::AfterValue;
            }
            TokenKind::Sign(b':') => at = At::Value,
            TokenKind::Sign(b',' | b';') => at = At::Name,
            // Decimal points and signs of exponents continue a number.
            TokenKind::Sign(_) => at = At::Value,
            TokenKind::Word => {
                at = match at {
                    At::Value => At::AfterValue,
                    _ => At::AfterName,
                };
            }
            TokenKind::Text => at = At::AfterValue,
            TokenKind::Comment => {}
        }
        index += 1;
    }
    out.push_str(&value[done..]);
    out
}

/// Returns whether the token after `[` shows a list of messages, or an empty list.
fn opens_message(token: Option<&Token>) -> bool {
    token.is_some_and(|token| matches!(token.kind, TokenKind::Sign(b'{' | b'<' | b']')))
}

#[cfg(test)]
mod tests {
    use super::with_colons;

    #[test]
    fn colons_are_added_before_lists_of_messages_only() {
        for (value, expected) in [
            ("a [ { b : 1 } ]", "a :[ { b : 1 } ]"),
            ("a [ < b [ ] > ]", "a :[ < b :[ ] > ]"),
            ("a : [ 1 , 2 ] b [ { } ]", "a : [ 1 , 2 ] b :[ { } ]"),
            ("a : X [ b . c ] : 1", "a : X [ b . c ] : 1"),
            ("a : 1.5 [ b ] [ { } ]", "a : 1.5 [ b ] :[ { } ]"),
            ("a { } [ b ] { c [ { } ] }", "a { } [ b ] { c :[ { } ] }"),
            ("a : \"[\" \"{\" b [ { } ]", "a : \"[\" \"{\" b :[ { } ]"),
            ("a [ 1 ]", "a [ 1 ]"),
        ] {
            assert_eq!(with_colons(value), expected);
        }
    }
}
