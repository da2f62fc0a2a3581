//! The formats that rules can ask for by name (`validate.proto`, `StringRules.well_known`).

use std::net::IpAddr;

/// RFC 1034 §3.5, as protoc-gen-validate reads it: up to 253 characters; labels of up to 63
/// letters, digits and inner hyphens; one final dot allowed.
pub(super) fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

/// A host name or an IP address.
pub(super) fn is_address(text: &str) -> bool {
    is_hostname(text) || text.parse::<IpAddr>().is_ok()
}

/// `local@host`, the `addr-spec` of RFC 5322 without comments and quotes.
pub(super) fn is_email(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else {
        return false;
    };
    let atom = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    text.len() <= 254
        && local.len() <= 64
        && local
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(atom))
        && is_hostname(host)
}

/// RFC 3986: with a scheme.
pub(super) fn is_uri(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && is_uri_text(rest)
    })
}

/// RFC 3986: with or without a scheme. Without one, the first segment has no colon.
pub(super) fn is_uri_reference(text: &str) -> bool {
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    is_uri(text) || (!first.contains(':') && is_uri_text(text))
}

/// Only characters that a URI may have, percent signs only as escapes.
fn is_uri_text(text: &str) -> bool {
    let hex = |s: Option<&str>| s.is_some_and(|s| s.bytes().all(|b| b.is_ascii_hexdigit()));
    let allowed = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    text.bytes().all(allowed)
        && text
            .match_indices('%')
            .all(|(at, _)| hex(text.get(at + 1..at + 3)))
}

/// RFC 4122, in either case.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

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
    fn hostnames() {
        let long = "a".repeat(64);
        accepts(
            is_hostname,
            &["a", "a-b.c", "EXAMPLE.com.", "1.2"],
            &["", ".", "a..b", "-a", "a-", "a_b", &long],
        );
        accepts(is_address, &["a.b", "::1", "10.0.0.1"], &["[::1]", "a b"]);
    }

    #[test]
    fn emails() {
        accepts(
            is_email,
            &["a.b+c@x.org"],
            &["", "a", "@x", "a@", "a..b@x", "a b@x"],
        );
    }

    #[test]
    fn uris() {
        accepts(
            is_uri,
            &["http://a/b?c#d", "urn:x:%20", "spiffe://td/ns"],
            &["", "/a", "1a:b", "a:%2", "a: b"],
        );
        accepts(
            is_uri_reference,
            &["", "/a", "a/b:c", "http://a", "?q"],
            &["a b", "1a:b", "%zz"],
        );
    }

    #[test]
    fn uuids() {
        accepts(
            is_uuid,
            &["00000000-0000-0000-0000-00000000000F"],
            &["", "00000000-0000-0000-0000-00000000000g"],
        );
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
