//! Rules on strings and bytes.

use envoy_types::pb::validate as pgv;
use envoy_types::pb::validate::string_rules::WellKnown;
use regex::Regex;

use super::Broken;
use super::format;
use super::rules::{shorten, shorten_bytes};

/// Rules on a string; the pattern is RE2's dialect, which is what `regex` speaks.
#[derive(Debug)]
pub(super) struct StringRules {
    rules: pgv::StringRules,
    pattern: Option<Regex>,
    format: Option<Format>,
}

/// A named format and its check.
#[derive(Debug)]
struct Format {
    name: &'static str,
    holds: fn(&str) -> bool,
}

impl StringRules {
    pub(super) fn compile(rules: pgv::StringRules) -> StringRules {
        let pattern = rules.pattern.as_deref();
        StringRules {
            pattern: pattern.and_then(|pattern| Regex::new(pattern).ok()),
            format: Format::of(&rules),
            rules,
        }
    }

    pub(super) fn check(&self, value: &str, broken: &mut dyn FnMut(Broken)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail = |rule: String| broken(Broken::new(format!("string.{rule}"), shorten(value)));
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

impl Format {
    fn of(rules: &pgv::StringRules) -> Option<Format> {
        let WellKnown::WellKnownRegex(regex) = rules.well_known? else {
            return None;
        };
        // Strict unless said otherwise.
        let strict = rules.strict.unwrap_or(true);
        let (name, holds): (_, fn(&str) -> bool) = match pgv::KnownRegex::try_from(regex).ok()? {
            pgv::KnownRegex::Unknown => return None,
            _ if !strict => ("well_known_regex (not strict)", format::is_header_text),
            pgv::KnownRegex::HttpHeaderName => (
                "well_known_regex = HTTP_HEADER_NAME",
                format::is_header_name,
            ),
            pgv::KnownRegex::HttpHeaderValue => (
                "well_known_regex = HTTP_HEADER_VALUE",
                format::is_header_value,
            ),
        };
        Some(Format { name, holds })
    }
}

/// Rules on bytes.
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

    pub(super) fn check(&self, value: &[u8], broken: &mut dyn FnMut(Broken)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail =
            |rule: String| broken(Broken::new(format!("bytes.{rule}"), shorten_bytes(value)));
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
            ("contains", rules.contains.as_deref(), format::contains),
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

/// A rule about what a value is, or has in it: its name, what it asks for if at all, and how that is seen.
type Part<'a, T> = (&'static str, Option<&'a T>, fn(&T, &T) -> bool);

/// The rules that do not hold, with what they ask for.
fn broken_parts<'a, T: ?Sized, const N: usize>(
    value: &T,
    parts: [Part<'a, T>; N],
) -> impl Iterator<Item = (&'static str, &'a T)> {
    parts.into_iter().filter_map(move |(rule, asked, holds)| {
        let asked = asked.filter(|asked| !holds(value, asked))?;
        Some((rule, asked))
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
