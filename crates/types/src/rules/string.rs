//! Rules for strings and bytes.
//!
//! Of the formats in `validate.proto` (`StringRules.well_known`), the API uses only those of HTTP headers.

use envoy_types::pb::validate as pgv;
use envoy_types::pb::validate::string_rules::WellKnown;
use regex::Regex;

use super::broken::BrokenRule;
use crate::clip::{shorten, shorten_bytes};

/// Rules for a string. Patterns are in RE2 syntax, which the `regex` crate implements.
#[derive(Debug)]
pub(super) struct StringRules {
    rules: pgv::StringRules,
    pattern: Option<Regex>,
    format: Option<NamedFormat>,
}

/// A named format with its check.
#[derive(Debug)]
struct NamedFormat {
    name: &'static str,
    holds: fn(&str) -> bool,
}

impl StringRules {
    pub(super) fn compile(rules: pgv::StringRules) -> StringRules {
        let pattern = rules.pattern.as_deref();
        StringRules {
            pattern: pattern.and_then(|pattern| Regex::new(pattern).ok()),
            format: NamedFormat::of(&rules),
            rules,
        }
    }

    pub(super) fn check(&self, value: &str, broken: &mut dyn FnMut(BrokenRule)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail =
            |rule: String| broken(BrokenRule::new(format!("string.{rule}"), shorten(value)));
        let limits = [rules.len, rules.min_len, rules.max_len];
        if limits.iter().any(Option::is_some) {
            let chars = value.chars().count();
            check_len(["len", "min_len", "max_len"], limits, chars, &mut fail);
        }
        check_len(
            ["len_bytes", "min_bytes", "max_bytes"],
            [rules.len_bytes, rules.min_bytes, rules.max_bytes],
            value.len(),
            &mut fail,
        );
        if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(value)) {
            fail(format!("pattern = {:?}", pattern.as_str()));
        }
        let parts: [Part<'_, str>; 5] = [
            ("const", rules.r#const.as_deref(), |value, it| value == it),
            ("prefix", rules.prefix.as_deref(), |value, it| {
                value.starts_with(it)
            }),
            ("suffix", rules.suffix.as_deref(), |value, it| {
                value.ends_with(it)
            }),
            ("contains", rules.contains.as_deref(), |value, it| {
                value.contains(it)
            }),
            (
                "not_contains",
                rules.not_contains.as_deref(),
                |value, it| !value.contains(it),
            ),
        ];
        for (rule, part) in broken_parts(value, parts) {
            fail(format!("{rule} = {part:?}"));
        }
        if !rules.r#in.is_empty() && !rules.r#in.iter().any(|allowed| allowed == value) {
            fail(format!("in = {:?}", rules.r#in));
        }
        if rules.not_in.iter().any(|forbidden| forbidden == value) {
            fail(format!("not_in = {:?}", rules.not_in));
        }
        if let Some(format) = self.format.as_ref().filter(|format| !(format.holds)(value)) {
            fail(format.name.to_owned());
        }
    }
}

impl NamedFormat {
    fn of(rules: &pgv::StringRules) -> Option<NamedFormat> {
        let WellKnown::WellKnownRegex(regex) = rules.well_known? else {
            return None;
        };
        // `validate.proto`: strict is the default.
        let strict = rules.strict.unwrap_or(true);
        let (name, holds): (_, fn(&str) -> bool) = match pgv::KnownRegex::try_from(regex).ok()? {
            pgv::KnownRegex::Unknown => return None,
            _ if !strict => ("well_known_regex (not strict)", is_header_text),
            pgv::KnownRegex::HttpHeaderName => {
                ("well_known_regex = HTTP_HEADER_NAME", is_header_name)
            }
            pgv::KnownRegex::HttpHeaderValue => {
                ("well_known_regex = HTTP_HEADER_VALUE", is_header_value)
            }
        };
        Some(NamedFormat { name, holds })
    }
}

/// Rules for a bytes field; lengths count bytes.
#[derive(Debug)]
pub(super) struct BytesRules {
    rules: pgv::BytesRules,
    pattern: Option<regex::bytes::Regex>,
}

impl BytesRules {
    pub(super) fn compile(rules: pgv::BytesRules) -> BytesRules {
        let pattern = rules.pattern.as_deref();
        BytesRules {
            pattern: pattern.and_then(|pattern| regex::bytes::Regex::new(pattern).ok()),
            rules,
        }
    }

    pub(super) fn check(&self, value: &[u8], broken: &mut dyn FnMut(BrokenRule)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail = |rule: String| {
            broken(BrokenRule::new(
                format!("bytes.{rule}"),
                shorten_bytes(value),
            ));
        };
        let limits = [rules.len, rules.min_len, rules.max_len];
        check_len(
            ["len", "min_len", "max_len"],
            limits,
            value.len(),
            &mut fail,
        );
        if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(value)) {
            fail(format!("pattern = {:?}", pattern.as_str()));
        }
        let parts: [Part<'_, [u8]>; 4] = [
            ("const", rules.r#const.as_deref(), |value, it| value == it),
            ("prefix", rules.prefix.as_deref(), |value, it| {
                value.starts_with(it)
            }),
            ("suffix", rules.suffix.as_deref(), |value, it| {
                value.ends_with(it)
            }),
            ("contains", rules.contains.as_deref(), contains),
        ];
        for (rule, part) in broken_parts(value, parts) {
            fail(format!("{rule} = {}", part.escape_ascii()));
        }
        if !rules.r#in.is_empty() && !rules.r#in.iter().any(|allowed| value == allowed) {
            fail("in".to_owned());
        }
        if rules.not_in.iter().any(|forbidden| value == forbidden) {
            fail("not_in".to_owned());
        }
    }
}

/// A rule about the content of a value: name, operand (if the rule is set), and check.
type Part<'a, T> = (&'static str, Option<&'a T>, fn(&T, &T) -> bool);

/// Returns the rules that the value breaks, with their operands.
fn broken_parts<'a, T: ?Sized, const N: usize>(
    value: &T,
    parts: [Part<'a, T>; N],
) -> impl Iterator<Item = (&'static str, &'a T)> {
    parts.into_iter().filter_map(move |(rule, operand, holds)| {
        let operand = operand.filter(|operand| !holds(value, operand))?;
        Some((rule, operand))
    })
}

fn check_len(
    names: [&str; 3],
    [exact, min, max]: [Option<u64>; 3],
    len: usize,
    fail: &mut dyn FnMut(String),
) {
    let (len, [exact_name, min_name, max_name]) = (len as u64, names);
    if let Some(exact) = exact.filter(|exact| len != *exact) {
        fail(format!("{exact_name} = {exact}"));
    }
    if let Some(min) = min.filter(|min| len < *min) {
        fail(format!("{min_name} = {min}"));
    }
    if let Some(max) = max.filter(|max| len > *max) {
        fail(format!("{max_name} = {max}"));
    }
}

/// Returns whether a text is a strict `HTTP_HEADER_NAME`: a token (RFC 7230), with an optional colon before it for
/// pseudo-headers.
fn is_header_name(text: &str) -> bool {
    let name = text.strip_prefix(':').unwrap_or(text);
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(token)
}

/// Returns whether a text is a strict `HTTP_HEADER_VALUE`: no control characters but tab.
fn is_header_value(text: &str) -> bool {
    !text.bytes().any(|b| matches!(b, 0..=8 | 10..=31 | 127))
}

/// Returns whether a text is a header name or value that is not strict: it has no NUL, CR or LF.
fn is_header_text(text: &str) -> bool {
    !text.contains(['\0', '\n', '\r'])
}

/// Returns whether `part` occurs in `whole`.
fn contains(whole: &[u8], part: &[u8]) -> bool {
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
    fn header_formats_accept_names_and_values() {
        accepts(
            is_header_name,
            &["x-y", ":path", "X_1"],
            &["", ":", "a b", "a:b", "a\n"],
        );
        accepts(is_header_value, &["", "a\tb", "ü"], &["a\nb", "\x7f", "\0"]);
        accepts(is_header_text, &["", "a b", "\x01"], &["a\nb", "\r", "\0"]);
    }
}
