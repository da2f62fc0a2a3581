//! The formats that rules ask for by name (`validate.proto`, `StringRules.well_known`): of all there are, the API uses
//! those of headers only.

/// `HTTP_HEADER_NAME`, strict: a token (RFC 7230), perhaps behind a colon (pseudo-headers).
pub(super) fn is_header_name(text: &str) -> bool {
    let name = text.strip_prefix(':').unwrap_or(text);
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(token)
}

/// `HTTP_HEADER_VALUE`, strict: no control characters but tab.
pub(super) fn is_header_value(text: &str) -> bool {
    !text.bytes().any(|b| matches!(b, 0..=8 | 10..=31 | 127))
}

/// Both, not strict: nothing that ends a header.
pub(super) fn is_header_text(text: &str) -> bool {
    !text.contains(['\0', '\n', '\r'])
}

/// Whether `part` occurs in `whole`.
pub(super) fn contains(whole: &[u8], part: &[u8]) -> bool {
    part.is_empty() || whole.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(holds: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(holds(text), "{text:?} is good");
        }
        for text in bad {
            assert!(!holds(text), "{text:?} is bad");
        }
    }

    #[test]
    fn headers() {
        accepts(
            is_header_name,
            &["x-y", ":path", "X_1"],
            &["", ":", "a b", "a:b", "a\n"],
        );
        accepts(is_header_value, &["", "a\tb", "ü"], &["a\nb", "\x7f", "\0"]);
        accepts(is_header_text, &["", "a b", "\x01"], &["a\nb", "\r", "\0"]);
    }
}
