//! Rules on strings and bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use envoy_types::pb::validate as pgv;
use envoy_types::pb::validate::bytes_rules::WellKnown as BytesFormat;
use envoy_types::pb::validate::string_rules::WellKnown as StringFormat;
use regex::Regex;

use super::Broken;
use super::format;
use super::rules::{shorten, shorten_bytes};

/// Rules on a string; the pattern is RE2's dialect, which is what `regex` speaks.
#[derive(Debug)]
pub(super) struct StringRules {
    rules: pgv::StringRules,
    pattern: Option<Regex>,
    format: Option<Format<str>>,
}

/// A named format and its check.
#[derive(Debug)]
struct Format<T: ?Sized> {
    name: &'static str,
    holds: fn(&T) -> bool,
}

impl StringRules {
    pub(super) fn compile(rules: pgv::StringRules) -> StringRules {
        StringRules {
            pattern: rules
                .pattern
                .as_deref()
                .and_then(|pattern| Regex::new(pattern).ok()),
            format: string_format(&rules),
            rules,
        }
    }

    pub(super) fn check(&self, value: &str, broken: &mut dyn FnMut(Broken)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail = |rule: String| broken(Broken::new(format!("string.{rule}"), shorten(value)));
        if rules
            .r#const
            .as_ref()
            .is_some_and(|expected| value != expected)
        {
            fail(format!("const = {:?}", rules.r#const()));
        }
        if rules.len.is_some() || rules.min_len.is_some() || rules.max_len.is_some() {
            let chars = value.chars().count() as u64;
            check_len(
                ["len", "min_len", "max_len"],
                [rules.len, rules.min_len, rules.max_len],
                chars,
                &mut fail,
            );
        }
        check_len(
            ["len_bytes", "min_bytes", "max_bytes"],
            [rules.len_bytes, rules.min_bytes, rules.max_bytes],
            value.len() as u64,
            &mut fail,
        );
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.is_match(value))
        {
            fail(format!("pattern = {:?}", rules.pattern()));
        }
        if rules
            .prefix
            .as_ref()
            .is_some_and(|prefix| !value.starts_with(prefix))
        {
            fail(format!("prefix = {:?}", rules.prefix()));
        }
        if rules
            .suffix
            .as_ref()
            .is_some_and(|suffix| !value.ends_with(suffix))
        {
            fail(format!("suffix = {:?}", rules.suffix()));
        }
        if rules
            .contains
            .as_ref()
            .is_some_and(|part| !value.contains(part))
        {
            fail(format!("contains = {:?}", rules.contains()));
        }
        if rules
            .not_contains
            .as_ref()
            .is_some_and(|part| value.contains(part))
        {
            fail(format!("not_contains = {:?}", rules.not_contains()));
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

fn check_len(
    names: [&str; 3],
    [exact, min, max]: [Option<u64>; 3],
    len: u64,
    fail: &mut dyn FnMut(String),
) {
    let [exact_name, min_name, max_name] = names;
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

fn string_format(rules: &pgv::StringRules) -> Option<Format<str>> {
    let (on, name, holds): (_, _, fn(&str) -> bool) = match rules.well_known? {
        StringFormat::Email(on) => (on, "email", format::is_email),
        StringFormat::Hostname(on) => (on, "hostname", format::is_hostname),
        StringFormat::Ip(on) => (on, "ip", |s| s.parse::<IpAddr>().is_ok()),
        StringFormat::Ipv4(on) => (on, "ipv4", |s| s.parse::<Ipv4Addr>().is_ok()),
        StringFormat::Ipv6(on) => (on, "ipv6", |s| s.parse::<Ipv6Addr>().is_ok()),
        StringFormat::Uri(on) => (on, "uri", format::is_uri),
        StringFormat::UriRef(on) => (on, "uri_ref", format::is_uri_reference),
        StringFormat::Address(on) => (on, "address", format::is_address),
        StringFormat::Uuid(on) => (on, "uuid", format::is_uuid),
        StringFormat::WellKnownRegex(regex) => {
            // Strict unless said otherwise.
            let strict = rules.strict.unwrap_or(true);
            match pgv::KnownRegex::try_from(regex).ok()? {
                pgv::KnownRegex::Unknown => return None,
                _ if !strict => (
                    true,
                    "well_known_regex (not strict)",
                    format::is_header_text,
                ),
                pgv::KnownRegex::HttpHeaderName => (
                    true,
                    "well_known_regex = HTTP_HEADER_NAME",
                    format::is_header_name,
                ),
                pgv::KnownRegex::HttpHeaderValue => (
                    true,
                    "well_known_regex = HTTP_HEADER_VALUE",
                    format::is_header_value,
                ),
            }
        }
    };
    on.then_some(Format { name, holds })
}

/// Rules on bytes.
#[derive(Debug)]
pub(super) struct BytesRules {
    rules: pgv::BytesRules,
    pattern: Option<regex::bytes::Regex>,
    format: Option<Format<[u8]>>,
}

impl BytesRules {
    pub(super) fn compile(rules: pgv::BytesRules) -> BytesRules {
        let pattern = rules.pattern.as_deref();
        BytesRules {
            pattern: pattern.and_then(|pattern| regex::bytes::Regex::new(pattern).ok()),
            format: rules.well_known.and_then(bytes_format),
            rules,
        }
    }

    pub(super) fn check(&self, value: &Bytes, broken: &mut dyn FnMut(Broken)) {
        let rules = &self.rules;
        if value.is_empty() && rules.ignore_empty() {
            return;
        }
        let mut fail =
            |rule: String| broken(Broken::new(format!("bytes.{rule}"), shorten_bytes(value)));
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        if rules
            .r#const
            .as_ref()
            .is_some_and(|expected| value != expected)
        {
            fail(format!("const = {}", shown(rules.r#const())));
        }
        let limits = [rules.len, rules.min_len, rules.max_len];
        check_len(
            ["len", "min_len", "max_len"],
            limits,
            value.len() as u64,
            &mut fail,
        );
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.is_match(value))
        {
            fail(format!("pattern = {:?}", rules.pattern()));
        }
        if rules
            .prefix
            .as_ref()
            .is_some_and(|prefix| !value.starts_with(prefix))
        {
            fail(format!("prefix = {}", shown(rules.prefix())));
        }
        if rules
            .suffix
            .as_ref()
            .is_some_and(|suffix| !value.ends_with(suffix))
        {
            fail(format!("suffix = {}", shown(rules.suffix())));
        }
        if rules
            .contains
            .as_ref()
            .is_some_and(|part| !format::contains(value, part))
        {
            fail(format!("contains = {}", shown(rules.contains())));
        }
        if !rules.r#in.is_empty() && !rules.r#in.iter().any(|allowed| value == allowed) {
            fail("in".to_owned());
        }
        if rules.not_in.iter().any(|forbidden| value == forbidden) {
            fail("not_in".to_owned());
        }
        if let Some(format) = self.format.as_ref().filter(|format| !(format.holds)(value)) {
            fail(format.name.to_owned());
        }
    }
}

fn bytes_format(format: BytesFormat) -> Option<Format<[u8]>> {
    let (on, name, holds): (_, _, fn(&[u8]) -> bool) = match format {
        BytesFormat::Ip(on) => (on, "ip", |v| matches!(v.len(), 4 | 16)),
        BytesFormat::Ipv4(on) => (on, "ipv4", |v| v.len() == 4),
        BytesFormat::Ipv6(on) => (on, "ipv6", |v| v.len() == 16),
    };
    on.then_some(Format { name, holds })
}
